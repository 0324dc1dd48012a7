//! What a script does to files itself, beside the session managers: set them up, look at them, play the foreign program.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use session_core::{AgentDir, quote};

use super::Failure;
use super::answer::{Object, Outcome, array, text_or_null};
use super::arguments::Arguments;

/// The operation's outcome, or none when it is not one of these.
pub(super) fn run(op: &str, args: &Arguments, agent: &AgentDir) -> Option<Outcome> {
    let nothing = |done: io::Result<()>| done.map(|()| "null".to_owned()).map_err(Failure::from);
    let outcome = || -> Result<Option<Outcome>, Failure> {
        Ok(Some(match op {
            "readFile" => Ok(text_or_null(read(&args.path(0)?)?)),
            "writeFile" => nothing(write(&args.path(0)?, &args.text(1)?)),
            "appendFile" => nothing(append(&args.path(0)?, &args.text(1)?)),
            "mkdir" => nothing(fs::create_dir_all(args.path(0)?)),
            "rm" => nothing(remove(&args.path(0)?)),
            "rename" => nothing(fs::rename(args.path(0)?, args.path(1)?)),
            "symlink" => nothing(symlink(args.path(0)?, args.path(1)?)),
            "chmod" => nothing(change_mode(&args.path(0)?, &args.text(1).or_else(|_| octal(args))?)),
            "utimes" => nothing(set_modified(&args.path(0)?, args.integer(1)?)),
            "ls" => Ok(array(list(&args.path(0)?)?.iter().map(|name| quote(name)))),
            "blobs" => blobs(&agent.blobs()).map_err(Failure::from),
            "pointers" => pointers(&agent.terminal_sessions()).map_err(Failure::from),
            "mode" => Ok(quote(&format!("{:o}", fs::metadata(args.path(0)?)?.permissions().mode() & 0o7777))),
            "mtime" => Ok(modified(&args.path(0)?)?.to_string()),
            "dirname" => Ok(text_or_null(args.path(0)?.parent().map(Path::to_string_lossy))),
            _ => return Ok(None),
        }))
    };
    outcome().unwrap_or_else(|failure| Some(Err(failure)))
}

/// The text of a file; none when there is no file.
pub(super) fn read(path: &Path) -> io::Result<Option<String>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Writes a file and the directories that it needs.
pub(super) fn write(path: &Path, text: &str) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::write(path, text)
}

fn append(path: &Path, text: &str) -> io::Result<()> {
    OpenOptions::new().append(true).create(true).open(path)?.write_all(text.as_bytes())
}

fn remove(path: &Path) -> io::Result<()> {
    if fs::symlink_metadata(path)?.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }
}

/// The mode that a script gives as an octal number: 600 is `"600"`.
fn octal(args: &Arguments) -> Result<String, Failure> {
    Ok(args.integer(1)?.to_string())
}

fn change_mode(path: &Path, mode: &str) -> io::Result<()> {
    let mode = u32::from_str_radix(mode, 8).map_err(io::Error::other)?;
    fs::set_permissions(path, Permissions::from_mode(mode))
}

fn set_modified(path: &Path, seconds: i64) -> io::Result<()> {
    let time = u64::try_from(seconds).ok().and_then(|seconds| UNIX_EPOCH.checked_add(Duration::from_secs(seconds)));
    File::open(path)?.set_modified(time.unwrap_or(SystemTime::UNIX_EPOCH))
}

fn modified(path: &Path) -> io::Result<u64> {
    let since = fs::metadata(path)?.modified()?.duration_since(UNIX_EPOCH);
    since.map(|since| since.as_secs()).map_err(io::Error::other)
}

/// Everything below a directory, relative to it, sorted; directories end in `/`. Lock files are ours and left out.
fn list(dir: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    let mut rest = vec![(dir.to_owned(), String::new())];
    while let Some((dir, prefix)) = rest.pop() {
        for item in fs::read_dir(dir)? {
            let item = item?;
            let name = format!("{prefix}{}", item.file_name().to_string_lossy());
            if item.file_type()?.is_dir() {
                let name = format!("{name}/");
                rest.push((item.path(), name.clone()));
                names.push(name);
            } else if item.path().extension().is_none_or(|extension| extension != "lock") {
                names.push(name);
            }
        }
    }
    names.sort();
    Ok(names)
}

/// The names of the files in a directory, sorted; none when it is not there.
fn names_in(dir: &Path) -> io::Result<Vec<String>> {
    let listing = match fs::read_dir(dir) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        listing => listing?,
    };
    let mut names = listing
        .map(|item| item.map(|item| item.file_name().to_string_lossy().into_owned()))
        .collect::<io::Result<Vec<_>>>()?;
    names.sort();
    Ok(names)
}

fn blobs(dir: &Path) -> io::Result<String> {
    let blobs = names_in(dir)?.into_iter().map(|name| {
        let size = fs::metadata(dir.join(&name))?.len();
        Ok(Object::new().with("name", quote(&name)).with("size", size))
    });
    Ok(array(blobs.collect::<io::Result<Vec<_>>>()?))
}

fn pointers(dir: &Path) -> io::Result<String> {
    let mut pointers = Object::new();
    for name in names_in(dir)? {
        pointers.add(&name, text_or_null(read(&dir.join(&name))?));
    }
    Ok(pointers.to_string())
}

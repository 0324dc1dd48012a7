//! The trash and deletion for good `[S3, D9, D10]`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use session_core::storage::{FileSessionStorage, SessionStorage};
use session_core::{
    AgentDir, ErrorKind, ManualClock, Timestamp, Trash, Trashed, delete_session_with_artifacts, session_writers,
};

struct Place {
    _dir: tempfile::TempDir,
    root: PathBuf,
    file: PathBuf,
    storage: Arc<dyn SessionStorage>,
    trash: Trash,
}

fn place() -> Place {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().to_path_buf();
    let sessions = root.join("sessions/--w--");
    let file = sessions.join("2026-01-05T09-30-00-000Z_15c0.jsonl");
    fs::create_dir_all(file.with_extension("").join("nested/deeper")).unwrap();
    fs::write(&file, b"{\"type\":\"session\",\"id\":\"15c0\"}\n\xff torn").unwrap();
    fs::write(file.with_extension("").join("0.bash.log"), "log").unwrap();
    fs::write(file.with_extension("").join("nested/deeper/sub.jsonl"), "sub\n").unwrap();
    let storage: Arc<dyn SessionStorage> = Arc::new(FileSessionStorage::new());
    let clock = Arc::new(ManualClock::at(Timestamp::parse("2026-02-01T00:00:00Z").unwrap()));
    let trash = Trash::of(Arc::clone(&storage), &AgentDir::at(&root).unwrap(), clock);
    Place { _dir: dir, root, file, storage, trash }
}

/// Every file below `dir` with its bytes and modification time, by relative path.
fn picture(dir: &Path) -> BTreeMap<PathBuf, (Vec<u8>, std::time::SystemTime)> {
    let mut files = BTreeMap::new();
    let mut dirs = vec![dir.to_path_buf()];
    while let Some(next) = dirs.pop() {
        for item in fs::read_dir(next).unwrap() {
            let path = item.unwrap().path();
            if path.is_dir() {
                dirs.push(path);
            } else {
                let modified = fs::metadata(&path).unwrap().modified().unwrap();
                files.insert(path.strip_prefix(dir).unwrap().to_path_buf(), (fs::read(&path).unwrap(), modified));
            }
        }
    }
    files
}

fn listed(trash: &Trash) -> Vec<Trashed> {
    trash.list().unwrap().into_iter().map(Result::unwrap).collect()
}

#[test]
fn what_went_to_the_trash_comes_back_byte_for_byte() {
    // D9, D10
    let place = place();
    let before = picture(&place.root.join("sessions"));
    let deleted = place.trash.put(&place.file).unwrap();
    assert!(picture(&place.root.join("sessions")).is_empty());
    assert_eq!(listed(&place.trash), std::slice::from_ref(&deleted));
    assert_eq!(deleted.origin(), place.file);
    assert_eq!(deleted.name(), "2026-02-01T00-00-00-000Z_15c0");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&place.root.join(".session-trash")), 0o700);
        assert_eq!(mode(&deleted.file().with_file_name("origin")), 0o600);
    }
    // The directory that it lay in may be gone by then.
    fs::remove_dir_all(place.root.join("sessions")).unwrap();
    place.trash.restore(&deleted).unwrap();
    assert_eq!(picture(&place.root.join("sessions")), before);
    assert!(listed(&place.trash).is_empty());
}

#[test]
fn nothing_is_put_over_something_else() {
    let place = place();
    let first = place.trash.put(&place.file).unwrap();
    fs::write(&place.file, "another").unwrap();
    let error = place.trash.restore(&first).unwrap_err();
    assert_eq!((error.kind(), error.path()), (ErrorKind::AlreadyExists, Some(place.file.as_path())));
    // Both deletions of one name, in the same instant, stay apart.
    let second = place.trash.put(&place.file).unwrap();
    assert_ne!(first.name(), second.name());
    // Artifacts of somebody else in the way: the session stays in the trash.
    fs::create_dir(place.file.with_extension("")).unwrap();
    assert_eq!(place.trash.restore(&first).unwrap_err().kind(), ErrorKind::AlreadyExists);
    assert!(!place.file.exists() && first.file().exists());
    place.trash.restore(&second).unwrap();
    assert_eq!(fs::read_to_string(&place.file).unwrap(), "another");
    place.trash.empty().unwrap();
    assert!(listed(&place.trash).is_empty() && place.file.exists());
}

#[test]
fn an_item_that_is_damaged_hides_no_other_and_leads_nowhere() {
    let place = place();
    let good = place.trash.put(&place.file).unwrap();
    for (name, origin) in [
        ("torn", "{\"pa"),
        ("relative", r#"{"path":"x.jsonl","deleted":"2026-02-01T00:00:00.000Z"}"#),
        ("climbing", r#"{"path":"/a/../../etc/x.jsonl","deleted":"2026-02-01T00:00:00.000Z"}"#),
        ("gone", r#"{"path":"/a/x.jsonl","deleted":"2026-02-01T00:00:00.000Z"}"#),
        ("timeless", r#"{"path":"/a/x.jsonl","deleted":"soon"}"#),
    ] {
        let dir = place.root.join(".session-trash").join(name);
        fs::create_dir(&dir).unwrap();
        fs::write(dir.join("origin"), origin).unwrap();
    }
    let all = place.trash.list().unwrap();
    assert_eq!(all.len(), 6);
    assert_eq!(all.iter().flatten().collect::<Vec<_>>(), [&good]);
    assert!(all.iter().filter_map(|item| item.as_ref().err()).all(|error| error.path().is_some()));
    place.trash.erase(&good).unwrap();
    assert!(!good.file().exists());
    assert_eq!(place.trash.put(&place.file).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(place.trash.put(&place.root.join("sessions")).unwrap_err().kind(), ErrorKind::NotAFile);
}

#[test]
fn deleting_for_good_takes_the_artifacts_and_says_what_is_left() {
    // S3
    let place = place();
    let dir = place.file.with_extension("");
    delete_session_with_artifacts(&place.storage, &place.file).unwrap();
    assert!(!place.file.exists() && !dir.exists());
    let again = delete_session_with_artifacts(&place.storage, &place.file).unwrap_err();
    assert_eq!(again.kind(), ErrorKind::NotFound);
    // A file where the directory should be cannot be removed as a tree.
    fs::write(&place.file, "x").unwrap();
    fs::write(&dir, "in the way").unwrap();
    let left = delete_session_with_artifacts(&place.storage, &place.file).unwrap_err();
    assert_eq!(left.path(), Some(dir.as_path()), "{left}");
    assert!(!place.file.exists() && dir.exists());
}

#[cfg(target_os = "linux")]
#[test]
fn who_writes_a_session_or_one_of_its_sub_agents_is_named() {
    let place = place();
    assert!(session_writers(&*place.storage, &place.file).unwrap().is_empty());
    for file in [place.file.clone(), place.file.with_extension("").join("nested/deeper/sub.jsonl")] {
        let writer = fs::OpenOptions::new().append(true).open(&file).unwrap();
        let mut child = std::process::Command::new("sleep").arg("60").stdout(writer).spawn().unwrap();
        let found = session_writers(&*place.storage, &place.file).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        let found: Vec<_> = found.iter().map(|(path, holder)| (path.clone(), holder.pid)).collect();
        assert_eq!(found, [(file, child.id())]);
    }
}

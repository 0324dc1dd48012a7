//! The TypeScript extension, as it is shipped: type-checked, driven by a fake harness, and its state read by the others.
//!
//! Needs `tsc` (or a package with it that `npx` finds) and `node`; what is not at hand is said on standard error.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use plugin_sdk::{ErrorKind, Extension, State, Version};
use serde_json::{Value, json};
use session_core::SessionManager;

use crate::ext::{parsed, rest, skipped};
use crate::support::{World, until};

fn harness() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../plugin-sdk/harness")
}

/// The path of this process: what is at hand.
fn path() -> impl AsRef<OsStr> {
    std::env::var_os("PATH").unwrap_or_default()
}

#[test]
fn the_extensions_are_type_checked() {
    let home = tempfile::tempdir().unwrap();
    let run = |command: &[&str], words: &[&OsStr]| -> std::io::Result<Output> {
        let mut compiler = Command::new(command[0]);
        compiler.args(&command[1..]).args(words).env_clear().env("PATH", path()).env("HOME", home.path());
        compiler.stdin(Stdio::null()).output()
    };
    let works = |command: &&&[&str]| {
        run(command, &["--version".as_ref()]).is_ok_and(|output| output.stdout.starts_with(b"Version "))
    };
    let compilers: [&[&str]; 2] = [&["tsc"], &["npx", "--no-install", "tsc"]];
    let Some(compiler) = compilers.iter().find(works) else {
        return skipped("the types of the TypeScript extensions", "tsc", &std::io::ErrorKind::NotFound.into());
    };
    let output = run(compiler, &["--project".as_ref(), harness().as_os_str()]).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));

    // It does see what is wrong.
    for file in ["node.d.ts", "tsconfig.json", "extension/watcher.ts", "extension/todo.ts"] {
        let copy = home.path().join(file);
        fs::create_dir_all(copy.parent().unwrap()).unwrap();
        let text = fs::read_to_string(harness().join(file)).unwrap();
        let wrong = text.replace("{ text, done: false }]", "{ text, done: 0 }]");
        assert_eq!(wrong != text, file.ends_with("todo.ts"));
        fs::write(copy, wrong).unwrap();
    }
    let output = run(compiler, &["--project".as_ref(), home.path().as_os_str()]).unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(!output.status.success() && said.contains("todo.ts"), "{said}");
}

/// What the extension did in the fake harness of `plugin-sdk/harness/fake.mjs`; none without node.
fn node(world: &World, words: &[&str], environment: &[(&str, &str)]) -> Option<String> {
    // Where a harness would have it.
    let extension = world.home().join(".xcsh/agent/extensions/watcher.ts");
    fs::create_dir_all(extension.parent().unwrap()).unwrap();
    fs::copy(harness().join("extension/watcher.ts"), &extension).unwrap();
    let mut command = Command::new("node");
    command.arg(harness().join("fake.mjs")).arg(&extension).args(words).env_clear().env("HOME", world.home());
    command.env("PATH", path()).envs(environment.iter().copied());
    match command.stdin(Stdio::null()).output() {
        Ok(output) => {
            assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
            Some(String::from_utf8(output.stdout).unwrap())
        }
        Err(error) => {
            skipped("the TypeScript extension", "node", &error);
            None
        }
    }
}

/// Who keeps state in sessions.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Who {
    Rust,
    TypeScript,
    Script,
}

const ALL: [Who; 3] = [Who::Rust, Who::TypeScript, Who::Script];

/// A state of one session, for all three.
struct Shared<'w> {
    world: &'w World,
    file: &'w Path,
    name: &'w str,
}

impl Shared<'_> {
    /// The state as Rust has it; each step of an upgrade leaves its mark.
    fn state(&self, version: u32) -> State<Value> {
        let state = Extension::new(self.name).unwrap().state::<Value>(Version(version));
        (0..version).fold(state, |state, from| {
            let mark = move |mut data: Value| {
                data["upgraded"] = json!(format!("{from} to {}", from + 1));
                Ok(data)
            };
            state.upgrade(Version(from), mark).unwrap()
        })
    }

    fn node(&self, command: &str, version: u32, words: &[&str]) -> String {
        let version = version.to_string();
        let words = [&[command, self.file.to_str().unwrap(), self.name, &version], words].concat();
        node(self.world, &words, &[]).unwrap().trim_end().to_owned()
    }

    /// Whether something was appended; or why not.
    fn save(&self, who: Who, version: u32, value: &Value) -> Result<bool, String> {
        let json = value.to_string();
        let saved = match who {
            Who::Rust => {
                let mut session = SessionManager::open(&self.world.host(), self.file, None).unwrap();
                let saved = self.state(version).save(&mut session, value);
                saved.map(|saved| saved.entry().is_some()).map_err(|error| {
                    assert_eq!(error.kind(), ErrorKind::NewerVersion);
                    error.to_string()
                })
            }
            Who::TypeScript => {
                let said = self.node("save", version, &[&json]);
                said.parse().map_err(|_| said)
            }
            Who::Script => {
                let words = ["ext", "save", "--type", self.name, "--schema", &version.to_string(), "--session"];
                let output = self.world.feed(&[&words[..], &[self.file.to_str().unwrap()]].concat(), &json);
                let said = String::from_utf8(output.stderr).unwrap();
                if output.status.success() { Ok(!output.stdout.is_empty()) } else { Err(said) }
            }
        };
        rest(self.file);
        saved
    }

    /// The state in force; null where there is none.
    fn load(&self, who: Who, version: u32) -> Result<Value, String> {
        match who {
            Who::Rust => {
                let session = session_core::Session::read(self.file).unwrap();
                let loaded = self.state(version).load(&session);
                loaded.map(Option::unwrap_or_default).map_err(|error| error.to_string())
            }
            Who::TypeScript => {
                let said = self.node("load", version, &[]);
                serde_json::from_str(&said).map_err(|_| said)
            }
            Who::Script => {
                let words = ["get", "--type", self.name, "--schema", &version.to_string()];
                match self.world.ext_code(self.file, &words, "") {
                    (Some(0), _) => Ok(parsed(&self.world.ext(self.file, &words, ""))),
                    (Some(3), _) => Ok(Value::Null),
                    (_, said) => Err(said),
                }
            }
        }
    }

    fn clear(&self, who: Who, version: u32) {
        match who {
            Who::Rust => {
                let mut session = SessionManager::open(&self.world.host(), self.file, None).unwrap();
                self.state(version).clear(&mut session).unwrap();
            }
            Who::TypeScript => assert_eq!(self.node("clear", version, &[]), "true"),
            Who::Script => {
                let version = version.to_string();
                self.world.ext(self.file, &["save", "--type", self.name, "--schema", &version, "--clear"], "");
            }
        }
        rest(self.file);
    }

    /// The version of the latest, as scripts see it.
    fn version(&self) -> Value {
        let all = self.world.ext(self.file, &["list", "--type", self.name], "");
        parsed(all.lines().last().unwrap())["version"].take()
    }
}

fn has_node(world: &World, file: &Path) -> bool {
    node(world, &["load", file.to_str().unwrap(), "none", "0"], &[]).is_some()
}

#[test]
fn state_and_its_version_that_one_writes_the_others_read() {
    // [F4]
    let world = World::new();
    let file = world.resting_session();
    if !has_node(&world, &file) {
        return;
    }
    for writer in ALL {
        for version in [0, 1, 2] {
            let name = format!("{writer:?}-{version}");
            let shared = Shared { world: &world, file: &file, name: &name };
            let value = json!({"items": ["ü 🥛 \u{2028}", "\""], "size": 1e21, "by": format!("{writer:?}")});
            assert_eq!(shared.save(writer, version, &value), Ok(true), "{name}");
            assert_eq!(shared.version(), version, "{name}");
            let before = fs::read(&file).unwrap();
            for reader in ALL {
                assert_eq!(shared.load(reader, version), Ok(value.clone()), "{name} by {reader:?}");
                // The same is no change, whoever saves it.
                assert_eq!(shared.save(reader, version, &value), Ok(false), "{name} by {reader:?}");
            }
            // A newer one takes it up, a script takes it as it is.
            let mut upgraded = value.clone();
            upgraded["upgraded"] = json!(format!("{version} to {}", version + 1));
            assert_eq!(shared.load(Who::Rust, version + 1), Ok(upgraded.clone()), "{name}");
            assert_eq!(shared.load(Who::TypeScript, version + 1), Ok(upgraded), "{name}");
            assert_eq!(shared.load(Who::Script, version + 1), Ok(value), "{name}");
            // An older one refuses it and never writes over it.
            if version > 0 {
                let says = format!("is of version {version}");
                for other in ALL {
                    let (loaded, saved) =
                        (shared.load(other, version - 1), shared.save(other, version - 1, &json!({"old": true})));
                    assert!(loaded.as_ref().is_err_and(|said| said.contains(&says)), "{name} by {other:?}: {loaded:?}");
                    assert!(saved.as_ref().is_err_and(|said| said.contains(&says)), "{name} by {other:?}: {saved:?}");
                }
            }
            assert!(fs::read(&file).unwrap() == before, "{name}: something was written");
            // Cleared by one it is gone for all.
            shared.clear(writer, version);
            for reader in ALL {
                assert_eq!(shared.load(reader, version), Ok(Value::Null), "{name} by {reader:?}");
            }
        }
    }
}

#[test]
fn data_that_looks_as_if_its_version_stood_in_it_stays_what_it_is() {
    let world = World::new();
    let file = world.resting_session();
    if !has_node(&world, &file) {
        return;
    }
    let value = json!({"schemaVersion": 7, "data": {"schemaVersion": 8, "data": [1]}});
    for writer in ALL {
        for version in [0, 1] {
            let name = format!("{writer:?}-{version}");
            let shared = Shared { world: &world, file: &file, name: &name };
            assert_eq!(shared.save(writer, version, &value), Ok(true), "{name}");
            assert_eq!(shared.version(), version, "{name}");
            for reader in ALL {
                assert_eq!(shared.load(reader, version), Ok(value.clone()), "{name} by {reader:?}");
                assert_eq!(shared.save(reader, version, &value), Ok(false), "{name} by {reader:?}");
            }
        }
    }
}

#[test]
fn the_checks_are_the_same_in_every_language() {
    let world = World::new();
    let file = world.resting_session();
    if !has_node(&world, &file) {
        return;
    }
    let before = fs::read(&file).unwrap();
    let shared = Shared { world: &world, file: &file, name: "todo" };
    let reference = format!("blob:sha256:{}", "0".repeat(64));
    let deep = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    for (bad, says) in [
        (r#"{"n":9007199254740993}"#.to_owned(), "2^53"),
        (r#"{"partialJson":1}"#.to_owned(), "/partialJson"),
        (json!([{"image_url": reference}]).to_string(), "/0/image_url"),
        (json!({"content": [{"type": "image", "data": reference}]}).to_string(), "/content"),
        (json!({"a": "x".repeat(500_001)}).to_string(), "would be cut"),
        (deep(128), "nested deeper"),
    ] {
        let input = world.home().join("value.json");
        fs::write(&input, &bad).unwrap();
        let refused = shared.node("save", 0, &[&format!("@{}", input.display())]);
        assert!(refused.contains(says), "{says}: {refused}");
        let (code, said) = world.ext_code(&file, &["save", "--type", "todo"], &bad);
        assert!(code == Some(1) && said.contains(says), "{says}: {said}");
    }
    assert!(fs::read(&file).unwrap() == before);
    // The deepest that is saved with a version in it is read by the others.
    assert_eq!(shared.node("save", 1, &[&deep(126)]), "true");
    assert_eq!(shared.load(Who::Script, 1).unwrap().to_string(), deep(126));
    assert_eq!(shared.load(Who::Rust, 1).unwrap().to_string(), deep(126));
}

#[test]
fn the_typescript_extension_tells_the_hook_and_is_silent_without_the_binary() {
    let world = World::new();
    let file = world.resting_session();
    let path = file.to_str().unwrap();
    let bin = env!("CARGO_BIN_EXE_watcher");
    let environment = [("WATCHER_BIN", bin), ("WATCHER_HARNESS", "xcsh"), ("TMUX_PANE", "%5")];
    let Some(printed) = node(&world, &["drive", path, "from typescript"], &environment) else { return };
    assert!(parsed(&printed)["longest"].as_f64().is_some(), "{printed}");
    println!("handlers of the extension, milliseconds: {printed}");
    until("the prompt arrives", || world.finds("from typescript"));
    assert!(!world.finds("by an extension"), "what another extension sends is no person's");
    let pointer = world.agent().join("terminal-sessions/tmux-%5");
    until("the pointer is there", || {
        if !pointer.exists() {
            node(&world, &["drive", path, "from typescript"], &environment);
        }
        pointer.exists()
    });
    assert_eq!(fs::read_to_string(&pointer).unwrap(), format!("/w\n{path}\n"));

    let without = World::new();
    node(&without, &["drive", path, "lost"], &[("WATCHER_BIN", "/nowhere/watcher")]).unwrap();
}

//! The commands of the README work as they stand there, in a home where nothing is.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::support::World;

#[test]
fn every_command_of_the_readme_works() {
    let readme = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../README.md")).unwrap();
    let world = World::new();
    let bin = Path::new(env!("CARGO_BIN_EXE_watcher")).parent().unwrap();
    let mut count = 0;
    for block in readme.split("```console\n").skip(1) {
        let block = block.split("```").next().unwrap();
        for command in block.lines().filter_map(|line| line.strip_prefix("$ ")) {
            let output = Command::new("sh")
                .args(["-c", command])
                .env_clear()
                .env("PATH", format!("{}:/usr/bin:/bin", bin.display()))
                .env("HOME", world.home())
                .current_dir(world.home())
                .output()
                .unwrap();
            assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
            count += 1;
        }
    }
    assert!(count >= 5, "the README shows commands");
}

//! The other end of tests with several processes: this test binary, started again with one job.

#![allow(clippy::print_stdout, reason = "a child tells its parent what it has done on standard output")]

use std::process::{Child, Command, Stdio};

use history::{HistoryStorage, Import, SearchOptions, Selection};

/// Starts this binary to do `job` with `argument`.
pub(crate) fn start(job: &str, argument: &std::path::Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "child::does_its_job", "--ignored", "--nocapture", "--test-threads=1"]);
    command.env("HISTORY_TEST_JOB", job).env("HISTORY_TEST_ARGUMENT", argument);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

pub(crate) fn finish(child: Child) {
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// What the import tests import.
pub(crate) fn numbered_lines(count: usize) -> String {
    (0..count).fold(String::new(), |lines, number| lines + &format!("imported line {number}\n"))
}

#[test]
#[ignore = "the other end of tests with several processes"]
fn does_its_job() {
    let job = std::env::var("HISTORY_TEST_JOB").unwrap();
    let path = std::path::PathBuf::from(std::env::var_os("HISTORY_TEST_ARGUMENT").unwrap());
    let words: Vec<&str> = job.split(' ').collect();
    match words.as_slice() {
        ["add", number] => {
            let store = HistoryStorage::open(&path).unwrap();
            store.add(format!("prompt number{number}"), None).wait().unwrap();
            let page = store.search(&format!("number{number}"), &SearchOptions::new(1000)).unwrap();
            assert!(page.entries().iter().any(|entry| entry.prompt().ends_with(&format!("number{number}"))));
            store.close().unwrap();
        }
        // Says on standard output how many prompts are acknowledged; ends by being killed.
        ["add-for-ever"] => {
            let store = HistoryStorage::open(&path).unwrap();
            for number in 0.. {
                store.add(format!("endless {number}"), None).wait().unwrap();
                println!("\nacknowledged {}", number + 1);
            }
        }
        ["import"] => {
            let store = HistoryStorage::open(&path).unwrap();
            let lines = numbered_lines(40_000);
            let source = Import::lines("lines", lines.as_bytes());
            store.import(source, |sum| println!("\nacknowledged {}", sum.added)).unwrap();
        }
        ["forget-after-chdir"] => {
            std::env::set_current_dir(&path).unwrap();
            let store = HistoryStorage::open("history.db").unwrap();
            store.add("gone", None).wait().unwrap();
            std::env::set_current_dir("/").unwrap();
            assert_eq!(store.delete(Selection::all()).wait().unwrap().rows(), 1);
        }
        ["repair"] => {
            let store = HistoryStorage::open(&path).unwrap();
            assert!(store.repair().wait().unwrap().is_well());
        }
        ["make-with-open-umask"] => {
            rustix::process::umask(rustix::fs::Mode::empty());
            let store = HistoryStorage::open(&path).unwrap();
            store.add("private", None).wait().unwrap();
            println!("\nready");
            std::io::stdin().read_line(&mut String::new()).unwrap();
        }
        ["hold-open"] => {
            let connection = history::rusqlite::Connection::open(&path).unwrap();
            connection.query_row("SELECT 1", [], |_| Ok(())).unwrap();
            println!("\nready");
            std::io::stdin().read_line(&mut String::new()).unwrap();
        }
        ["read-as-someone-else"] => {
            let store = HistoryStorage::open(&path).unwrap();
            let found = store.search("hello", &SearchOptions::new(10)).unwrap();
            assert_eq!(found.entries().len(), 1);
            assert_eq!(store.add("new", None).wait().unwrap_err().kind(), history::ErrorKind::ReadOnly);
            for notice in store.notices() {
                println!("\nnotice {notice:?}");
            }
        }
        other => panic!("unknown job {other:?}"),
    }
}

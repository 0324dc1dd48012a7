//! Every vector of `data/vectors`, judged. A new vector is a file dropped in.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tests::conformance::answer;
use tests::judge::Kind;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data/vectors")
}

/// Judges a folder in this process. It must hold `least` vectors: an emptied folder is not a passed one.
fn judge(kind: Kind, least: usize) {
    let verdict = kind.judge(&root(), &mut |command| answer(command)).unwrap();
    let there = std::fs::read_dir(root().join(kind.folder())).unwrap();
    let there = there.filter(|file| file.as_ref().unwrap().path().extension().is_some_and(|end| end == "json")).count();
    assert_eq!(verdict.ran, there, "each vector is run");
    assert!(there >= least, "only {there} vectors are left in {}", kind.folder());
    let failed = verdict.failures.len();
    assert!(failed == 0, "{failed} of {there} failed:\n{}", verdict.failures.join("\n"));
}

#[test]
fn load() {
    // F1–F9, L1–L9, T4, T5, T10, C1–C5, W9, W10
    judge(Kind::Load, 275);
}

#[test]
fn scripts() {
    // D3, D9a, D10, F5–F9, L3–L7, T1–T9a, W1–W10, R5, P1–P4
    judge(Kind::Scripts, 93);
}

#[test]
fn history() {
    // H1–H4, H6
    judge(Kind::History, 22);
}

#[test]
fn catalog() {
    // D5, R1, R3, R4
    judge(Kind::Catalog, 14);
}

/// A judge that lets a wrong answer pass proves nothing: whatever is changed in an answer must be found.
#[test]
fn changed_answers_are_found() {
    for (kind, right, wrong, least) in [
        (Kind::Load, r#""role":"user""#, r#""role":"usex""#, 200),
        (Kind::Load, r#""offset":"#, r#""offset":1"#, 70),
        (Kind::Scripts, r#"\"parentId\":\""#, r#"\"parentId\":\"x"#, 50),
        (Kind::History, r#""prompt":""#, r#""prompt":"x"#, 20),
        (Kind::Catalog, r#""path":""#, r#""path":"x"#, 14),
    ] {
        let mut changed = 0;
        let verdict = kind.judge(&root(), &mut |command| {
            let answer = answer(command);
            let tampered = answer.replace(right, wrong);
            changed += usize::from(answer != tampered);
            tampered
        });
        let failed = verdict.unwrap().failures.len();
        // Not all: a key that an expectation lacks is not compared.
        assert!(failed >= least, "{kind:?} {right}: {changed} answers were changed, {failed} vectors failed");
    }
}

#[test]
fn a_reader_that_writes_is_found() {
    let verdict = Kind::Load.judge(&root(), &mut |command| {
        let command_json = session_core::JsonText::parse(command).unwrap();
        let file = command_json.view().get("file").and_then(session_core::Json::text).unwrap();
        let answer = answer(command);
        std::fs::write(Path::new(&*file).with_extension("lock"), "").unwrap();
        answer
    });
    let verdict = verdict.unwrap();
    assert_eq!(verdict.failures.len(), verdict.ran);
}

#[test]
fn the_driver_answers_line_by_line_and_goes_on_after_an_error() {
    let mut driver =
        Command::new(env!("CARGO_BIN_EXE_conformance")).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut commands = driver.stdin.take().unwrap();
    let mut answers = BufReader::new(driver.stdout.take().unwrap()).lines();
    let mut ask = |command: &str| {
        writeln!(commands, "{command}").unwrap();
        answers.next().unwrap().unwrap()
    };
    assert!(ask("{").starts_with(r#"{"error":{"kind":"NotJson","#));
    assert!(ask(r#"{"cmd":"\ud83d"}"#).starts_with(r#"{"error":{"kind":"InvalidInput","#));
    assert!(ask(r#"{"cmd":"open","file":"/nowhere/x.jsonl"}"#).starts_with(r#"{"error":{"kind":"NotFound","#));
    let verdict = Kind::History.judge(&root(), &mut ask).unwrap();
    assert_eq!(verdict.failures, Vec::<String>::new());
    drop(commands);
    assert!(answers.next().is_none(), "nothing but answers");
    assert!(driver.wait().unwrap().success());
}

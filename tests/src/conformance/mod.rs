//! The conformance driver's commands: each is one call of the public API and a dump of what it gave.
//!
//! A command and its answer are JSON texts. Commands are looked into, never decoded into a document model, and answers are put
//! together from the texts that the API gives: numbers, escapes and lone surrogates stay spelled as they are.

mod answer;
mod arguments;
mod catalog;
mod files;
mod history;
mod load;
mod manager;
pub mod script;

use std::panic::{self, AssertUnwindSafe};

use session_core::{Json, JsonText};

pub use answer::{Failure, Object, Outcome};

/// Answers one command: `{"ok": …}` or `{"error": {"kind": …, "message": …}}`, on one line.
pub fn answer(command: &str) -> String {
    // A panic is a defect of what was called, and an answer: the commands that follow want theirs.
    let outcome = panic::catch_unwind(AssertUnwindSafe(|| run(command)))
        .unwrap_or_else(|_| Err(Failure::new("Panic", "the call panicked; standard error says where")));
    let text = match outcome {
        Ok(value) => format!(r#"{{"ok":{value}}}"#),
        Err(failure) => format!(r#"{{"error":{failure}}}"#),
    };
    // JSON that a file or a command holds may have line ends between its tokens, and only there.
    text.replace(['\n', '\r'], " ")
}

fn run(command: &str) -> Outcome {
    let command = JsonText::parse(command)?;
    let command = command.view();
    match &*text(command, "cmd")? {
        "open" => load::open(command),
        "context" => load::context(command),
        "script" => script::run(member(command, "script")?),
        "history" => history::run(command),
        "list" => catalog::list(command),
        "recent" => catalog::recent(command),
        "resolve" => catalog::resolve(command),
        other => Err(Failure::input(format!("there is no command {other}"))),
    }
}

fn member<'c>(object: Json<'c>, key: &str) -> Result<Json<'c>, Failure> {
    object.get(key).ok_or_else(|| Failure::input(format!("{key} is missing")))
}

fn text<'c>(object: Json<'c>, key: &str) -> Result<std::borrow::Cow<'c, str>, Failure> {
    member(object, key)?.text().ok_or_else(|| Failure::input(format!("{key} is no text")))
}

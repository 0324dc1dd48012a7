//! How bash asks for completions: a script of ours, since names of sessions have blanks and options may have equals signs,
//! both of which bash takes apart. What is proposed is no concern of this file.

use std::ffi::OsString;
use std::io;
use std::path::Path;

use clap_complete::env::EnvCompleter;

/// Between two proposals: nobody's name holds it.
const SEPARATOR: &str = "\u{b}";

/// Both halves, the script and its answer, belong together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bash;

impl EnvCompleter for Bash {
    fn name(&self) -> &'static str {
        "bash"
    }

    fn is(&self, name: &str) -> bool {
        name == self.name()
    }

    fn write_registration(
        &self,
        _variable: &str,
        _name: &str,
        _binary: &str,
        _completer: &str,
        script: &mut dyn io::Write,
    ) -> io::Result<()> {
        script.write_all(include_bytes!("completions.bash"))
    }

    fn write_complete(
        &self,
        command: &mut clap::Command,
        words: Vec<OsString>,
        directory: Option<&Path>,
        answer: &mut dyn io::Write,
    ) -> io::Result<()> {
        // The last word is the one that is completed.
        let last = words.len().saturating_sub(1);
        let proposals = clap_complete::engine::complete(command, words, last, directory)?;
        let values: Vec<String> =
            proposals.iter().map(|proposal| proposal.get_value().to_string_lossy().into_owned()).collect();
        answer.write_all(values.join(SEPARATOR).as_bytes())
    }
}

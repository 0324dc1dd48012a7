//! The conformance driver: one JSON command a line on standard input, one JSON answer a line on standard output.
//!
//! It prints nothing else and goes on after an error. What the commands do is in `tests::conformance`.

use std::io::{self, BufRead, Write};

fn main() -> io::Result<()> {
    let mut answers = io::stdout().lock();
    for line in io::stdin().lock().split(b'\n') {
        let line = line?;
        if line.trim_ascii().is_empty() {
            continue;
        }
        answers.write_all(tests::conformance::answer(&String::from_utf8_lossy(&line)).as_bytes())?;
        answers.write_all(b"\n")?;
        answers.flush()?;
    }
    Ok(())
}

//! What an error says together with what caused it.

/// What an error says, with what it came from, each thing once: many messages have their cause in them already, so that
/// `{error:#}` would say it twice.
pub(crate) fn told(error: &anyhow::Error) -> String {
    let mut message = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !message.contains(&cause) {
            message = format!("{message}: {cause}");
        }
    }
    message
}

#[cfg(test)]
mod tests {
    use super::told;

    #[test]
    fn a_cause_is_told_once() {
        let error = anyhow::anyhow!("no room").context("/x: cannot write: no room").context("while saving");
        assert_eq!(told(&error), "while saving: /x: cannot write: no room");
        assert_eq!(format!("{error:#}"), "while saving: /x: cannot write: no room: no room");
    }
}

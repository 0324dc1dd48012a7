//! Secrets in prompts, replaced before anything is written. Off unless asked for; it only knows shapes, so it finds
//! what looks like a secret and promises nothing about what does not.

use std::{fs, path::Path, sync::Arc};

use regex::Regex;

use crate::error::{Error, Result};

/// Known shapes: a kind and its pattern. Where a pattern has a group named `secret`, only that is replaced.
const KNOWN: &[(&str, &str)] = &[
    (
        "private-key",
        r"(?s)-----BEGIN [A-Z ]*PRIVATE KEY(?: BLOCK)?-----.*?(?:-----END [A-Z ]*PRIVATE KEY(?: BLOCK)?-----|\z)",
    ),
    ("aws-key", r"\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}\b"),
    ("google-key", r"\bAIza[0-9A-Za-z_\-]{35}"),
    ("anthropic-key", r"\bsk-ant-[0-9A-Za-z_\-]{16,}"),
    ("openai-key", r"\bsk-(?:proj-|svcacct-)?[0-9A-Za-z_\-]{20,}"),
    ("github-token", r"\b(?:gh[pousr]_[0-9A-Za-z]{30,}|github_pat_[0-9A-Za-z_]{40,})"),
    ("gitlab-token", r"\bglpat-[0-9A-Za-z_\-]{20,}"),
    ("slack-token", r"\bxox[abeoprs]-[0-9A-Za-z\-]{10,}"),
    ("npm-token", r"\bnpm_[0-9A-Za-z]{36}\b"),
    ("stripe-key", r"\b[rs]k_(?:live|test)_[0-9A-Za-z]{16,}"),
    ("jwt", r"\beyJ[0-9A-Za-z_\-]{8,}\.eyJ[0-9A-Za-z_\-]{8,}\.[0-9A-Za-z_\-]*"),
    ("bearer-token", r"(?i)\bbearer\s+(?P<secret>[0-9a-z._~+/\-]{12,}=*)"),
    ("url-password", r"\b[a-z][a-z0-9+.\-]*://[^\s/:@]+:(?P<secret>[^\s/@]+)@"),
    (
        "password",
        r#"(?i)\b[\w\-]*(?:password|passwd|pwd|secret|api[_\-]?key|access[_\-]?token|auth[_\-]?token)(?:\\*["'])?\s*[=:]\s*(?P<secret>\\+"[^"\n]+"|"(?:[^"\\\n]|\\.)+"|'(?:[^'\\\n]|\\.)+'|[^\s"',;\[\\]\S*)"#,
    ),
];

/// Which secrets are replaced by `[redacted:kind]`.
///
/// ```
/// # fn main() -> Result<(), history::Error> {
/// use history::Redaction;
/// let redaction = Redaction::known();
/// let (text, kinds) = redaction.apply("use password=hunter2 for it").unwrap();
/// assert_eq!(text, "use password=[redacted:password] for it");
/// assert_eq!(kinds, ["password"]);
/// assert!(redaction.apply("nothing to hide").is_none());
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Redaction {
    rules: Arc<Vec<Rule>>,
}

#[derive(Debug, Clone)]
struct Rule {
    kind: String,
    pattern: Regex,
}

impl Redaction {
    /// The known shapes: cloud keys, private key blocks, bearer tokens, `password=…` and the like.
    pub fn known() -> Self {
        // Each of these patterns is compiled by a test, so none is lost here.
        let rules = KNOWN
            .iter()
            .filter_map(|(kind, pattern)| Some(Rule { kind: (*kind).to_owned(), pattern: Regex::new(pattern).ok()? }));
        Self { rules: Arc::new(rules.collect()) }
    }

    /// Adds the rules of a file: one `kind = pattern` a line, `#` begins a comment line. A pattern is a regular
    /// expression of the `regex` crate; where it has a group named `secret`, only that is replaced.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) with the line that is no rule, or why the file can't be read.
    pub fn with_rules_of(self, path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let text = fs::read_to_string(path).map_err(|error| Error::io(path, "the rules can't be read", error))?;
        let mut rules = Arc::unwrap_or_clone(self.rules);
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let Some((kind, pattern)) = line.split_once('=').map(|(kind, pattern)| (kind.trim(), pattern.trim()))
            else {
                return Err(Error::at_line(path, number, "this is no rule; write `kind = pattern`"));
            };
            let named = !kind.is_empty() && kind.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
            if !named {
                return Err(Error::at_line(path, number, "the kind is made of letters, digits, `-` and `_`"));
            }
            let pattern = Regex::new(pattern).map_err(|error| Error::at_line(path, number, error.to_string()))?;
            if pattern.is_match("") {
                return Err(Error::at_line(
                    path,
                    number,
                    "this pattern matches nothing at all, so it would everywhere",
                ));
            }
            rules.push(Rule { kind: kind.to_owned(), pattern });
        }
        Ok(Self { rules: Arc::new(rules) })
    }

    /// The text without its secrets and their kinds; none when nothing was found.
    pub fn apply(&self, text: &str) -> Option<(String, Vec<String>)> {
        let mut redacted = text.to_owned();
        let mut kinds = Vec::new();
        for rule in self.rules.iter() {
            let mut result = String::new();
            let mut kept = 0;
            for found in rule.pattern.captures_iter(&redacted) {
                let Some(secret) = found.name("secret").or_else(|| found.get(0)) else { continue };
                if secret.is_empty() || is_replaced(secret.as_str()) {
                    continue;
                }
                result.push_str(&redacted[kept..secret.start()]);
                for part in ["[redacted:", &rule.kind, "]"] {
                    result.push_str(part);
                }
                kept = secret.end();
                kinds.push(rule.kind.clone());
            }
            if kept > 0 {
                result.push_str(&redacted[kept..]);
                redacted = result;
            }
        }
        (!kinds.is_empty()).then_some((redacted, kinds))
    }
}

/// Whether this is what a secret was replaced by before.
fn is_replaced(text: &str) -> bool {
    text.strip_prefix("[redacted:").and_then(|rest| rest.strip_suffix(']')).is_some_and(|kind| !kind.contains(']'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_known_pattern_compiles_and_finds_its_shape() {
        assert_eq!(Redaction::known().rules.len(), KNOWN.len());
        let cases = [
            ("k AKIAIOSFODNN7EXAMPLE.", "k [redacted:aws-key]."),
            ("Authorization: Bearer abcdef0123456789xyz", "Authorization: Bearer [redacted:bearer-token]"),
            ("DB_PASSWORD: \"a b\" and on", "DB_PASSWORD: [redacted:password] and on"),
            ("psql postgres://me:pw@host/db", "psql postgres://me:[redacted:url-password]@host/db"),
            (
                "a\n-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----\nb",
                "a\n[redacted:private-key]\nb",
            ),
            ("-----BEGIN PRIVATE KEY-----\ncut off", "[redacted:private-key]"),
        ];
        for (text, expected) in cases {
            assert_eq!(Redaction::known().apply(text).unwrap().0, expected);
        }
        for harmless in ["the password is wrong", "sk-1", "bearer of news", "https://host:80/a@b", "secretary = me"] {
            assert_eq!(Redaction::known().apply(harmless), None, "{harmless}");
        }
    }

    #[test]
    fn a_broken_rule_is_an_error_with_its_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rules");
        fs::write(&path, "# mine\nticket = SEC-\\d+\n").unwrap();
        let redaction = Redaction::known().with_rules_of(&path).unwrap();
        assert_eq!(redaction.apply("see SEC-12").unwrap().0, "see [redacted:ticket]");
        for broken in ["# fine\nno rule here\n", "#\nx = [\n", "#\n = a\n", "#\nx = a*\n"] {
            fs::write(&path, broken).unwrap();
            assert_eq!(Redaction::known().with_rules_of(&path).unwrap_err().line(), Some(2), "{broken}");
        }
    }
}

//! The session's name `[W7, F8, F8a]`.

use super::SessionManager;
use crate::compose::Draft;
use crate::entry::EntryKind;
use crate::error::{Error, ErrorKind, Result};
use crate::header::{NameSource, TitleSlot};
use crate::json::quote;
use crate::splice::Change;

/// The longest name, in characters. Nobody reads a longer one.
const LONGEST_NAME: usize = 2_000;

impl SessionManager {
    /// Gives the session a name. Control characters become spaces, runs of spaces one, the ends are trimmed. An empty name
    /// changes nothing, and so does a program's name over a person's.
    ///
    /// Where the file has a title slot it is rewritten in place, a name too long for it cut; files of pi's dialect get a
    /// `session_info` entry; else the header is changed in a rewrite that a crash leaves whole, old or new.
    ///
    /// Returns whether the name is now that.
    ///
    /// # Errors
    /// [`ErrorKind::TooLarge`] over 2,000 characters, [`ErrorKind::HeldElsewhere`] when a process that is not ours has the
    /// file open for writing; the name stays.
    pub fn set_session_name(&mut self, name: &str, source: NameSource) -> Result<bool> {
        self.check_writable()?;
        let name = clean(name);
        if name.is_empty() {
            return Ok(false);
        }
        if name.chars().count() > LONGEST_NAME {
            let message = format!("a session's name has at most {LONGEST_NAME} characters");
            return Err(Error::new(ErrorKind::TooLarge, message).at(&self.file));
        }
        if !self.is_on_disk() {
            return self.name_unwritten(&name, source);
        }
        let renamed = self.on_disk(|manager, disk| {
            if let Some(settled) = manager.is_settled(&name, source)? {
                return Ok(Some(settled));
            }
            if manager.session.title_slot().is_some() {
                let (bytes, _) = TitleSlot::compose(&name, source, manager.host.clock.now());
                let offset = manager.session.loaded.slot_offset;
                disk.write_slot(&mut manager.session, offset, &bytes)?;
                return Ok(Some(true));
            }
            if manager.is_pi_dialect()? {
                return Ok(None);
            }
            let header =
                manager.header().changed(&title_changes(&quote(&name), &quote(source.as_str()))).raw().to_vec();
            manager.rewrite_with(disk, header, |_, _, _| Ok(None))?;
            disk.load_anew(&mut manager.session)?;
            Ok(Some(true))
        })?;
        match renamed {
            Some(renamed) => Ok(renamed),
            None => self.append(&Draft::new("session_info").text("name", &name)).map(|_| true),
        }
    }

    fn name_unwritten(&mut self, name: &str, source: NameSource) -> Result<bool> {
        if let Some(settled) = self.is_settled(name, source)? {
            return Ok(settled);
        }
        let header = self.header().changed(&title_changes(&quote(name), &quote(source.as_str())));
        self.session.loaded.header = Some(header);
        Ok(true)
    }

    /// The answer when nothing has to be written: the name is that already, or may not be replaced.
    fn is_settled(&self, name: &str, source: NameSource) -> Result<Option<bool>> {
        let fits = match self.session.title_slot() {
            Some(_) => TitleSlot::compose(name, source, self.host.clock.now()).1.title().unwrap_or_default().to_owned(),
            None => name.to_owned(),
        };
        Ok(match self.session.named()? {
            Some((current, _)) if current == fits => Some(true),
            Some((_, NameSource::User)) if source == NameSource::Auto => Some(false),
            _ => None,
        })
    }

    /// Whether the file is of pi's dialect: it holds a `session_info`, or a `model_change` with `modelId` `[W7]`.
    fn is_pi_dialect(&self) -> Result<bool> {
        let log = self.session.log();
        if log.indices().any(|entry| log.kind(entry) == EntryKind::SessionInfo) {
            return Ok(true);
        }
        let mut payloads = self.session.payloads();
        for entry in log.indices().filter(|entry| log.kind(*entry) == EntryKind::ModelChange) {
            if payloads.read(entry)?.json.is_some_and(|json| json.view().get("modelId").is_some()) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

fn title_changes<'a>(name: &'a str, source: &'a str) -> [(&'static str, Change<'a>); 2] {
    [("title", Change::Set(name.as_bytes())), ("titleSource", Change::Set(source.as_bytes()))]
}

/// A name as it is kept `[W7]`: C0, DEL and C1 become spaces, runs of spaces one, the ends are trimmed.
fn clean(name: &str) -> String {
    let spaced: String = name.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    spaced.split(' ').filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::clean;

    #[test]
    fn names_are_cleaned() {
        // [W7]
        assert_eq!(clean("  a\tb\u{7f}\u{85}c\n\u{1b}[1m  d "), "a b c [1m d");
        assert_eq!(clean("\u{0} "), "");
        assert_eq!(clean("x\u{2003}y"), "x\u{2003}y");
    }
}

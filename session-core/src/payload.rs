//! Payloads read when they are asked for, checked to be those of their entries, and once more when the file was changed
//! meanwhile `[L9]`.

use std::borrow::Cow;

use crate::blob::BlobStore;
use crate::blob::resolve::{BlobProblemKind, resolve_blobs};
use crate::defect::DefectKind;
use crate::error::{Error, ErrorKind, Result};
use crate::json::JsonText;
use crate::log::Index;
use crate::session::Session;
use crate::source::{CheckedLine, Lines};

/// Reads payloads one after the other.
#[derive(Debug)]
pub(crate) struct Payloads<'s> {
    session: &'s Session,
    lines: Lines<'s>,
}

/// An entry's JSON, and what was found wrong while it was read.
#[derive(Debug, Default)]
pub(crate) struct Payload {
    /// None when the line is no JSON.
    pub(crate) json: Option<JsonText>,
    pub(crate) defects: Vec<DefectKind>,
}

impl<'s> Payloads<'s> {
    pub(crate) fn of(session: &'s Session) -> Self {
        let file = session.origin.as_ref().map(|origin| &origin.file);
        Self { session, lines: Lines::new(session.log(), &session.loaded.migration, file) }
    }

    pub(crate) fn read(&mut self, entry: Index) -> Result<Payload> {
        let payload = match self.lines.read(entry) {
            Err(error) if error.kind() == ErrorKind::Changed => self.read_anew(entry, &error)?,
            line => Payload::of(&line?),
        };
        Ok(payload.resolved(self.session.blobs.as_ref()))
    }

    /// An entry's line as it is or would be in a current file: migrated, references left as they are. Bytes that are no
    /// JSON are given as they stand.
    pub(crate) fn line(&mut self, entry: Index) -> Result<Vec<u8>> {
        Ok(self.lines.read(entry)?.bytes.into_owned())
    }

    fn read_anew(&self, entry: Index, error: &Error) -> Result<Payload> {
        let changed = |_: Error| match self.session.path() {
            Some(path) => error.clone().at(path),
            None => error.clone(),
        };
        let session = self.session.anew().map_err(changed)?;
        let found = session.log().find(self.session.log().id(entry)).ok_or_else(|| changed(error.clone()))?;
        let mut payloads = session.payloads();
        let line = payloads.lines.read(found).map_err(changed)?;
        Ok(Payload::of(&line))
    }
}

impl Payload {
    fn of(line: &CheckedLine<'_>) -> Self {
        if line.is_json {
            Self { json: Some(JsonText::from_valid(&line.bytes)), defects: Vec::new() }
        } else {
            Self { json: None, defects: vec![DefectKind::PayloadNotJson] }
        }
    }

    fn resolved(mut self, blobs: Option<&BlobStore>) -> Self {
        let (Some(json), Some(blobs)) = (&self.json, blobs) else { return self };
        let (resolved, problems) = resolve_blobs(json, blobs);
        for problem in problems {
            tracing::warn!(%problem, "an image stays a reference");
            self.defects.push(match problem.kind() {
                BlobProblemKind::Missing => DefectKind::MissingBlob,
                BlobProblemKind::BadReference | BlobProblemKind::NotAUrl => DefectKind::BadBlobReference,
                _ => DefectKind::CorruptBlob,
            });
        }
        if let Cow::Owned(resolved) = resolved {
            self.json = Some(resolved);
        }
        self
    }
}

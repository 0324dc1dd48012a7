//! Reading one session as far as a listing needs it `[R1, R3]`.
//!
//! The same reader as for opening decides what is an entry, so a listing and an opened session never disagree. It is fed the
//! beginning of the file, then more, until it has what was asked for. Nothing here writes.

use std::path::Path;
use std::sync::Arc;

use super::facts::{Depth, Facts, Status};
use super::prefix::Prefix;
use super::problem::{Problem, ProblemKind};
use crate::entry::EntryKind;
use crate::error::Result;
use crate::json::Json;
use crate::load::UnendedLine;
use crate::log::Index;
use crate::message::{Message, Role};
use crate::session::Session;
use crate::storage::{SessionStorage, Stat};

/// What is read first `[R1]`.
const FIRST: u64 = 4096;
/// What is read first when the whole file will be.
const FIRST_OF_WHOLE: u64 = 64 * 1024;
/// How much further each next step goes.
const STEP: u64 = 16;
/// How far a header is looked for.
const HEADER_WITHIN: u64 = 4 * 1024 * 1024;
/// How far the first prompt is looked for.
const PROMPT_WITHIN: u64 = 1024 * 1024;

/// A session file that is being read.
#[derive(Debug)]
pub(super) struct Reading {
    session: Session,
    prefix: Arc<Prefix>,
    /// How far it was read.
    end: u64,
    /// The first entry that was not looked at for a prompt yet.
    next: Index,
    prompt: Option<String>,
    depth: Depth,
}

impl Reading {
    pub(super) fn open(storage: &Arc<dyn SessionStorage>, path: &Path) -> Result<Self> {
        let prefix = Arc::new(Prefix::of(storage.open_reader(path)?)?);
        let session = Session::unread(Arc::clone(storage), path, prefix.clone());
        Ok(Self { session, prefix, end: 0, next: 0, prompt: None, depth: Depth::Header })
    }

    /// What the file was when it was opened.
    pub(super) fn stat(&self) -> &Stat {
        self.prefix.whole()
    }

    /// Reads until the header is there.
    pub(super) fn read_header(&mut self, whole: bool) -> Result<(), Problem> {
        let first = if whole { FIRST_OF_WHOLE } else { FIRST };
        loop {
            if self.session.header().is_some() {
                return Ok(());
            }
            if self.session.loaded.invalid || self.is_at_end() || self.end >= HEADER_WITHIN {
                return Err(self.no_header());
            }
            self.read_to((self.end * STEP).clamp(first, HEADER_WITHIN))?;
        }
    }

    /// Reads until the first user message that has text is there, or it is not near.
    pub(super) fn read_prompt(&mut self) -> Result<()> {
        self.look_for_prompt()?;
        while self.prompt.is_none() && !self.is_at_end() && self.end < PROMPT_WITHIN {
            self.read_to((self.end * STEP).min(PROMPT_WITHIN))?;
            self.look_for_prompt()?;
        }
        self.depth = self.depth.max(Depth::Prompt);
        Ok(())
    }

    /// Reads the whole file.
    pub(super) fn read_all(&mut self) -> Result<()> {
        if !self.is_at_end() {
            self.read_to(self.stat().len)?;
        }
        self.look_for_prompt()?;
        self.depth = Depth::Whole;
        Ok(())
    }

    fn no_header(&self) -> Problem {
        let kind = if self.stat().len == 0 { ProblemKind::Empty } else { ProblemKind::NoHeader };
        Problem::new(kind, self.session.path().unwrap_or(Path::new("")))
    }

    fn is_at_end(&self) -> bool {
        self.end >= self.stat().len
    }

    fn read_to(&mut self, end: u64) -> Result<()> {
        self.end = end.min(self.stat().len);
        self.prefix.grow(self.end)?;
        if self.is_at_end() {
            self.session.loaded.read_on(self.prefix.as_ref())
        } else {
            self.session.loaded.read_lines(self.prefix.as_ref(), UnendedLine::Skip)
        }
    }

    fn look_for_prompt(&mut self) -> Result<()> {
        let log = self.session.log();
        let mut payloads = self.session.payloads();
        while self.prompt.is_none() && (self.next as usize) < log.len() {
            let entry = self.next;
            self.next += 1;
            if log.kind(entry) == EntryKind::Message
                && let Some(json) = payloads.read(entry)?.json
                && let Some(message) = json.view().get("message").map(Message::new)
                && message.role() == Role::User
            {
                self.prompt = Some(message.text(" ")).filter(|text| !text.is_empty());
            }
        }
        Ok(())
    }

    /// What is known by now.
    pub(super) fn facts(&self) -> Result<Facts, Problem> {
        let Some(header) = self.session.header() else { return Err(self.no_header()) };
        let mut facts = Facts {
            depth: self.depth,
            id: header.id().clone(),
            cwd: header.cwd(),
            created: header.timestamp(),
            parent: header.parent_session(),
            title: self.session.name()?,
            first_message: self.prompt.clone(),
            messages: None,
            last_activity: None,
            status: None,
        };
        if self.depth == Depth::Whole {
            let log = self.session.log();
            let messages = log.indices().filter(|entry| log.kind(*entry) == EntryKind::Message);
            facts.messages = Some(messages.count() as u64);
            facts.last_activity = log.indices().filter_map(|entry| log.timestamp(entry)).max();
            facts.status = Some(self.status()?);
            if facts.title.is_none() {
                facts.title = self.short_summary()?;
            }
        }
        Ok(facts)
    }

    /// The short summary of the latest compaction that has one.
    fn short_summary(&self) -> Result<Option<String>> {
        let log = self.session.log();
        let mut payloads = self.session.payloads();
        for entry in log.indices().rev().filter(|entry| log.kind(*entry) == EntryKind::Compaction) {
            if let Some(json) = payloads.read(entry)?.json
                && let Some(summary) = json.view().get("shortSummary").and_then(Json::text)
                && !summary.is_empty()
            {
                return Ok(Some(summary.into_owned()));
            }
        }
        Ok(None)
    }

    /// From the last message that asks, answers or works for an answer; what only stands beside the conversation (a shell
    /// command of the user, a mentioned file) says nothing of how it ended.
    fn status(&self) -> Result<Status> {
        let log = self.session.log();
        let mut payloads = self.session.payloads();
        for entry in log.indices().rev().filter(|entry| log.kind(*entry) == EntryKind::Message) {
            let Some(json) = payloads.read(entry)?.json else { continue };
            let Some(message) = json.view().get("message").map(Message::new) else { continue };
            match message.role() {
                Role::User => return Ok(Status::Waiting),
                Role::ToolResult => return Ok(Status::Interrupted),
                Role::Assistant => return Ok(Status::of_answer(message)),
                _ => {}
            }
        }
        Ok(Status::Unknown)
    }
}

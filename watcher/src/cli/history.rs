//! `watcher history recent|search`: questions to the prompt store. They write nothing.

use anyhow::Result;
use clap::{Args, Subcommand};
use history::{Access, Entry, HistoryStorage, OpenOptions, Scope, SearchOptions};
use serde::Serialize;

use super::Context;
use super::output::remark;
use super::times::{iso, local};
use crate::agents;
use crate::exit::Exit;

/// Look into the prompts that were typed
#[derive(Debug, Subcommand)]
pub(crate) enum History {
    Recent(Recent),
    Search(Search),
}

/// The latest prompts, newest first
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  watcher history recent
  watcher history recent --limit 100 --cwd .")]
pub(crate) struct Recent {
    #[command(flatten)]
    which: Which,
}

/// The prompts that hold every word, newest first
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  watcher history search login fix     both words, in any order, as beginnings of words
  watcher history search Form.tsx      words joined by punctuation stand next to each other
  watcher history search --cwd . test  only what was typed in this directory

Whatever the query holds is text: quotes, stars and dashes mean themselves. Put `--` before words that begin with a dash.")]
pub(crate) struct Search {
    /// Words to look for
    #[arg(required = true, value_name = "WORDS")]
    words: Vec<String>,
    #[command(flatten)]
    which: Which,
}

#[derive(Debug, Args)]
struct Which {
    /// At most so many (0 to 1000)
    #[arg(short = 'n', long, default_value_t = 20, value_name = "N")]
    limit: i64,
    /// Only what was typed in this directory
    #[arg(long, value_name = "DIR")]
    cwd: Option<std::path::PathBuf>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown<'a> {
    id: i64,
    prompt: &'a str,
    created_at: String,
    cwd: Option<&'a str>,
    session: Option<&'a str>,
    use_count: u64,
}

impl History {
    pub(crate) fn run(self, context: &mut Context) -> Result<Exit> {
        match self {
            Self::Recent(Recent { which }) => {
                let scope = which.scope(context)?;
                let entries = match open(context)? {
                    Some(store) => store.recent(which.limit, &scope)?,
                    None => Vec::new(),
                };
                show(context, "history.recent", &entries)
            }
            Self::Search(Search { words, which }) => {
                let options = SearchOptions::new(which.limit).scope(which.scope(context)?);
                let page = match open(context)? {
                    Some(store) => Some(store.search(&words.join(" "), &options)?),
                    None => None,
                };
                if page.as_ref().is_some_and(history::Page::stopped_early) {
                    remark("older prompts were not looked through for words inside words");
                }
                show(context, "history.search", page.as_ref().map_or(&[], |page| page.entries()))
            }
        }
    }
}

impl Which {
    fn scope(&self, context: &Context) -> Result<Scope> {
        let Some(cwd) = &self.cwd else { return Ok(Scope::everywhere()) };
        let path = context.environment.cwd()?.join(cwd);
        let path = path.canonicalize().unwrap_or(path);
        Ok(Scope::directory(path.display().to_string()))
    }
}

/// The history, for reading; none when there is none yet, which is said.
fn open(context: &Context) -> Result<Option<HistoryStorage>> {
    let agent = agents::resolve_one(&context.common.selection(), &context.environment)?;
    let path = agent.history_db();
    if !path.exists() {
        remark(&format!("{}: there is no history yet; `watcher sync` fills it", path.display()));
        return Ok(None);
    }
    Ok(Some(OpenOptions::new().access(Access::ReadOnly).open(&path)?))
}

fn show(context: &mut Context, kind: &str, entries: &[Entry]) -> Result<Exit> {
    let shown: Vec<Shown<'_>> = entries
        .iter()
        .map(|entry| Shown {
            id: entry.id().get(),
            prompt: entry.prompt(),
            created_at: iso(entry.created_at()),
            cwd: entry.cwd(),
            session: entry.session(),
            use_count: entry.use_count(),
        })
        .collect();
    let rows: Vec<Vec<String>> =
        entries.iter().map(|entry| vec![local(entry.created_at()), entry.prompt().to_owned()]).collect();
    context.out.table(&rows)?;
    context.out.json(kind, shown)?;
    Ok(Exit::Done)
}

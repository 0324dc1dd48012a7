//! `watcher sessions tree`: where a session branches, its labels, its leaf and its compactions. Writes nothing.

use anyhow::Result;
use clap::Args;
use serde::Serialize;
use session_core::{Entry, EntryKind, Leaf, Session};
use std::collections::HashSet;

use crate::cli::Context;
use crate::cli::named::Named;
use crate::cli::output::{Tone, clean};
use crate::cli::text::{first_line, fit, width};
use crate::cli::transcript::{Part, gist, payload, turn};
use crate::exit::Exit;

/// Columns of text that an outline leaves at least, however deep it is.
const LEAST: usize = 24;
/// Columns of lines that are drawn at most: each level repeats those of all above it, so that a deep outline would be as long as
/// it is wide.
const DEEPEST: usize = 120;
/// What part of a terminal a label may take.
const LABEL: usize = 3;

/// The tree of a session: branches, labels, the leaf, compactions
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  watcher sessions tree 15c0
  watcher sessions tree 15c0 --every        every entry, not only what was said
  watcher sessions tree 15c0 --json

Lines are indented only where the session branches. `●` is on the way to the leaf, `○` is not; the leaf is marked `◀`.
Go on elsewhere with `watcher sessions fork SESSION --at ENTRY`.")]
pub(crate) struct Tree {
    #[command(flatten)]
    session: Named,
    /// Every entry, not only what was said
    #[arg(long)]
    every: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Node {
    id: String,
    /// The nearest entry above that is shown.
    parent: Option<String>,
    r#type: String,
    role: Option<String>,
    time: Option<String>,
    label: Option<String>,
    on_path: bool,
    is_leaf: bool,
    text: String,
    /// How many entries after it are left out here.
    hidden: usize,
    #[serde(skip)]
    prefix: String,
}

impl Tree {
    pub(super) fn run(self, context: &mut Context) -> Result<Exit> {
        let session = self.session.read(context)?;
        let nodes = nodes(&session, self.every)?;
        if nodes.is_empty() && !context.out.is_json() {
            context.out.line("the session has no entries yet")?;
        }
        let environment = context.environment.clone();
        let out = &mut context.out;
        out.page(&environment);
        for node in &nodes {
            let columns = out.columns();
            let prefix = columns.map_or_else(|| node.prefix.clone(), |columns| narrowed(&node.prefix, columns));
            let mark = if node.on_path { "● " } else { "○ " };
            let role = node.role.as_deref().unwrap_or(&node.r#type);
            let label = match (&node.label, columns) {
                (Some(label), Some(columns)) => format!("[{}] ", fit(&clean(label), columns / LABEL)),
                (Some(label), None) => format!("[{label}] "),
                (None, _) => String::new(),
            };
            let leaf = if node.is_leaf { " ◀" } else { "" };
            let used: usize = [&prefix, mark, &node.id, " ", role, " ", &label, leaf].map(width).iter().sum();
            // As it will be printed: a tab is as wide as a space.
            let text = clean(&node.text);
            let text = match columns {
                Some(columns) => fit(&text, columns.saturating_sub(used).max(1)).into_owned(),
                None => text.into_owned(),
            };
            let tone = if node.role.as_deref() == Some("user") { Tone::Person } else { Tone::Strong };
            let text_tone = if node.on_path { Tone::Plain } else { Tone::Faint };
            out.pieces(&[
                (Tone::Faint, &prefix),
                (if node.on_path { Tone::Mark } else { Tone::Faint }, mark),
                (Tone::Faint, &node.id),
                (Tone::Plain, " "),
                (tone, role),
                (Tone::Plain, " "),
                (Tone::Mark, &label),
                (text_tone, &text),
                (Tone::Mark, leaf),
            ])?;
        }
        context.out.json("sessions.tree", nodes)?;
        Ok(Exit::Done)
    }
}

/// The entries that are shown, as an outline.
fn nodes(session: &Session, every: bool) -> Result<Vec<Node>> {
    let tree = session.tree();
    let labels = session.labels()?;
    let entries: Vec<Entry<'_>> = session.entries().collect();
    let path: HashSet<usize> = session.branch_path(&Leaf::Current).iter().map(|entry| entry.index()).collect();
    let leaf = session.leaf_entry().map(Entry::index);
    let mut children = vec![0_usize; tree.len()];
    for parent in tree.iter().filter_map(|node| node.parent) {
        children[parent] += 1;
    }
    // What is shown: for each position in the tree its node, and for those that are not the nearest above that is.
    let mut nodes: Vec<Node> = Vec::new();
    let mut shown_at: Vec<Option<usize>> = vec![None; tree.len()];
    let mut parents: Vec<Option<usize>> = Vec::new();
    for (position, place) in tree.iter().enumerate() {
        let entry = entries[place.entry];
        let above = place.parent.and_then(|parent| shown_at[parent]);
        let is_leaf = leaf == Some(place.entry);
        let label = labels.get(entry.id()).cloned();
        let said = said(entry, every)?;
        let matters = every || is_leaf || label.is_some() || children[position] > 1;
        let Some((role, text)) = said.or_else(|| matters.then(|| (None, String::new()))) else {
            if let Some(above) = above {
                nodes[above].hidden += 1;
            }
            shown_at[position] = above;
            continue;
        };
        shown_at[position] = Some(nodes.len());
        parents.push(above);
        nodes.push(Node {
            id: entry.id().to_owned(),
            parent: above.map(|above| nodes[above].id.clone()),
            r#type: if entry.kind_name().is_empty() { "?".to_owned() } else { entry.kind_name().to_owned() },
            role,
            time: entry.timestamp().map(|time| time.to_string()),
            label,
            on_path: path.contains(&place.entry),
            is_leaf,
            text,
            hidden: 0,
            prefix: String::new(),
        });
    }
    indent(&mut nodes, &parents);
    Ok(nodes)
}

/// Draws the lines: an only child stands below its parent, several are indented.
fn indent(nodes: &mut [Node], parents: &[Option<usize>]) {
    let mut children = vec![Vec::new(); nodes.len()];
    let mut roots = Vec::new();
    for (node, parent) in parents.iter().enumerate() {
        match parent {
            Some(parent) => children[*parent].push(node),
            None => roots.push(node),
        }
    }
    // Before a node, and before what hangs on it.
    let mut below = vec![String::new(); nodes.len()];
    for (node, parent) in parents.iter().enumerate() {
        let (siblings, before) = match parent {
            Some(parent) => (&children[*parent], below[*parent].clone()),
            None => (&roots, String::new()),
        };
        if siblings.len() < 2 {
            nodes[node].prefix.clone_from(&before);
            below[node] = before;
        } else {
            let is_last = siblings.last() == Some(&node);
            nodes[node].prefix = inner(&format!("{before}{}", if is_last { "└─" } else { "├─" }), DEEPEST);
            below[node] = inner(&format!("{before}{}", if is_last { "  " } else { "│ " }), DEEPEST);
        }
    }
}

/// The lines that fit a narrow terminal.
fn narrowed(prefix: &str, columns: usize) -> String {
    inner(prefix, (columns / 2).min(columns.saturating_sub(LEAST)).max(2))
}

/// As many of the inner lines as there is room for; the outer ones become an ellipsis.
fn inner(prefix: &str, room: usize) -> String {
    let len = prefix.chars().count();
    if len <= room {
        return prefix.to_owned();
    }
    std::iter::once('…').chain(prefix.chars().skip(len - room + 1)).collect()
}

/// The role and the beginning of what an entry says; none for what only stands beside the conversation, unless `every` entry
/// is wanted.
fn said(entry: Entry<'_>, every: bool) -> Result<Option<(Option<String>, String)>> {
    let is_said = matches!(
        entry.kind(),
        EntryKind::Message
            | EntryKind::Compaction
            | EntryKind::BranchSummary
            | EntryKind::CustomMessage
            | EntryKind::ResetBoundary
    );
    if !is_said && !every {
        return Ok(None);
    }
    let Some(json) = payload(entry)? else { return Ok(None) };
    let Some(turn) = turn(entry, json.view()) else { return Ok(None) };
    let is_message = entry.kind() == EntryKind::Message;
    if is_message && turn.role == "toolResult" && !every {
        return Ok(None);
    }
    let text = turn.parts.iter().find_map(|part| match part {
        Part::Text { text } | Part::Output { text, .. } => Some(first_line(text).to_owned()),
        Part::Note { text } if !is_message && turn.parts.len() == 1 => Some(text.clone()),
        _ => None,
    });
    let call = || {
        turn.parts.iter().find_map(|part| match part {
            Part::Call { name, arguments } => {
                Some(format!("→ {name} {}", gist(arguments.as_deref().unwrap_or_default())).trim_end().to_owned())
            }
            Part::Stopped { reason } => Some(format!("stopped: {reason}")),
            Part::Image { kind, .. } => Some(format!("[{kind}]")),
            _ => None,
        })
    };
    let text = text.or_else(call).unwrap_or_default();
    Ok(Some((is_message.then_some(turn.role), text)))
}

#[cfg(test)]
mod tests {
    use super::narrowed;

    #[test]
    fn deep_outlines_leave_room_for_text() {
        assert_eq!(narrowed("│ │ ├─", 80), "│ │ ├─");
        let deep = "│ ".repeat(40) + "└─";
        assert_eq!(narrowed(&deep, 60).chars().count(), 30);
        assert!(narrowed(&deep, 60).starts_with('…') && narrowed(&deep, 60).ends_with("└─"));
        assert_eq!(narrowed(&deep, 20).chars().count(), 2);
    }
}

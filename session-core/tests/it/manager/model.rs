//! Any sequence of operations, reloaded, equals a plain model; a rewrite keeps untouched bytes; branching keeps the context.

use std::collections::BTreeMap;
use std::fs;

use proptest::prelude::*;
use session_core::{EntryEdit, JsonText, Leaf, NameSource, Session, SessionManager};

use super::{assistant, counting_host, json, user};

#[derive(Clone, Debug)]
enum Op {
    User(u8),
    Assistant(u8),
    Custom(u8),
    Compaction(usize),
    Branch(usize),
    Reset,
    Label(usize, Option<u8>),
    Rename(u8),
    Edit(usize, u8),
    Reopen,
    Foreign(u8),
    Fork,
    Branched(usize),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let n = any::<u8>();
    let at = 0_usize..64;
    let op = prop_oneof![
        4 => n.prop_map(Op::User),
        4 => n.prop_map(Op::Assistant),
        2 => n.prop_map(Op::Custom),
        1 => at.clone().prop_map(Op::Compaction),
        2 => at.clone().prop_map(Op::Branch),
        1 => Just(Op::Reset),
        2 => (at.clone(), proptest::option::of(n)).prop_map(|(at, label)| Op::Label(at, label)),
        1 => n.prop_map(Op::Rename),
        1 => (at.clone(), n).prop_map(|(at, n)| Op::Edit(at, n)),
        1 => Just(Op::Reopen),
        1 => n.prop_map(Op::Foreign),
        1 => Just(Op::Fork),
        1 => at.prop_map(Op::Branched),
    ];
    proptest::collection::vec(op, 1..30)
}

/// What a session is, said plainly.
#[derive(Clone, Debug, Default)]
struct Model {
    /// Id, parent, and what the entry must read as where that was set.
    entries: Vec<(String, Option<String>)>,
    messages: BTreeMap<String, JsonText>,
    leaf: Option<String>,
    labels: BTreeMap<String, String>,
    name: Option<String>,
    /// How many entries another program has written: their ids come once, whatever was branched away.
    foreign: usize,
}

impl Model {
    fn add(&mut self, id: &str) {
        self.entries.push((id.to_owned(), self.leaf.clone()));
        self.leaf = Some(id.to_owned());
    }

    fn pick(&self, at: usize) -> Option<String> {
        (!self.entries.is_empty()).then(|| self.entries[at % self.entries.len()].0.clone())
    }

    fn check(&self, session: &Session) {
        let entries: Vec<_> =
            session.entries().map(|entry| (entry.id().to_owned(), entry.parent_id().map(str::to_owned))).collect();
        assert_eq!(entries, self.entries);
        let labels: BTreeMap<String, String> =
            session.labels().unwrap().into_iter().map(|(id, label)| (id.to_string(), label)).collect();
        assert_eq!(labels, self.labels);
        assert_eq!(session.name().unwrap(), self.name);
        for (id, message) in &self.messages {
            let read = session.entry(id).unwrap().json().unwrap();
            assert_eq!(read.view().get("message").unwrap().raw(), message.as_str().as_bytes());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn property_any_sequence_of_operations_equals_the_model(ops in ops()) {
        let dir = tempfile::tempdir().unwrap();
        let host = counting_host(dir.path());
        let mut session = SessionManager::create(&host, dir.path(), Some(&dir.path().join("s"))).unwrap();
        session.ensure_on_disk().unwrap();
        let mut model = Model::default();
        for op in ops {
            step(&host, &mut session, &mut model, &op);
            model.check(session.session());
            prop_assert_eq!(session.leaf_id(), model.leaf.as_deref());
        }
        let leaf = model.leaf.clone();
        let context = session.context(&Leaf::Current).unwrap().to_json();
        session.flush().unwrap();
        let read = Session::read(session.file().unwrap()).unwrap().with_blobs(host.blobs());
        model.check(&read);
        let leaf = leaf.map_or(Leaf::None, |leaf| Leaf::Entry(leaf.as_str().into()));
        prop_assert_eq!(read.context(&leaf).unwrap().to_json(), context);
        prop_assert_eq!(read.defects().total(), 0);
    }
}

fn step(host: &session_core::Host, session: &mut SessionManager, model: &mut Model, op: &Op) {
    match *op {
        Op::User(n) | Op::Assistant(n) => {
            let message = if matches!(op, Op::User(_)) { user(&n.to_string()) } else { assistant(&n.to_string()) };
            let id = session.append_message(&message).unwrap().to_string();
            model.add(&id);
            model.messages.insert(id, message);
        }
        Op::Custom(n) => {
            let data = json(&format!("{{\"n\":{n}.0}}"));
            model.add(session.append_custom_entry("c", Some(&data), None).unwrap().as_str());
        }
        Op::Compaction(at) => {
            let Some(kept) = model.pick(at) else { return };
            let compaction = session_core::CompactionEntry {
                summary: "sum".to_owned(),
                short_summary: None,
                first_kept_entry_id: kept.as_str().into(),
                tokens_before: 7,
                details: None,
                from_extension: None,
                preserve_data: None,
            };
            model.add(session.append_compaction(&compaction).unwrap().as_str());
        }
        Op::Branch(at) => {
            let Some(id) = model.pick(at) else { return };
            session.branch(&id).unwrap();
            model.leaf = Some(id);
        }
        Op::Reset => {
            session.reset_leaf();
            model.leaf = None;
        }
        Op::Label(at, label) => {
            let Some(target) = model.pick(at) else { return };
            let label = label.map(|n| format!("label {n}"));
            model.add(session.append_label_change(&target, label.as_deref()).unwrap().as_str());
            match label {
                Some(label) => model.labels.insert(target, label),
                None => model.labels.remove(&target),
            };
        }
        Op::Rename(n) => rename(session, model, n),
        Op::Edit(at, n) => {
            let Some(id) = model.pick(at).filter(|id| model.messages.contains_key(id)) else { return };
            let message = json(&format!(r#"{{"role":"user","content":"edit {n}"}}"#));
            let payload = json(&format!("{{\"message\":{message}}}"));
            session.rewrite_entries(&[EntryEdit { id: id.as_str().into(), payload }]).unwrap();
            model.messages.insert(id, message);
        }
        Op::Reopen => {
            let file = session.file().unwrap().to_owned();
            session.close().unwrap();
            *session = SessionManager::open(host, &file, None).unwrap();
            model.leaf = model.entries.last().map(|(id, _)| id.clone());
        }
        Op::Foreign(n) => {
            model.foreign += 1;
            let id = format!("f{:07}", model.foreign);
            let line = format!(
                "{{\"type\":\"custom\",\"id\":\"{id}\",\"parentId\":null,\"timestamp\":\"2026-01-01T00:00:00.000Z\",\"n\":{n}.50}}\n"
            );
            let file = session.file().unwrap();
            fs::write(file, fs::read_to_string(file).unwrap() + &line).unwrap();
            // It shows at the next operation, and our leaf stays.
            model.entries.push((id, None));
            let message = user("after");
            let own = session.append_message(&message).unwrap().to_string();
            model.add(&own);
            model.messages.insert(own, message);
        }
        Op::Fork => {
            // [T7] The same entries, and the leaf where it was.
            session.fork().unwrap().unwrap();
        }
        Op::Branched(at) => branched(session, model, at),
    }
}

fn rename(session: &mut SessionManager, model: &mut Model, n: u8) {
    let file = session.file().unwrap().to_owned();
    let before = fs::read_to_string(&file).unwrap();
    assert!(session.set_session_name(&format!("name {n}"), NameSource::User).unwrap());
    model.name = Some(format!("name {n}"));
    let after = fs::read_to_string(&file).unwrap();
    let rest = |text: &str| text.split_once('\n').unwrap().1.to_owned();
    assert_eq!(rest(&after), rest(&before), "a rewrite keeps untouched bytes");
}

fn branched(session: &mut SessionManager, model: &mut Model, at: usize) {
    let Some(leaf) = model.pick(at) else { return };
    let before = session.context(&Leaf::Entry(leaf.as_str().into())).unwrap().to_json();
    session.create_branched_session(&leaf).unwrap().unwrap();
    assert_eq!(session.context(&Leaf::Current).unwrap().to_json(), before, "[T6] the context is the same");
    // The model becomes what the branch is; that it is the right path was just shown by its context.
    let read = session.session();
    let labels: BTreeMap<String, String> =
        read.labels().unwrap().into_iter().map(|(id, label)| (id.to_string(), label)).collect();
    for (id, label) in &labels {
        assert_eq!(model.labels.get(id), Some(label));
    }
    model.labels = labels;
    model.entries = read.entries().map(|entry| (entry.id().to_owned(), entry.parent_id().map(str::to_owned))).collect();
    model.messages.retain(|id, _| model.entries.iter().any(|(kept, _)| kept == id));
    model.leaf = model.entries.last().map(|(id, _)| id.clone());
}

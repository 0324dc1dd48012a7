//! Two extensions on one session, through branches, forks, compaction and reloads: each sees its own state of this branch.
//! And the context that the model gets has their messages and nothing of their state.

use plugin_sdk::testing::FakeSession;
use plugin_sdk::{Extension, State, Version};
use proptest::prelude::*;
use session_core::{EntryId, Json, Leaf, Session};

#[derive(Clone, Debug)]
enum Action {
    Save(usize, u8),
    Say(u8),
    Branch(prop::sample::Index),
    Compact(prop::sample::Index),
    BranchedSession(prop::sample::Index),
    Fork,
    Reload,
}

fn actions() -> impl Strategy<Value = Vec<Action>> {
    let at = any::<prop::sample::Index>;
    let action = prop_oneof![
        6 => (0..2_usize, 0..3_u8).prop_map(|(who, value)| Action::Save(who, value)),
        2 => any::<u8>().prop_map(Action::Say),
        3 => at().prop_map(Action::Branch),
        1 => at().prop_map(Action::Compact),
        1 => at().prop_map(Action::BranchedSession),
        1 => Just(Action::Fork),
        1 => Just(Action::Reload),
    ];
    prop::collection::vec(action, 1..60)
}

/// What the session should hold.
#[derive(Default)]
struct Model {
    entries: Vec<Modelled>,
    leaf: Option<usize>,
}

struct Modelled {
    id: EntryId,
    parent: Option<usize>,
    saved: Option<(usize, u8)>,
}

impl Model {
    fn append(&mut self, id: EntryId, saved: Option<(usize, u8)>) {
        self.entries.push(Modelled { id, parent: self.leaf, saved });
        self.leaf = Some(self.entries.len() - 1);
    }

    fn path(&self) -> Vec<usize> {
        let mut path: Vec<usize> = std::iter::successors(self.leaf, |&n| self.entries[n].parent).collect();
        path.reverse();
        path
    }

    fn states(&self, who: usize, entries: impl IntoIterator<Item = usize>) -> Vec<u8> {
        let saved = entries.into_iter().filter_map(|n| self.entries[n].saved);
        saved.filter(|(by, _)| *by == who).map(|(_, value)| value).collect()
    }

    /// Only the path stays.
    fn keep_path(&mut self) {
        let path = self.path();
        let mut kept = Self::default();
        for n in path {
            let Modelled { id, saved, .. } = &self.entries[n];
            kept.append(id.clone(), *saved);
        }
        *self = kept;
    }
}

fn values(records: &[plugin_sdk::Record<u8>]) -> Vec<u8> {
    records.iter().map(|record| *record.value().unwrap().unwrap()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn property_each_sees_its_own_state_of_this_branch(actions in actions()) {
        // One name is the beginning of the other.
        let extension = Extension::new("todo").unwrap();
        let states: [State<u8>; 2] =
            [extension.state(Version(1)), extension.named_state("settings", Version(1)).unwrap()];
        let mut session = FakeSession::new();
        let mut model = Model::default();
        for action in actions {
            let any_entry = |at: prop::sample::Index| (!model.entries.is_empty()).then(|| at.index(model.entries.len()));
            match action {
                Action::Save(who, value) => {
                    let differs = model.states(who, model.path()).last() != Some(&value);
                    let saved = states[who].save(&mut session, &value).unwrap();
                    prop_assert_eq!(saved.entry().is_some(), differs);
                    if let Some(id) = saved.entry() {
                        model.append(id.clone(), Some((who, value)));
                    }
                }
                Action::Say(text) => {
                    let id = session.user(&text.to_string());
                    model.append(id, None);
                }
                Action::Branch(at) => if let Some(n) = any_entry(at) {
                    session.branch_to(&model.entries[n].id);
                    model.leaf = Some(n);
                },
                Action::Compact(at) => if let Some(n) = any_entry(at) {
                    let id = session.compact(&model.entries[n].id, "summary");
                    model.append(id, None);
                },
                Action::BranchedSession(at) => if let Some(n) = any_entry(at) {
                    session.create_branched_session(model.entries[n].id.as_str()).unwrap();
                    model.leaf = Some(n);
                    model.keep_path();
                },
                Action::Fork => {
                    session.fork().unwrap().unwrap();
                }
                Action::Reload => {
                    session.reload();
                    // [T1] after a load the leaf is the last entry of the file
                    model.leaf = model.entries.len().checked_sub(1);
                }
            }
            for (who, state) in states.iter().enumerate() {
                let on_path = model.states(who, model.path());
                prop_assert_eq!(state.load(&session).unwrap(), on_path.last().copied());
                prop_assert_eq!(&values(&state.history(&session).unwrap()), &on_path);
                prop_assert_eq!(values(&state.all(&session).unwrap()), model.states(who, 0..model.entries.len()));
            }
        }
        prop_assert!(session.manager().session().defects().list().is_empty());
    }
}

#[test]
fn the_context_has_messages_and_no_state() {
    // [C3, C4, C5]
    let (todo, weather) = (Extension::new("todo").unwrap(), Extension::new("weather").unwrap());
    let list = todo.state::<Vec<String>>(Version(1));
    let mut session = FakeSession::new();
    session.user("before");
    list.save(&mut session, &vec!["milk".into()]).unwrap();
    let kept = weather.message("It rains.").hidden().append(&mut session).unwrap();
    session.assistant("hello");
    session.compact(&kept, "they met");
    todo.message("One item is open.").append(&mut session).unwrap();
    list.clear(&mut session).unwrap();
    session.user("after");

    let texts = ["they met", "It rains.", "hello", "One item is open.", "after"];
    assert_eq!(session.model_reads(), texts);
    session.reload();
    assert_eq!(session.model_reads(), texts);
    // Any reader of the family, which knows nothing of this crate, gets the same.
    let storage = std::sync::Arc::clone(plugin_sdk::SessionWriter::host(&session).storage());
    let read = Session::read_from(storage, &session.file()).unwrap();
    let context = read.context(&Leaf::Current).unwrap();
    assert_eq!(context.messages().len(), texts.len());
    assert!(context.defects().is_empty() && read.examine().unwrap().list().is_empty());
    let roles: Vec<_> = context
        .messages()
        .iter()
        .map(|m| m.json().view().get("role").and_then(Json::text).unwrap().into_owned())
        .collect();
    assert_eq!(roles, ["compactionSummary", "custom", "assistant", "custom", "user"]);
}

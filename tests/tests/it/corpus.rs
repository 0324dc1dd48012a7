//! A recorded session of a megabyte says what `data/corpus/large-session.json` states.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;
use session_core::{AgentDir, CacheMode, Catalog, Entry, Environment, Leaf, Session};

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data/corpus").join(name)
}

fn counted<T: Into<String>>(names: impl Iterator<Item = T>) -> Value {
    let mut counts = BTreeMap::new();
    for name in names {
        *counts.entry(name.into()).or_insert(0) += 1;
    }
    serde_json::to_value(counts).unwrap()
}

#[test]
fn large_session() {
    // L1, L5, L6, T4, T10, C1–C3
    let stated: Value = serde_json::from_slice(&std::fs::read(file("large-session.json")).unwrap()).unwrap();
    let path = file(stated["file"].as_str().unwrap());
    let bytes = std::fs::read(&path).unwrap();
    assert_eq!(stated["bytes"], bytes.len());
    assert_eq!(stated["lines"], bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).count());
    assert_eq!(stated["version_in_file"], Value::Null);
    assert!(!bytes.split(|byte| *byte == b'\n').next().unwrap().windows(9).any(|key| key == b"\"version\""));

    let session = Session::read(&path).unwrap();
    assert_eq!(session.examine().unwrap().total(), 0);
    assert_eq!(stated["entries"], session.entries().len());
    assert_eq!(stated["types"], counted(session.entries().map(Entry::kind_name)));
    let roots = session.tree().iter().filter(|node| node.parent.is_none()).count();
    assert_eq!(stated["roots"], roots);

    let context = session.context(&Leaf::Current).unwrap();
    let stated_context = &stated["context"];
    let role = |index: usize| {
        let role = context.messages()[index].view().json().get("role").unwrap();
        role.text().unwrap().into_owned()
    };
    let len = context.messages().len();
    assert_eq!(stated_context["messages"], len);
    assert_eq!(stated_context["roles"], counted((0..len).map(role)));
    assert_eq!(stated_context["models"], serde_json::to_value(context.models()).unwrap());
    assert_eq!(stated_context["thinkingLevel"], context.thinking_level());
    assert_eq!(stated_context["mode"], context.mode());
    assert_eq!(stated_context["injectedTtsrRules"], serde_json::to_value(context.injected_rules()).unwrap());
    assert_eq!(stated_context["first"], role(0));
    assert_eq!(stated_context["last"], role(len - 1));

    let usage = session.usage().unwrap();
    for (name, sum) in [
        ("input", usage.input),
        ("output", usage.output),
        ("cacheRead", usage.cache_read),
        ("cacheWrite", usage.cache_write),
        ("premiumRequests", usage.premium_requests),
        ("cost", usage.cost),
    ] {
        let stated = stated["usage"][name].as_f64().unwrap();
        assert!((stated - sum).abs() <= 1e-9 * stated.abs().max(1.0), "{name}: want {stated}, got {sum}");
    }

    // R3
    let agent = AgentDir::at(path.parent().unwrap()).unwrap();
    let catalog = Catalog::new(agent, Environment::new("/")).with_cache(CacheMode::Off);
    let listing = catalog.list(None, path.parent()).unwrap();
    let [listed] = &listing.sessions[..] else { panic!("one session is listed") };
    let stated = &stated["list"];
    assert_eq!(stated["id"], listed.id().as_str());
    assert_eq!(stated["cwd"], listed.cwd());
    assert_eq!(stated["title"], serde_json::to_value(listed.title()).unwrap());
    assert_eq!(stated["parent"], serde_json::to_value(listed.parent_session()).unwrap());
    assert_eq!(stated["created"], listed.created().unwrap().to_string());
    assert_eq!(stated["messageCount"], listed.message_count().unwrap());
    assert_eq!(stated["firstMessage"], listed.first_message());
}

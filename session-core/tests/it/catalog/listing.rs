//! Which sessions a listing has, and what it says of them `[R1–R3]`.

use std::fs;
use std::path::Path;

use session_core::{ErrorKind, ListDepth, ProblemKind, Role, Session, Status, Timestamp};

use super::{Place, assistant, header, ids, message, touch, user, write};

#[test]
fn k3_a_broken_line_hides_neither_the_session_nor_its_end() {
    // [K3, L1] Last activity is that of entry 100, whatever line 50 is.
    let place = Place::new();
    let mut text = header("a1", "/w");
    for n in 1..=100 {
        let line = user(&format!("{n:08x}"), "x").replace("09:30:01", &format!("10:{:02}:{:02}", n / 60, n % 60));
        text.push_str(if n == 50 { "{\"type\":\"mess\n" } else { &line });
    }
    write(&place.sessions("--w--/a.jsonl"), &text, 100);
    let listing = place.catalog().list_all().unwrap();
    let info = &listing.sessions[0];
    assert_eq!(info.message_count(), Some(99));
    assert_eq!(info.last_activity(), Timestamp::parse("2026-01-05T10:01:40.000Z"));
    assert!(listing.problems.is_empty());
}

#[test]
fn every_kind_of_broken_file_is_reported_and_hides_no_other() {
    // [K5, R3]
    let place = Place::new();
    for n in 0..18 {
        place.session(&format!("--w--/{n}.jsonl"), &format!("a{n}"), "/w", n);
    }
    let dir = place.sessions("--w--");
    write(&dir.join("nul.jsonl"), &"\0".repeat(10_000), 50);
    write(&dir.join("empty.jsonl"), "", 51);
    write(&dir.join("entry-first.jsonl"), &user("00000001", "x"), 52);
    fs::create_dir(dir.join("x.jsonl")).unwrap();
    place.link(Path::new("nowhere"), "agent/sessions/--w--/dangling.jsonl");
    place.link(Path::new("loop.jsonl"), "agent/sessions/--w--/loop.jsonl");
    write(&dir.join("notes.txt"), "x", 53);
    write(&dir.join(".hidden"), "x", 53);

    for depth in [ListDepth::Header, ListDepth::Prefix, ListDepth::Bounded, ListDepth::Whole] {
        let listing = place.catalog().with_depth(depth).list(Some(Path::new("/w")), None).unwrap();
        assert_eq!(listing.sessions.len(), 18);
        let problems: Vec<_> = listing
            .problems
            .iter()
            .map(|problem| (problem.path().file_name().unwrap().to_str().unwrap(), problem.kind()))
            .collect();
        assert_eq!(
            problems,
            [
                ("dangling.jsonl", ProblemKind::DanglingLink),
                ("empty.jsonl", ProblemKind::Empty),
                ("entry-first.jsonl", ProblemKind::NoHeader),
                ("loop.jsonl", ProblemKind::DanglingLink),
                ("nul.jsonl", ProblemKind::NoHeader),
                ("x.jsonl", ProblemKind::NotAFile),
            ]
        );
        assert!(listing.problems.iter().all(|problem| problem.to_string().contains(".jsonl: ")));
    }
    assert_eq!(place.catalog().recent_sessions(&dir, 100).unwrap().sessions.len(), 18);
    assert_eq!(place.catalog().find_most_recent_session(&dir).unwrap(), Some(dir.join("17.jsonl")), "[R2]");
}

#[test]
fn a_directory_that_is_none_is_an_error_and_a_missing_one_is_empty() {
    let place = Place::new();
    let catalog = place.catalog();
    write(&place.path("file"), "x", 1);
    let missing = place.path("missing");
    assert!(catalog.list(None, Some(&missing)).unwrap().sessions.is_empty());
    assert!(catalog.recent_sessions(&missing, 5).unwrap().sessions.is_empty());
    assert_eq!(catalog.find_most_recent_session(&missing).unwrap(), None);
    let error = catalog.list(None, Some(&place.path("file"))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotAFile);
    assert_eq!(catalog.list(Some(Path::new("w")), None).unwrap_err().kind(), ErrorKind::InvalidInput);
    fs::remove_dir_all(place.path("agent")).unwrap();
    assert!(catalog.list_all().unwrap().sessions.is_empty());
    assert!(catalog.list(None, None).unwrap().sessions.is_empty(), "the environment's working directory");
}

#[test]
fn k30_the_header_decides_whose_a_session_is() {
    // [K30, D5] Both names are `--w-a-b-c--`.
    let place = Place::new();
    place.session("--w-a-b-c--/1.jsonl", "one", "/w/a-b/c", 1);
    place.session("--w-a-b-c--/2.jsonl", "two", "/w/a/b-c", 2);
    place.session("--w-a-b-c--/3.jsonl", "relative", "w/a/b-c", 3);
    write(&place.sessions("--w-a-b-c--/4.jsonl"), &header("none", "").replace(",\"cwd\":\"\"", ""), 4);
    let list = |cwd: &str| place.catalog().list(Some(Path::new(cwd)), None).unwrap();
    assert_eq!(ids(&list("/w/a-b/c")), ["one"]);
    assert_eq!(ids(&list("/w/./a/b-c/")), ["two"]);
    assert_eq!(ids(&list("/w/a-b-c")), [""; 0]);
    assert_eq!(ids(&place.catalog().list_all().unwrap()), ["none", "relative", "two", "one"]);
}

#[test]
fn all_places_of_a_working_directory_are_looked_at() {
    // [D4, D5, K32] Names relative to the home and to the temporary root, and a name that only a link explains.
    let place = Place::new();
    fs::create_dir_all(place.path("data/p")).unwrap();
    place.link(&place.path("data"), "home");
    let (given, real) = (place.path("home/p"), fs::canonicalize(place.path("data/p")).unwrap());
    let (given, real) = (given.to_str().unwrap(), real.to_str().unwrap());
    let dir = |cwd: &str| session_core::encode_cwd(Path::new(cwd)).unwrap().into_string().unwrap();
    place.session(&format!("{}/1.jsonl", dir(given)), "given", given, 1);
    place.session(&format!("{}/2.jsonl", dir(real)), "real", real, 2);
    place.session("-p/3.jsonl", "relative", real, 3);
    place.session("-p/4.jsonl", "other", "/elsewhere", 4);
    place.session("--other--/5.jsonl", "unrelated", "/other", 5);
    for cwd in [given, real] {
        let listing = place.catalog().list(Some(Path::new(cwd)), None).unwrap();
        assert_eq!(ids(&listing), ["relative", "real", "given"], "{cwd}");
    }
}

#[test]
fn k32_each_session_once_through_links_and_loops() {
    // [K32, R3]
    let place = Place::new();
    let path = place.session("--w--/a.jsonl", "a1", "/w", 1);
    place.link(&place.sessions("--w--"), "agent/sessions/--link--");
    place.link(&place.sessions("--w--"), "agent/sessions/--w--/again");
    place.link(Path::new("--loop--"), "agent/sessions/--loop--");
    place.link(Path::new("--gone--"), "agent/sessions/--dangling--");
    place.link(&path, "agent/sessions/--w--/b.jsonl");
    fs::hard_link(&path, place.sessions("--w--/c.jsonl")).unwrap();
    let listing = place.catalog().list_all().unwrap();
    assert_eq!(ids(&listing), ["a1"]);
    assert!(listing.problems.is_empty(), "{:?}", listing.problems);
    assert_eq!(listing.sessions[0].path(), path, "the name that is no link");
    for spelling in [".", "./", "--w--/.", "--link--"] {
        let dir = place.sessions("").join(spelling);
        let want = usize::from(spelling.starts_with('-'));
        assert_eq!(place.catalog().list(None, Some(&dir)).unwrap().sessions.len(), want, "{spelling}");
    }
    assert_eq!(place.catalog().all_subagents().unwrap().sessions.len(), 0);
    // The whole directory of sessions, and the agent directory, are links.
    place.link(&place.path("agent"), "linked");
    let agent = session_core::AgentDir::at(place.path("linked")).unwrap();
    let catalog = session_core::Catalog::new(agent, session_core::Environment::new("/"));
    assert_eq!(catalog.list_all().unwrap().sessions.len(), 1);
}

#[test]
fn k36_subagents_are_apart_and_reachable() {
    // [K36, D9]
    let place = Place::new();
    let owner = place.session("--w--/a.jsonl", "top", "/w", 1);
    let sub = place.session("--w--/a/0-task.jsonl", "sub", "/w", 2);
    let deep = place.session("--w--/a/0-task/1-task.jsonl", "deep", "/w/x", 3);
    place.session("--w--/gone/2-task.jsonl", "orphan", "/w", 4);
    place.link(&place.sessions("--w--"), "agent/sessions/--w--/a/up");
    let fork = header("fork", "/w").replace("}\n", ",\"parentSession\":\"top\"}\n");
    write(&place.sessions("--w--/f.jsonl"), &fork, 5);

    let catalog = place.catalog();
    assert_eq!(ids(&catalog.list_all().unwrap()), ["fork", "top"]);
    assert_eq!(catalog.list_all().unwrap().sessions[0].parent_session(), Some("top"));
    assert_eq!(ids(&catalog.list(Some(Path::new("/w")), None).unwrap()), ["fork", "top"]);
    let all = catalog.all_subagents().unwrap();
    assert_eq!(ids(&all), ["orphan", "deep", "sub"]);
    let owners: Vec<_> = all.sessions.iter().map(session_core::SessionInfo::owner).collect();
    assert_eq!(owners, [None, Some(sub.as_path()), Some(owner.as_path())]);
    assert_eq!(ids(&catalog.subagents(Some(Path::new("/w")), None).unwrap()), ["orphan", "sub"]);
    assert_eq!(ids(&catalog.subagents(None, Some(&place.sessions("--w--"))).unwrap()), ["orphan", "deep", "sub"]);
    let found = catalog.find_by_id(&"deep".into()).unwrap();
    assert_eq!(found, Some(deep.clone()));
    assert_eq!(catalog.resolve("DEE", Path::new("/w"), None).unwrap().unwrap().path(), deep);
}

#[test]
fn a_session_directory_named_like_a_file_holds_artifacts() {
    let place = Place::new();
    place.session("flat.jsonl", "flat", "/w", 1);
    place.session("flat/sub.jsonl", "sub", "/w", 2);
    assert_eq!(ids(&place.catalog().list_all().unwrap()), ["flat"], "sessions that lie in `sessions` itself count");
}

#[test]
fn k13_long_lines_cost_a_bounded_prefix_and_hide_nothing() {
    // [K13, R1]
    let place = Place::new();
    let dir = place.sessions("--w--");
    let long = "x".repeat(20_000);
    write(&dir.join("header.jsonl"), &(header("a1", &format!("/{long}")) + &user("00000001", "prompt one")), 4);
    write(&dir.join("prompt.jsonl"), &(header("a2", "/w") + &user("00000001", &long)), 3);
    let init = format!(
        "{{\"type\":\"session_init\",\"id\":\"00000009\",\"parentId\":null,\"systemPrompt\":\"{}\"}}\n",
        "y".repeat(300_000)
    );
    write(&dir.join("init.jsonl"), &(header("a3", "/w") + &init + &user("00000001", "after it")), 2);
    write(
        &dir.join("huge.jsonl"),
        &(header("a4", "/w") + &user("00000001", &"z".repeat(3_000_000)) + &user("00000002", "not reached")),
        1,
    );
    let recent = place.catalog().recent_sessions(&dir, 10).unwrap();
    let names: Vec<_> = recent.sessions.iter().map(session_core::RecentSession::name).collect();
    assert_eq!(
        names,
        ["prompt one".to_owned(), format!("{}…", "x".repeat(39)), "after it".to_owned(), "a4".to_owned()]
    );
    let whole = place.catalog().list(None, Some(&dir)).unwrap();
    assert_eq!(whole.sessions[3].first_prompt().unwrap().len(), 3_000_000);
    let prefix = place.catalog().with_depth(ListDepth::Prefix).list(None, Some(&dir)).unwrap();
    let facts: Vec<_> = prefix.sessions.iter().map(|info| (info.first_message().len(), info.message_count())).collect();
    assert_eq!(facts, [(10, None), (20_000, None), (8, None), ("(no messages)".len(), None)]);
}

#[test]
fn a_cut_line_is_no_damage_to_the_name() {
    // [R1] The prefix ends inside a message whose details hold what looks like a record.
    let place = Place::new();
    let dir = place.sessions("--w--");
    let nested = user("0000000f", "phantom").trim_end().to_owned();
    let entry = format!(
        "{{\"type\":\"custom\",\"id\":\"00000001\",\"parentId\":null,\"customType\":\"x\",\"data\":{{\"a\":\"{}\",\"b\":{nested},\"c\":\"{}\"}}}}\n",
        "p".repeat(3_000),
        "q".repeat(3_000),
    );
    write(&dir.join("a.jsonl"), &(header("a1", "/w") + &entry + &user("00000002", "real")), 1);
    assert_eq!(place.catalog().recent_sessions(&dir, 1).unwrap().sessions[0].full_name(), "real");
}

#[test]
fn recent_reads_no_further_than_it_must_past_broken_files() {
    // [R1] The newest are broken; the limit counts sessions.
    let place = Place::new();
    for n in 0..30 {
        place.session(&format!("--w--/{n:02}.jsonl"), &format!("a{n}"), "/w", n);
    }
    for n in 25..30 {
        let path = place.sessions(&format!("--w--/{n:02}.jsonl"));
        write(&path, "garbage\n", n);
    }
    let recent = place.catalog().recent_sessions(&place.sessions("--w--"), 3).unwrap();
    let files: Vec<_> = recent.sessions.iter().map(|one| one.path().file_stem().unwrap().to_str().unwrap()).collect();
    assert_eq!(files, ["24", "23", "22"]);
    assert_eq!(recent.problems.len(), 5);
    assert_eq!(recent.sessions[0].time_ago(Timestamp::from_millis(24_000 + 3_600_000).unwrap()), "1h ago");
}

#[test]
fn equal_times_are_told_apart_by_name_and_nanoseconds_count() {
    let place = Place::new();
    for name in ["a", "b", "c"] {
        place.session(&format!("--w--/{name}.jsonl"), name, "/w", 7);
    }
    assert_eq!(ids(&place.catalog().list_all().unwrap()), ["c", "b", "a"]);
    let path = place.sessions("--w--/a.jsonl");
    let time = std::time::UNIX_EPOCH + std::time::Duration::new(7, 1);
    fs::File::open(path).unwrap().set_modified(time).unwrap();
    assert_eq!(ids(&place.catalog().list_all().unwrap()), ["a", "c", "b"]);
}

#[test]
fn the_status_is_that_of_the_last_message_that_says() {
    // [R3]
    let place = Place::new();
    let result = message("0000000a", r#"{"role":"toolResult","toolCallId":"1","content":"x"}"#);
    let shell = message("0000000b", r#"{"role":"bashExecution","command":"ls","output":""}"#);
    let odd = message("0000000c", "\"text\"");
    for (text, want) in [
        (String::new(), Status::Unknown),
        (shell.clone(), Status::Unknown),
        (user("00000001", "x"), Status::Waiting),
        (user("00000001", "x") + &shell, Status::Waiting),
        (user("00000001", "x") + &assistant("00000002", "y"), Status::Complete),
        (user("00000001", "x") + &assistant("00000002", "y") + &shell + &odd, Status::Complete),
        (user("00000001", "x") + &result, Status::Interrupted),
        (assistant("00000001", "x") + &user("00000002", "y"), Status::Waiting),
        (message("00000001", r#"{"role":"assistant","stopReason":"aborted","content":[]}"#), Status::Aborted),
        (message("00000001", r#"{"role":"assistant","stopReason":"error","content":[]}"#), Status::Error),
    ] {
        write(&place.sessions("--w--/a.jsonl"), &(header("a1", "/w") + &text), 1);
        let listing = place.catalog().list_all().unwrap();
        assert_eq!(listing.sessions[0].status(), Some(want), "{text}");
    }
}

#[test]
fn titles_come_from_names_then_from_compactions() {
    // [R3, F8, F8a]
    let place = Place::new();
    let compaction = |id: &str, short: &str| {
        format!(
            "{{\"type\":\"compaction\",\"id\":\"{id}\",\"parentId\":null,\"summary\":\"s\",\"shortSummary\":{short},\"firstKeptEntryId\":\"x\",\"tokensBefore\":1}}\n"
        )
    };
    let info =
        |name: &str| format!("{{\"type\":\"session_info\",\"id\":\"0000000d\",\"parentId\":null,\"name\":{name}}}\n");
    let titled = header("a1", "/w").replace("}\n", ",\"title\":\"Head\"}\n");
    let plain = header("a1", "/w");
    let one = compaction("00000001", "\"one\"");
    for (text, want) in [
        (titled.clone(), Some("Head")),
        (titled.clone() + &one, Some("Head")),
        (titled.clone() + &info("\"Info\""), Some("Info")),
        (titled.clone() + &info("7"), Some("Head")),
        (titled.clone() + &info("\"\"") + &one, Some("one")),
        (plain.clone() + &one + &compaction("00000002", "\"two\""), Some("two")),
        (plain.clone() + &one + &compaction("00000002", "null"), Some("one")),
        (plain + &user("00000001", "x"), None),
    ] {
        write(&place.sessions("--w--/a.jsonl"), &text, 1);
        assert_eq!(place.catalog().list_all().unwrap().sessions[0].title(), want, "{text}");
    }
}

#[test]
fn texts_are_those_of_user_and_assistant() {
    // [R3]
    let place = Place::new();
    let path = place.sessions("--w--/a.jsonl");
    let blocks = r#"{"role":"assistant","content":[{"type":"thinking","thinking":"no"},{"type":"text","text":"c"},{"type":"toolCall","id":"1","name":"t"},{"type":"text","text":"d"}]}"#;
    let result = r#"{"role":"toolResult","content":"no"}"#;
    let text = header("a1", "/w")
        + &user("00000001", "a\\ud83d")
        + "garbage\n"
        + &user("00000002", "")
        + &message("00000003", result)
        + &message("00000004", blocks)
        + &message("00000005", "null");
    write(&path, &text, 1);
    let session = Session::read(&path).unwrap();
    let texts: Vec<_> = session.texts().map(|item| item.map(|one| (one.role, one.text)).unwrap()).collect();
    assert_eq!(texts, [(Role::User, "a\u{fffd}".to_owned()), (Role::Assistant, "c d".to_owned())]);
}

#[test]
fn versions_and_slots_do_not_hide_a_session() {
    // [K37, L5, F8a]
    let place = Place::new();
    let text = header("v4", "/w").replace("\"version\":3", "\"version\":4") + &user("00000001", "x");
    write(&place.sessions("--w--/4.jsonl"), &text, 4);
    let v1 = "{\"type\":\"session\",\"id\":\"v1\",\"cwd\":\"/w\"}\n{\"type\":\"message\",\"message\":{\"role\":\"user\",\"content\":\"old\"}}\n";
    write(&place.sessions("--w--/1.jsonl"), v1, 3);
    write(&place.sessions("--w--/t.jsonl"), &("{\"type\":\"title\",\"v\":1}\n".to_owned() + &header("torn", "/w")), 2);
    write(&place.sessions("--w--/b.jsonl"), &("\u{feff}".to_owned() + &header("bom", "/w").replace('\n', "\r\n")), 1);
    let listing = place.catalog().list_all().unwrap();
    assert_eq!(ids(&listing), ["v4", "v1", "torn", "bom"]);
    assert_eq!(listing.sessions[1].first_message(), "old");
    assert_eq!((listing.sessions[1].message_count(), listing.sessions[1].created()), (Some(1), None));
}

#[test]
fn listing_changes_nothing() {
    // [L4a, D3a] Nothing is written unless asked, not even a time.
    let place = Place::new();
    let path = place.session("--w--/a.jsonl", "a1", "/w", 1);
    touch(&path, 5);
    let before = tree(place.root.path());
    let catalog = place.catalog();
    catalog.list_all().unwrap();
    catalog.list(None, None).unwrap();
    catalog.recent_sessions(&place.sessions("--w--"), 5).unwrap();
    catalog.most_likely(Path::new("/w"), None, None).unwrap();
    catalog.resolve("a1", Path::new("/w"), None).unwrap();
    catalog.find_by_id(&"a1".into()).unwrap();
    assert_eq!(tree(place.root.path()), before);
}

fn tree(dir: &Path) -> Vec<(std::path::PathBuf, std::time::SystemTime)> {
    let mut found = Vec::new();
    let mut dirs = vec![dir.to_path_buf()];
    while let Some(dir) = dirs.pop() {
        for item in fs::read_dir(dir).unwrap() {
            let item = item.unwrap();
            let metadata = item.metadata().unwrap();
            found.push((item.path(), metadata.modified().unwrap()));
            if metadata.is_dir() {
                dirs.push(item.path());
            }
        }
    }
    found.sort();
    found
}

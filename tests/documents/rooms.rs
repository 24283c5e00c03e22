//! The arrows between the rooms, as `docs/architecture.md` draws them.

use std::collections::{BTreeMap, BTreeSet};

use crate::{files, read};

/// What a file of the service uses of the crate, without its tests: the paths after `crate::`, one
/// for each leaf of a group.
fn uses(source: &str) -> BTreeSet<String> {
    let code = source.split("#[cfg(test)]\nmod tests {").next().unwrap();
    let lines = code.lines().map(str::trim).filter(|line| !line.starts_with("//"));
    let text = lines.collect::<Vec<_>>().join(" ");
    let mut found = BTreeSet::new();
    for rest in text.split("crate::").skip(1) {
        leaves("", rest, &mut found);
    }
    found
}

/// Reads one path, or a group of them in braces, and says where it ends.
fn leaves(prefix: &str, text: &str, found: &mut BTreeSet<String>) -> usize {
    if !text.starts_with('{') {
        let end =
            text.find(|c: char| !c.is_alphanumeric() && c != '_' && c != ':').unwrap_or(text.len());
        let path = format!("{prefix}{}", &text[..end]);
        if text[end..].starts_with('{') {
            return end + leaves(&path, &text[end..], found);
        }
        found.insert(path);
        return end;
    }
    let mut at = 1;
    loop {
        at += text[at..].len() - text[at..].trim_start_matches([' ', ',']).len();
        if at >= text.len() || text[at..].starts_with('}') {
            return at + 1;
        }
        at += leaves(prefix, &text[at..], found).max(1);
        // ` as Other`
        at += text[at..].find([',', '}', '{']).unwrap_or(text.len() - at);
    }
}

fn rooms() -> BTreeMap<String, BTreeSet<String>> {
    let page = read("docs/architecture.md");
    let rows = page.lines().filter(|l| l.starts_with("| `") && l.contains("/` |"));
    let room = |row: &str| row.trim_start_matches("| `").split('/').next().unwrap().to_owned();
    let may_use = |row: &str| row.trim_end_matches(" |").rsplit("| ").next().unwrap().to_owned();
    let names: BTreeSet<String> = rows.clone().map(room).collect();
    let listed = |row: &str| {
        may_use(row)
            .split(", ")
            .map(|w| w.split(' ').next().unwrap().to_owned())
            .filter(|w| names.contains(w))
            .collect()
    };
    rows.filter(|row| room(row) != "tests").map(|row| (room(row), listed(row))).collect()
}

#[test]
fn every_room_uses_what_the_page_says_and_nothing_else() {
    let rooms = rooms();
    let there: BTreeSet<_> = files("src", "/mod.rs")
        .iter()
        .filter(|f| f.matches('/').count() == 2)
        .map(|f| f.split('/').nth(1).unwrap().to_owned())
        .collect();
    assert_eq!(rooms.keys().cloned().collect::<BTreeSet<_>>(), there);
    for (room, may_use) in &rooms {
        let sources = files(&format!("src/{room}"), ".rs")
            .into_iter()
            .filter(|f| !f.contains("/tests") && !f.ends_with("fake.rs"));
        let used: BTreeSet<String> = sources.flat_map(|f| uses(&read(&f))).collect();
        let others = used
            .iter()
            .map(|path| path.split("::").next().unwrap().to_owned())
            .filter(|r| there.contains(r) && r != room);
        assert_eq!(&others.collect::<BTreeSet<_>>(), may_use, "src/{room}");
        if room == "sim" {
            let words = used.iter().filter_map(|path| path.strip_prefix("domain::"));
            let beyond: Vec<_> = words.filter(|p| p.split("::").next() != Some("Moment")).collect();
            assert!(
                beyond.is_empty(),
                "src/sim uses {beyond:?} of domain: a judge must not share the defendant's code"
            );
        }
    }
}

/// `now` and randomness are arguments of the pure rooms, and nothing in them waits.
#[test]
fn the_pure_rooms_have_no_clock_no_client_no_await_and_no_unordered_map() {
    let barred = [
        "tokio::",
        "async ",
        ".await",
        "kube::",
        "aws_sdk",
        "reqwest",
        "hyper",
        "Timestamp::now",
        "Instant::now",
        "SystemTime",
        "HashMap",
        "HashSet",
        " rand::",
    ];
    let mut looked_at = 0;
    for room in
        ["domain", "interruption", "triage", "record", "lifecycle", "drain", "fleet", "election"]
    {
        for file in
            files(&format!("src/{room}"), ".rs").into_iter().filter(|f| !f.contains("/tests"))
        {
            looked_at += 1;
            let source = read(&file);
            let code = source.split("#[cfg(test)]\nmod tests {").next().unwrap();
            for line in code.lines().map(str::trim).filter(|line| !line.starts_with("//")) {
                let found: Vec<_> = barred.iter().filter(|word| line.contains(**word)).collect();
                assert!(found.is_empty(), "{file}: {found:?} in `{line}`");
            }
        }
    }
    assert!(looked_at > 30, "{looked_at} files");
}

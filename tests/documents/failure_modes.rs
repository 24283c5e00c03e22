//! The tests that the failure modes name: that each exists, and that its code brings the fault
//! about.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    book::{rows, spans},
    files, on_one_line, read,
};

/// A piece of code that is in more tests than this says nothing about a fault.
const MOST_TESTS: usize = 45;

/// The functions of a file by their names, each as its text without its own name and without
/// comments. Functions of the same name (methods of different types) are one text.
struct Functions {
    by_name: BTreeMap<String, String>,
    tests: BTreeSet<String>,
}

impl Functions {
    /// Reads a file that rustfmt has formatted: a function ends at the first closing brace that
    /// stands as far in as its first line.
    fn of(text: &str) -> Self {
        let mut all = Self { by_name: BTreeMap::new(), tests: BTreeSet::new() };
        let lines: Vec<&str> =
            text.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
        for (at, line) in lines.iter().enumerate() {
            let Some(name) = name_of(line) else { continue };
            let margin = &line[..line.len() - line.trim_start().len()];
            let is_one_line = line.ends_with('}');
            let length = if is_one_line {
                1
            } else {
                lines[at..]
                    .iter()
                    .position(|line| line.strip_prefix(margin) == Some("}"))
                    .map_or(1, |last| last + 1)
            };
            let body = lines[at..at + length].join("\n").replacen(&format!("fn {name}"), "fn", 1);
            let text = all.by_name.entry(name.to_owned()).or_default();
            text.push_str(&on_one_line(&body));
            text.push('\n');
            let attributes =
                lines[..at].iter().rev().take_while(|line| line.trim_start().starts_with("#["));
            if attributes.into_iter().any(|line| line.contains("test")) {
                all.tests.insert(name.to_owned());
            }
        }
        all
    }

    /// The text of a function and of all functions of its file that it uses, directly or not.
    fn reach(&self, name: &str) -> String {
        let (mut seen, mut left, mut text) = (BTreeSet::from([name]), vec![name], String::new());
        while let Some(body) = left.pop().and_then(|name| self.by_name.get(name)) {
            text += body;
            for word in body.split(|c: char| !c.is_ascii_alphanumeric() && c != '_') {
                if self.by_name.contains_key(word) && seen.insert(word) {
                    left.push(word);
                }
            }
        }
        text
    }
}

/// The name of the function whose first line this is.
fn name_of(line: &str) -> Option<&str> {
    let (before, rest) = line.split_once("fn ")?;
    let is_start = before
        .split_whitespace()
        .all(|word| word.starts_with("pub") || ["async", "const", "super)"].contains(&word));
    let name = rest.split(['(', '<']).next()?;
    (is_start && !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'))
        .then_some(name)
}

/// What is wrong with a test that a row names, if anything is.
fn fault(
    files: &BTreeMap<String, Functions>,
    named: &str,
    code: Option<&String>,
) -> Option<String> {
    let Some((file, test)) = named.split_once("::") else {
        return Some(format!("{named} has no file"));
    };
    let Some(functions) = files.get(file) else { return Some(format!("there is no {file}")) };
    if !functions.tests.contains(test) {
        return Some(format!("{file} has no test {test}"));
    }
    let code = code?;
    (!functions.reach(test).contains(code.as_str()))
        .then(|| format!("{named} does not run `{code}`"))
}

fn all_files() -> BTreeMap<String, Functions> {
    let paths = files("tests", ".rs").into_iter().chain(files("src", ".rs"));
    paths.map(|path| (path.clone(), Functions::of(&read(&path)))).collect()
}

/// A row of the page: its name, the tests, and the code of each.
struct Row {
    name: String,
    is_shown: bool,
    tests: Vec<String>,
    code: Vec<String>,
}

fn shown(page: &str) -> Vec<Row> {
    let read = |cells: &Vec<String>| {
        let [name, tests, code] = &cells[..] else { panic!("{cells:?}") };
        let is_test = |word: &String| !word.contains(' ');
        Row {
            name: name.clone(),
            is_shown: !tests.starts_with("none"),
            tests: spans(tests).into_iter().filter(is_test).collect(),
            code: spans(code).iter().map(|code| on_one_line(code)).collect(),
        }
    };
    rows(page).iter().map(read).collect()
}

#[test]
fn every_failure_mode_names_tests_that_bring_it_about_or_says_that_there_is_none() {
    let page = read("docs/failure-modes.md");
    let (modes, shown_by) = page.split_once("\n## Shown by tests\n").unwrap();
    let (modes, shown) = (rows(modes), shown(shown_by));
    let (of_modes, of_shown): (Vec<_>, Vec<_>) =
        (modes.iter().map(|row| &row[0]).collect(), shown.iter().map(|row| &row.name).collect());
    assert_eq!(of_modes, of_shown, "in the same order, each once");
    assert!(
        modes.iter().all(|row| row.len() == 4 && row.iter().all(|cell| !cell.is_empty())),
        "every cell is filled"
    );
    assert!(shown.iter().filter(|row| row.is_shown).count() > 45, "most are shown");

    let files = all_files();
    let mut faults = Vec::new();
    for row in &shown {
        let fits = if row.is_shown {
            [1, row.tests.len()].contains(&row.code.len()) && !row.tests.is_empty()
        } else {
            row.code.is_empty()
        };
        if !fits {
            faults.push(format!(
                "{}: {} tests, and the code of {}",
                row.name,
                row.tests.len(),
                row.code.len()
            ));
        }
        for (n, test) in row.tests.iter().enumerate() {
            let code = row.code.get(n).or_else(|| row.code.first());
            faults.extend(fault(&files, test, code).map(|fault| format!("{}: {fault}", row.name)));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));

    // Code that many tests run brings no fault about.
    let reaches: Vec<String> =
        files.values().flat_map(|f| f.tests.iter().map(|test| f.reach(test))).collect();
    assert!(reaches.len() > 1000, "{} tests", reaches.len());
    for code in shown.iter().flat_map(|row| &row.code) {
        let count = reaches.iter().filter(|reach| reach.contains(code.as_str())).count();
        assert!(count <= MOST_TESTS, "`{code}` is in {count} tests");
    }
}

#[test]
fn a_test_that_no_longer_brings_its_fault_about_is_found() {
    let text = r"
fn helper(how: How) {
    kube.go_away(how);
}

fn unused() {
    kube.cut_watches();
}

struct Stage;

impl Stage {
    pub(super) async fn sad(&self) {
        self.silence_watches();
    }
}

#[test]
fn direct() {
    kube.go_away(How::Silent);
}

#[tokio::test(start_paused = true)]
async fn by_a_helper() {
    helper(How::Silent);
}

#[test]
fn by_a_method() {
    stage.sad();
}

#[test]
fn kube_go_away() {
    // kube.go_away(How::Silent);
    kube.come_back();
}

fn no_test() {
    kube.go_away(How::Silent);
}
";
    let files = BTreeMap::from([("tests/a.rs".to_owned(), Functions::of(text))]);
    let said = |named: &str, code: &str| fault(&files, named, Some(&code.to_owned()));
    for test in ["tests/a.rs::direct", "tests/a.rs::by_a_helper"] {
        assert_eq!(said(test, "kube.go_away("), None);
        assert_eq!(
            said(test, "kube.cut_watches("),
            Some(format!("{test} does not run `kube.cut_watches(`"))
        );
    }
    assert_eq!(said("tests/a.rs::by_a_method", "silence_watches("), None);
    for (named, words) in [
        ("tests/a.rs::kube_go_away", "does not run"),
        ("tests/a.rs::no_test", "has no test no_test"),
        ("tests/a.rs::gone", "has no test gone"),
        ("tests/b.rs::direct", "there is no tests/b.rs"),
        ("direct", "has no file"),
    ] {
        let said = said(named, "go_away(");
        assert!(said.as_ref().is_some_and(|said| said.contains(words)), "{named}: {said:?}");
    }
}

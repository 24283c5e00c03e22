//! The files of `docs/figures`: one for each figure, with the line that was measured last. The
//! tables of the pages are generated from them (`tests/documents/figures.rs`).

use std::{fs, path::PathBuf, process::Command};

use serde_json::json;
use sundown::domain::Moment;

use crate::report::{Figure, Verdict};

/// Writes the figures, each with the commit and the day of its measurement. What a noisy machine
/// measured means nothing and is not written.
pub fn write(figures: &[Figure]) {
    let folder = root().join("docs/figures");
    let (commit, date) =
        (commit(), Moment::from(jiff::Timestamp::now()).strftime("%Y-%m-%d").to_string());
    let cores = std::thread::available_parallelism().unwrap().get();
    for figure in figures.iter().filter(|figure| figure.verdict() != Verdict::Noisy) {
        let mut line = figure.json();
        line["commit"] = json!(commit);
        line["date"] = json!(date);
        line["cores"] = json!(cores);
        fs::write(folder.join(format!("{}.json", figure.name)), format!("{line}\n")).unwrap();
    }
}

fn root() -> PathBuf {
    env!("CARGO_MANIFEST_DIR").into()
}

/// What was measured; with a `+` where the service's sources differ from that commit.
fn commit() -> String {
    let commit = git(&["rev-parse", "--short=12", "HEAD"]);
    let changes = git(&["status", "--porcelain", "--", "src", "Cargo.toml", "Cargo.lock"]);
    if changes.is_empty() { commit } else { commit + "+" }
}

fn git(arguments: &[&str]) -> String {
    let output = Command::new("git")
        .args(arguments)
        .current_dir(root())
        .output()
        .expect("git says which commit is measured");
    assert!(
        output.status.success(),
        "git {arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

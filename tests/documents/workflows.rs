//! The workflows of GitHub: what runs on a change, at night and for a release. (The release:
//! image.rs.)

use std::{collections::BTreeSet, fs, os::unix::fs::PermissionsExt, path::Path, process::Command};

use serde_json::{Value, json};

use crate::{files, read, root};

const FOLDER: &str = ".github/workflows/";
const SHA: &str = "6d2c0b1f1e4a4e0f9b8a7c6d5e4f3a2b1c0d9e8f";

fn workflow(name: &str) -> Value {
    serde_saphyr::from_str(&read(&format!("{FOLDER}{name}"))).unwrap()
}

/// The names of all workflows.
fn names() -> BTreeSet<String> {
    files(FOLDER, ".yml").iter().map(|file| file.strip_prefix(FOLDER).unwrap().to_owned()).collect()
}

fn jobs(workflow: &Value) -> impl Iterator<Item = (&String, &Value)> {
    workflow["jobs"].as_object().unwrap().iter()
}

fn steps(job: &Value) -> &Vec<Value> {
    job["steps"].as_array().unwrap()
}

/// The commands of a job.
fn commands(job: &Value) -> Vec<&str> {
    steps(job).iter().filter_map(|step| step["run"].as_str()).collect()
}

#[test]
fn a_change_runs_ci_the_night_runs_what_takes_longer_and_a_release_requires_both() {
    assert_eq!(names(), ["change.yml", "nightly.yml", "release.yml"].map(str::to_owned).into());
    let (change, nightly, release) =
        (workflow("change.yml"), workflow("nightly.yml"), workflow("release.yml"));
    assert_eq!(
        change["on"],
        json!({ "push": { "branches": ["main"] }, "pull_request": null, "workflow_dispatch": null })
    );
    assert_eq!(commands(&change["jobs"]["ci"]), [".ci/run"]);

    assert!(
        nightly["on"]["schedule"][0]["cron"].is_string()
            && nightly["on"].as_object().unwrap().contains_key("workflow_dispatch")
    );
    let at_night: Vec<_> = jobs(&nightly).flat_map(|(_, job)| commands(job)).collect();
    for command in ["tests/run --oldest", "tests/fuzz/run found 2400", "cargo deny --locked check"]
    {
        assert!(at_night.contains(&command), "{command}: {at_night:?}");
    }
    // Nothing that fails is passed over.
    for (name, job) in [&change, &nightly, &release].into_iter().flat_map(jobs) {
        let lenient = job.get("continue-on-error").is_some()
            || steps(job).iter().any(|step| step.get("continue-on-error").is_some());
        assert!(!lenient && job.get("if").is_none(), "{name}");
    }

    let others: Vec<_> = names().into_iter().filter(|name| name != "release.yml").collect();
    assert_eq!(
        commands(&release["jobs"]["tested"]),
        [format!(".github/require-runs {}", others.join(" "))]
    );
    assert!(release["jobs"]["image"]["needs"].as_array().unwrap().contains(&"tested".into()));
}

#[test]
fn workflows_have_no_more_rights_than_they_need_and_run_actions_of_a_fixed_commit() {
    let mut used = 0;
    let tools: Value = serde_saphyr::from_str(&read(".github/actions/tools/action.yml")).unwrap();
    let mut all: Vec<(String, Vec<Value>)> =
        vec![("tools".to_owned(), tools["runs"]["steps"].as_array().unwrap().clone())];
    for name in names() {
        let workflow = workflow(&name);
        assert_eq!(workflow["permissions"], json!({}), "{name}: each job is given what it needs");
        for (job, text) in jobs(&workflow) {
            let rights = text["permissions"]
                .as_object()
                .unwrap_or_else(|| panic!("{name}: {job} has all rights there are"));
            let writes = rights.values().any(|right| right != "read");
            assert!(!writes || name == "release.yml", "{name}: {job} may write");
            assert!(text["timeout-minutes"].is_u64(), "{name}: {job} may run for six hours");
            all.push((format!("{name}: {job}"), steps(text).clone()));
        }
    }
    for (place, steps) in all {
        for step in steps {
            if let Some(script) = step["run"].as_str() {
                // What comes from outside reaches a shell as a variable, never as a part of the
                // script.
                assert!(!script.contains("${{"), "{place}: {script}");
                let program = script.split_whitespace().next().unwrap();
                assert!(
                    !program.contains('/') || root().join(program).exists(),
                    "{place}: there is no {program}"
                );
            }
            let Some(action) = step["uses"].as_str() else { continue };
            used += 1;
            if let Some(local) = action.strip_prefix("./") {
                assert!(root().join(local).join("action.yml").exists(), "{place}: {action}");
                continue;
            }
            let version = action
                .split_once('@')
                .unwrap_or_else(|| panic!("{place}: {action} has no version"))
                .1;
            let is_hash = version.len() == 40 && version.bytes().all(|b| b.is_ascii_hexdigit());
            assert!(is_hash, "{place}: {action}: whoever owns that tag changes what it does");
            let keeps_token = action.starts_with("actions/checkout@")
                && step["with"]["persist-credentials"] != false;
            assert!(!keeps_token, "{place}: the token would lie in the checkout");
        }
    }
    assert!(used > 15, "{used} actions");
}

/// What `gh` prints of the runs of a workflow: `.github/require-runs` asks for the fields.
fn run(commit: &str, event: &str, branch: &str, state: &str, conclusion: &str) -> String {
    format!(
        "{commit}\t{event}\t{branch}\t{state}\t{conclusion}\thttps://github.com/o/r/actions/runs/1\n"
    )
}

/// Calls `.github/require-runs` for one workflow of which `gh` prints these runs. What it said, and
/// whether it succeeded.
fn required(name: &str, runs: &str) -> (bool, String) {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("require-runs-{}-{name}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let gh = folder.join("gh");
    // It answers only the one question.
    let asked = format!("repos/o/r/actions/workflows/change.yml/runs?head_sha={SHA}&per_page=100");
    fs::write(
        &gh,
        format!("#!/bin/sh\n[ \"$1 $2\" = 'api {asked}' ] || exit 9\nprintf '%s' \"$RUNS\"\n"),
    )
    .unwrap();
    fs::set_permissions(&gh, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    let mut command = Command::new("bash");
    command
        .arg(root().join(".github/require-runs"))
        .arg("change.yml")
        .env("PATH", path)
        .env("RUNS", runs);
    command.env("GITHUB_REPOSITORY", "o/r").env("GITHUB_SHA", SHA).env("GITHUB_REF_NAME", "v1.2.3");
    let output = command.output().unwrap();
    drop(fs::remove_dir_all(&folder));
    (
        output.status.success(),
        [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat(),
    )
}

#[test]
fn a_release_is_refused_unless_the_newest_run_of_its_commit_has_succeeded() {
    let passed = |event, branch| run(SHA, event, branch, "completed", "success");
    let failed = run(SHA, "push", "main", "completed", "failure");
    let missing = Some("has not run for");
    for (name, runs, refused) in [
        ("pushed", passed("push", "main"), None),
        ("scheduled", passed("schedule", "main"), None),
        ("dispatched", passed("workflow_dispatch", "main"), None),
        ("dispatched-on-tag", passed("workflow_dispatch", "v1.2.3"), None),
        ("nothing", String::new(), missing),
        // What a pull request or another branch runs is what its files say.
        ("pull-request", passed("pull_request", "main"), missing),
        ("other-branch", passed("push", "feature"), missing),
        ("other-tag", passed("workflow_dispatch", "v1.2.2"), missing),
        ("no-branch", passed("push", "none"), missing),
        ("other-commit", run("0000000", "push", "main", "completed", "success"), missing),
        ("failed", failed.clone(), Some("(completed/failure)")),
        (
            "cancelled",
            run(SHA, "push", "main", "completed", "cancelled"),
            Some("(completed/cancelled)"),
        ),
        ("skipped", run(SHA, "push", "main", "completed", "skipped"), Some("(completed/skipped)")),
        ("running", run(SHA, "push", "main", "in_progress", "none"), Some("(in_progress/none)")),
        // The newest counts, and comes first.
        ("mended", passed("workflow_dispatch", "main") + &failed, None),
        ("broken-since", failed.clone() + &passed("push", "main"), Some("(completed/failure)")),
        (
            "beside-pull-request",
            run(SHA, "pull_request", "x", "completed", "failure") + &passed("push", "main"),
            None,
        ),
    ] {
        let (succeeded, said) = required(name, &runs);
        assert_eq!(succeeded, refused.is_none(), "{name}: {said}");
        assert!(refused.is_none_or(|words| said.contains(words)), "{name}: {said}");
    }
}

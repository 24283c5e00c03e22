//! `sundown from-nth`, `run --dry-run --trial`, `sundown trial-report`; and what shells and manuals
//! need.

use std::{
    fs::{self, File},
    path::Path,
};

use sundown::sim::aws::{EventKind, QueueSettings, Redrive, Rule, SpotAction};

use crate::{
    process::{CommandOutput, Folder, run, sundown},
    stage::Stage,
};

fn fixture(name: &str) -> String {
    format!("{}/tests/from-nth/{name}", env!("CARGO_MANIFEST_DIR"))
}

async fn asked(words: &[&str]) -> CommandOutput {
    let folder = Folder::new();
    run(folder.path(), sundown(folder.path()).args(words)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn from_nth_reads_a_file_or_what_is_piped_into_it() {
    let output = asked(&["from-nth", &fixture("large.yaml")]).await;
    assert_eq!(output.code, Some(0), "{}", output.err);
    assert!(output.out.starts_with("Queue mode"), "{}", output.out);
    for words in [
        "  drainTimeout: \"7200s\"",
        "# IAM",
        "add   autoscaling:RecordLifecycleActionHeartbeat",
        "# Has no counterpart",
        "- podTerminationGracePeriod: 30",
    ] {
        assert!(output.out.contains(words), "{words} is not in\n{}", output.out);
    }
    let folder = Folder::new();
    let mut piped = sundown(folder.path());
    piped
        .args(["from-nth", "-", "-o", "flags"])
        .stdin(File::open(fixture("deployment.yaml")).unwrap());
    let output = run(folder.path(), &mut piped).await;
    assert_eq!(output.code, Some(0), "{}", output.err);
    assert!(
        output.out.lines().any(|l| l == "--compat=nth")
            && output.out.lines().any(|l| l == "--drain-timeout=3600s"),
        "{}",
        output.out
    );
    let output = asked(&["from-nth", "-o", "json", &fixture("chat.yaml")]).await;
    let json: serde_json::Value = serde_json::from_str(&output.out).unwrap();
    assert_eq!(
        (&json["imdsMode"], &json["values"]["config"]["compat"]),
        (&false.into(), &"nth".into())
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn imds_mode_is_reported_in_the_first_line_and_beside_the_values() {
    let output = asked(&["from-nth", &fixture("daemonset.yaml")]).await;
    assert!(output.out.lines().next().unwrap().starts_with("IMDS mode"), "{}", output.out);
    let output = asked(&["from-nth", &fixture("daemonset.yaml"), "-o", "values"]).await;
    assert!(
        output.out.starts_with("config:") && output.err.contains("IMDS mode"),
        "{}{}",
        output.out,
        output.err
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_from_nth_cannot_read_ends_with_code_2() {
    for (file, words) in [
        ("/nowhere/values.yaml".to_owned(), "/nowhere/values.yaml"),
        (fixture("flags.txt"), "helm get values"),
        ("/dev/null".to_owned(), "is empty"),
    ] {
        let output = asked(&["from-nth", &file]).await;
        assert_eq!(output.code, Some(2), "{} {}", output.out, output.err);
        assert!(output.err.contains(words), "{}", output.err);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trial_is_recorded_and_reported() {
    let stage = Stage::new(70).await;
    let instances = stage.spot_group(2);
    stage.world.aws.route(Rule::of("shop-trial", [EventKind::SpotWarning]));
    let url = stage.world.aws.create_queue("shop-trial", QueueSettings::default());
    let log = stage.folder.path().join("trial.log");
    let flags = ["--dry-run", "--trial", "--trial-log", log.to_str().unwrap(), "--queue-url", &url];
    let mut sundown = stage.start("trial", &flags);
    sundown.ready().await;
    stage.world.aws.spot_interruption(&instances[0], SpotAction::Terminate);
    let left = |queue: &str| stage.world.aws.queue(queue).map(|q| q.visible + q.in_flight).unwrap();
    stage
        .until("it is recorded", || fs::read_to_string(&log).is_ok_and(|text| text.ends_with('\n')))
        .await;
    stage.until("it is deleted", || left("shop-trial") == 0).await;
    assert_eq!(stage.in_queue(), 1, "the queue of others has its own");
    sundown.signal("TERM");
    assert_eq!(sundown.ended().await.code(), Some(0));
    assert!(!stage.is_cordoned(&instances[0]));
    let output = asked(&["trial-report", log.to_str().unwrap()]).await;
    assert_eq!(output.code, Some(0), "{}", output.err);
    let line = output
        .out
        .lines()
        .find(|l| l.contains(&instances[0]))
        .unwrap_or_else(|| panic!("{}", output.out))
        .to_owned();
    assert!(
        line.contains(&format!("would cordon and drain {}", stage.node_of(&instances[0]))),
        "{line}"
    );
    let output = asked(&["trial-report", "-o", "json", log.to_str().unwrap()]).await;
    let json: serde_json::Value = serde_json::from_str(&output.out).unwrap();
    assert_eq!((&json["events"], &json["kinds"]["spot"]["wouldDrain"]), (&1.into(), &1.into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trial_refuses_a_queue_that_another_service_reads() {
    let stage = Stage::new(71).await;
    stage.world.aws.create_queue("dead", QueueSettings::default());
    let redrive = Some(Redrive { queue: "dead".to_owned(), max_receives: 10 });
    let live = stage
        .world
        .aws
        .create_queue("sundown-trial", QueueSettings { redrive, ..QueueSettings::default() });
    let own = stage.world.aws.create_queue("shop-trial", QueueSettings::default());
    let main = stage.world.queue_url();
    let folder = stage.folder.path().to_str().unwrap();
    for (flags, code, words) in [
        (
            &["--dry-run", "--trial", "--queue-url", main.as_str()][..],
            2,
            "not the queue of a trial",
        ),
        (&["--dry-run", "--trial", "--queue-url", live.as_str()], 2, "has a dead-letter queue"),
        (&["--trial", "--queue-url", own.as_str()], 2, "add --dry-run"),
        (
            &["--dry-run", "--trial", "--shared-queue", "--queue-url", own.as_str()],
            2,
            "others receive from a shared queue",
        ),
        (
            &["--dry-run", "--trial", "--queue-url", own.as_str(), "--queue-url", main.as_str()],
            2,
            main.as_str(),
        ),
        (
            &["--dry-run", "--trial", "--trial-log", folder, "--queue-url", own.as_str()],
            1,
            "cannot write the trial's log",
        ),
    ] {
        let output = run(stage.folder.path(), &mut stage.command(flags)).await;
        assert_eq!(output.code, Some(code), "{flags:?}: {}", output.err);
        assert!(output.err.contains(words), "{flags:?}: {}", output.err);
    }
    let calls = stage.world.aws.counts();
    assert!(
        calls.keys().all(|api| api == "sqs:GetQueueAttributes"),
        "nothing was received: {calls:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_report_of_what_is_not_there_ends_with_code_2() {
    let output = asked(&["trial-report", "/nowhere/trial.log"]).await;
    assert_eq!(output.code, Some(2));
    assert!(
        output.err.contains("/nowhere/trial.log") && output.err.contains("--trial-log"),
        "{}",
        output.err
    );
    let other = fixture("large.yaml");
    let output = asked(&["trial-report", &other]).await;
    assert!(
        output.code == Some(2)
            && output.err.contains(&other)
            && output.err.contains("not the log of a trial"),
        "{} {}",
        output.out,
        output.err
    );
    let output = asked(&["trial-report", "/dev/null"]).await;
    assert!(
        output.code == Some(2) && output.err.contains("/dev/null is empty"),
        "{} {}",
        output.out,
        output.err
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn completions_are_scripts_that_the_shells_take() {
    let folder = Folder::new();
    for (shell, word) in [
        ("bash", "complete -F"),
        ("zsh", "#compdef sundown"),
        ("fish", "complete -c sundown"),
        ("elvish", "edit:completion"),
        ("powershell", "Register-ArgumentCompleter"),
    ] {
        let output = asked(&["completions", shell]).await;
        assert_eq!(output.code, Some(0), "{}", output.err);
        for word in [word, "queue-url", "trial-report"] {
            assert!(output.out.contains(word), "{shell}: {word}");
        }
        let script = folder.path().join(shell);
        fs::write(&script, &output.out).unwrap();
        if shell == "bash" {
            let checked = run(
                folder.path(),
                std::process::Command::new("bash").arg("-c").arg(ASK).arg("ask").arg(&script),
            )
            .await;
            assert_eq!(
                (checked.code, checked.out.trim()),
                (Some(0), "--trial --trial-log"),
                "{}",
                checked.err
            );
        }
    }
    assert_eq!(asked(&["completions", "cmd"]).await.code, Some(2));
}

/// Has bash complete `sundown run --tri`.
const ASK: &str = r#"source "$1"; COMP_WORDS=(sundown run --tri); COMP_CWORD=2; _sundown sundown --tri run; echo "${COMPREPLY[*]}""#;

#[tokio::test(flavor = "multi_thread")]
async fn manual_pages_are_printed_or_written_for_every_command() {
    let output = asked(&["man"]).await;
    assert!(
        output.out.contains(".TH sundown 1") && output.out.contains("from\\-nth"),
        "{}",
        output.out
    );
    let output = asked(&["man", "run"]).await;
    assert!(
        output.out.contains(".TH sundown-run 1") && output.out.contains("HeartbeatTimeout"),
        "{}",
        output.out
    );
    assert_eq!(asked(&["man", "walk"]).await.code, Some(2));
    let folder = Folder::new();
    let pages =
        run(folder.path(), sundown(folder.path()).args(["man", "--dir"]).arg(folder.path())).await;
    assert_eq!(pages.code, Some(0), "{}", pages.err);
    let there = |name: &str| Path::new(folder.path()).join(name).exists();
    assert!(there("sundown.1") && there("sundown-run.1") && there("sundown-trial-report.1"));
    assert_eq!(asked(&["man", "--dir", "/nowhere"]).await.code, Some(1));
}

//! `sundown from-nth`, `run --dry-run --trial`, `sundown trial-report`; and what shells and manuals
//! need.

use std::{
    fs::{self, File},
    path::Path,
};

use sundown::sim::aws::{EventKind, QueueSettings, Redrive, Rule, SpotAction};

use crate::{
    process::{Folder, Said, run, sundown},
    stage::Stage,
};

fn fixture(name: &str) -> String {
    format!("{}/tests/from-nth/{name}", env!("CARGO_MANIFEST_DIR"))
}

async fn asked(words: &[&str]) -> Said {
    let folder = Folder::new();
    run(folder.path(), sundown(folder.path()).args(words)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn from_nth_reads_a_file_or_what_is_piped_into_it() {
    let said = asked(&["from-nth", &fixture("large.yaml")]).await;
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(said.out.starts_with("Queue mode"), "{}", said.out);
    for words in [
        "  drainTimeout: \"7200s\"",
        "# IAM",
        "add   autoscaling:RecordLifecycleActionHeartbeat",
        "# Has no counterpart",
        "- podTerminationGracePeriod: 30",
    ] {
        assert!(said.out.contains(words), "{words} is not in\n{}", said.out);
    }
    let folder = Folder::new();
    let mut piped = sundown(folder.path());
    piped
        .args(["from-nth", "-", "-o", "flags"])
        .stdin(File::open(fixture("deployment.yaml")).unwrap());
    let said = run(folder.path(), &mut piped).await;
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(
        said.out.lines().any(|l| l == "--compat=nth")
            && said.out.lines().any(|l| l == "--drain-timeout=3600s"),
        "{}",
        said.out
    );
    let said = asked(&["from-nth", "-o", "json", &fixture("chat.yaml")]).await;
    let json: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(
        (&json["imdsMode"], &json["values"]["config"]["compat"]),
        (&false.into(), &"nth".into())
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn imds_mode_is_reported_in_the_first_line_and_beside_the_values() {
    let said = asked(&["from-nth", &fixture("daemonset.yaml")]).await;
    assert!(said.out.lines().next().unwrap().starts_with("IMDS mode"), "{}", said.out);
    let said = asked(&["from-nth", &fixture("daemonset.yaml"), "-o", "values"]).await;
    assert!(
        said.out.starts_with("config:") && said.err.contains("IMDS mode"),
        "{}{}",
        said.out,
        said.err
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_from_nth_cannot_read_ends_with_code_2() {
    for (file, words) in [
        ("/nowhere/values.yaml".to_owned(), "/nowhere/values.yaml"),
        (fixture("flags.txt"), "helm get values"),
        ("/dev/null".to_owned(), "is empty"),
    ] {
        let said = asked(&["from-nth", &file]).await;
        assert_eq!(said.code, Some(2), "{} {}", said.out, said.err);
        assert!(said.err.contains(words), "{}", said.err);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trial_is_recorded_and_told() {
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
    let said = asked(&["trial-report", log.to_str().unwrap()]).await;
    assert_eq!(said.code, Some(0), "{}", said.err);
    let line = said
        .out
        .lines()
        .find(|l| l.contains(&instances[0]))
        .unwrap_or_else(|| panic!("{}", said.out))
        .to_owned();
    assert!(
        line.contains(&format!("would cordon and drain {}", stage.node_of(&instances[0]))),
        "{line}"
    );
    let said = asked(&["trial-report", "-o", "json", log.to_str().unwrap()]).await;
    let json: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!((&json["events"], &json["kinds"]["spot"]["wouldDrain"]), (&1.into(), &1.into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trial_refuses_a_queue_that_somebody_lives_on() {
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
        let said = run(stage.folder.path(), &mut stage.command(flags)).await;
        assert_eq!(said.code, Some(code), "{flags:?}: {}", said.err);
        assert!(said.err.contains(words), "{flags:?}: {}", said.err);
    }
    let calls = stage.world.aws.counts();
    assert!(
        calls.keys().all(|api| api == "sqs:GetQueueAttributes"),
        "nothing was received: {calls:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_report_of_what_is_not_there_ends_with_code_2() {
    let said = asked(&["trial-report", "/nowhere/trial.log"]).await;
    assert_eq!(said.code, Some(2));
    assert!(
        said.err.contains("/nowhere/trial.log") && said.err.contains("--trial-log"),
        "{}",
        said.err
    );
    let other = fixture("large.yaml");
    let said = asked(&["trial-report", &other]).await;
    assert!(
        said.code == Some(2)
            && said.err.contains(&other)
            && said.err.contains("not the log of a trial"),
        "{} {}",
        said.out,
        said.err
    );
    let said = asked(&["trial-report", "/dev/null"]).await;
    assert!(
        said.code == Some(2) && said.err.contains("/dev/null is empty"),
        "{} {}",
        said.out,
        said.err
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
        let said = asked(&["completions", shell]).await;
        assert_eq!(said.code, Some(0), "{}", said.err);
        for word in [word, "queue-url", "trial-report"] {
            assert!(said.out.contains(word), "{shell}: {word}");
        }
        let script = folder.path().join(shell);
        fs::write(&script, &said.out).unwrap();
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
    let said = asked(&["man"]).await;
    assert!(said.out.contains(".TH sundown 1") && said.out.contains("from\\-nth"), "{}", said.out);
    let said = asked(&["man", "run"]).await;
    assert!(
        said.out.contains(".TH sundown-run 1") && said.out.contains("HeartbeatTimeout"),
        "{}",
        said.out
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

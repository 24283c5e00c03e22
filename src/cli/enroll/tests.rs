//! Tests against the embedded AWS, in paused time.

use std::{future::Future, sync::Arc};

use clap::{Args as _, Command, FromArgMatches as _};

use super::*;
use crate::{
    aws::Clients,
    domain::Moment,
    runtime::{Clock, Spawner},
    sim::aws::{EmbeddedAws, GroupSpec, HookSpec, Settings, Verdict},
};

struct World {
    aws: EmbeddedAws,
    clients: Clients,
    _spawner: Spawner,
}

impl World {
    fn new() -> Self {
        let (spawner, clock) = (Spawner::new(), Clock::starting_at(Moment::UNIX_EPOCH));
        let aws = EmbeddedAws::start(clock, Settings::default(), &spawner);
        let clients = Clients::from_config(&aws.sdk_config(), clock, Arc::new(()));
        let world = Self { aws, clients, _spawner: spawner };
        world.group("a", "shop");
        world.group("b", "shop");
        world.group("other", "bank");
        world
    }

    fn group(&self, name: &str, team: &str) -> Vec<String> {
        self.aws.create_group(
            GroupSpec { replace_after: None, ..GroupSpec::new(name, 2) }.tag("team", team),
        )
    }

    /// The command's output and its exit code.
    async fn enroll(&self, flags: &[&str]) -> (String, ExitCode) {
        let (text, code) = self.try_enroll(flags).await;
        (text, code.unwrap())
    }

    fn try_enroll(
        &self,
        flags: &[&str],
    ) -> impl Future<Output = (String, anyhow::Result<ExitCode>)> {
        let command = EnrollArgs::augment_args(Command::new("enroll").no_binary_name(true));
        let args = EnrollArgs::from_arg_matches(&command.get_matches_from(flags)).unwrap();
        async move {
            let mut out = Vec::new();
            let code = Enrolling {
                args: &args,
                scaling: self.clients.autoscaling(),
                out: &mut out,
                rows: Vec::new(),
                notes: Vec::new(),
            }
            .run()
            .await;
            (String::from_utf8(out).unwrap(), code)
        }
    }

    async fn hooks(&self, group: &str) -> Vec<String> {
        let hooks = self.clients.autoscaling().hooks(&group.into()).await.unwrap();
        hooks
            .into_iter()
            .map(|h| {
                format!(
                    "{} {} {}",
                    h.hook,
                    duration_text(h.heartbeat_timeout),
                    h.default_result.as_str()
                )
            })
            .collect()
    }
}

fn is(code: ExitCode, expected: u8) -> bool {
    code == ExitCode::from(expected)
}

const SHOP: &str = "--asg-tag=team=shop";

#[tokio::test(start_paused = true)]
async fn without_yes_nothing_changes_and_with_it_changes_are_made_once() {
    let world = World::new();
    let (output, code) = world.enroll(&[SHOP]).await;
    assert!(
        is(code, 0)
            && output.contains("a: add sundown-terminate")
            && output.contains("b: add")
            && output.ends_with("--yes does it.\n"),
        "{output}"
    );
    assert_eq!(world.aws.count("autoscaling:PutLifecycleHook"), 0);
    let (output, code) = world.enroll(&[SHOP, "--check"]).await;
    assert!(is(code, 3), "{output}");
    let (output, code) = world.enroll(&[SHOP, "--yes"]).await;
    assert!(is(code, 0) && output.ends_with("2 hooks made or changed.\n"), "{output}");
    assert_eq!(world.hooks("a").await, ["sundown-terminate 5m CONTINUE"]);
    assert!(world.hooks("other").await.is_empty(), "a group that was not asked for");
    for flags in [&[SHOP, "--yes"][..], &[SHOP, "--check"]] {
        let (output, code) = world.enroll(flags).await;
        assert!(is(code, 0) && output.ends_with("There is nothing to do.\n"), "{output}");
    }
    assert_eq!(world.aws.count("autoscaling:PutLifecycleHook"), 2);
    let (_, code) = world.enroll(&[SHOP, "--heartbeat-timeout", "10m", "--launch", "--yes"]).await;
    assert!(is(code, 0));
    assert_eq!(
        world.hooks("b").await,
        ["sundown-launch 10m CONTINUE", "sundown-terminate 10m CONTINUE"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_check_is_not_passed_by_a_hook_that_only_a_person_can_change() {
    let world = World::new();
    let notifies = HookSpec {
        notify_queue: Some("someone".to_owned()),
        ..HookSpec::terminating("sundown-terminate").heartbeat_timeout(seconds(60))
    };
    world.aws.put_hook("a", notifies);
    let (output, code) = world.enroll(&["--asg=a", "--check"]).await;
    assert!(is(code, 3) && output.contains("change it by hand: heartbeat 1m to 5m"), "{output}");
    assert!(!output.contains("nothing to do"), "{output}");
    let (output, code) = world.enroll(&["--asg=a", "--yes"]).await;
    assert!(is(code, 0) && !output.contains("nothing to do"), "{output}");
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_is_left_over_beside_the_new_one_is_named() {
    let world = World::new();
    world.aws.put_hook("a", HookSpec::terminating("nth-drain"));
    let (output, code) = world.enroll(&["--asg=a", "--yes"]).await;
    assert!(
        is(code, 0)
            && output.contains("a: Sundown leaves the terminate hook nth-drain to whoever made it"),
        "{output}"
    );
    let (output, _) = world.enroll(&["--asg=b", "--yes"]).await;
    assert!(!output.contains("leaves the"), "{output}");
    for (group, expected) in [("a", 1), ("b", 0)] {
        let (output, _) = world.enroll(&["--asg", group, "-o", "json"]).await;
        let answer: serde_json::Value = serde_json::from_str(&output).unwrap();
        let notes = answer["notes"].as_array().unwrap_or_else(|| panic!("{output}"));
        let is_named = |note: &serde_json::Value| {
            note["group"] == group
                && note["message"].as_str().is_some_and(|text| text.contains("nth-drain"))
        };
        assert!(notes.len() == expected && notes.iter().all(is_named), "{output}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_rule_of_a_new_launch_hook_is_named_once() {
    let world = World::new();
    let rule = "a: sundown-launch needs an EventBridge rule that sends `EC2 Instance-launch \
                Lifecycle Action` to Sundown's queue";
    for (flags, is_named) in [
        (&["--asg=a"][..], false),
        (&["--asg=a", "--launch"], true),
        (&["--asg=a", "--launch", "--yes"], true),
        (&["--asg=a", "--launch", "--check"], false),
    ] {
        let (output, code) = world.enroll(flags).await;
        assert!(is(code, 0) && output.contains(rule) == is_named, "{flags:?} {output}");
    }
    let (output, _) = world.enroll(&["--asg=b", "--launch", "-o", "json"]).await;
    let answer: serde_json::Value = serde_json::from_str(&output).unwrap();
    let note = answer["notes"][0]["message"].as_str().unwrap_or_default();
    assert!(note.starts_with("sundown-launch needs"), "{output}");
}

#[tokio::test(start_paused = true)]
async fn programs_get_one_json_document_with_a_row_for_each_hook() {
    use crate::sim::aws::{Fault, FaultRule, How};
    let world = World::new();
    world.aws.fault(
        FaultRule::new("autoscaling:PutLifecycleHook", Fault::AccessDenied, How::Always)
            .about("b/*"),
    );
    let rows = |output: &str| {
        let answer: serde_json::Value =
            serde_json::from_str(output).unwrap_or_else(|e| panic!("{e}: {output}"));
        let text = |v: &serde_json::Value| v.as_str().unwrap_or("-").to_owned();
        let row = |r: &serde_json::Value| {
            (text(&r["group"]), text(&r["hook"]), text(&r["step"]), r["done"].as_bool().unwrap())
        };
        (
            answer["hooks"].as_array().unwrap().iter().map(row).collect::<Vec<_>>(),
            answer["summary"].clone(),
        )
    };
    let row = |group: &str, hook: &str, step: &str, done| {
        (group.to_owned(), hook.to_owned(), step.to_owned(), done)
    };
    let ours = "sundown-terminate";
    let (output, code) = world.enroll(&[SHOP, "--yes", "-o", "json"]).await;
    assert!(is(code, 1), "{output}");
    let expected = vec![
        row("a", ours, "add", true),
        row("b", ours, "add", false),
        row("b", "-", "fail", false),
    ];
    let summary = serde_json::json!({ "open": 2, "done": 1, "left": 0, "failed": 1 });
    assert_eq!(rows(&output), (expected, summary));
    let (output, code) = world.enroll(&[SHOP, "--check", "-o", "json"]).await;
    assert!(is(code, 3), "{output}");
    assert_eq!(rows(&output).0, [row("a", ours, "keep", false), row("b", ours, "add", false)]);
    let (output, _) = world.enroll(&[SHOP, "--remove", "--yes", "-o", "json"]).await;
    assert_eq!(rows(&output).0, [row("a", ours, "remove", true), row("b", "-", "keep", false)]);
}

#[tokio::test(start_paused = true)]
async fn a_tag_that_no_group_has_and_a_group_that_is_not_there_are_errors() {
    let world = World::new();
    for (flag, word) in [("--asg-tag=team=ship", "team=ship"), ("--asg=c", "`c`")] {
        let (_, result) = world.try_enroll(&[flag, "--check"]).await;
        let error = format!("{:#}", result.unwrap_err());
        assert!(
            error.contains(word) && error.to_lowercase().contains("nothing was changed"),
            "{error}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_denied_call_is_named_and_the_next_group_is_tried() {
    use crate::sim::aws::{Fault, FaultRule, How};
    let world = World::new();
    world.aws.fault(
        FaultRule::new("autoscaling:PutLifecycleHook", Fault::AccessDenied, How::Always)
            .about("a/*"),
    );
    let (output, code) = world.enroll(&[SHOP, "--yes"]).await;
    assert!(
        is(code, 1)
            && output.contains("a: your credentials need autoscaling:PutLifecycleHook")
            && output.contains("1 hook made"),
        "{output}"
    );
    assert!(world.hooks("a").await.is_empty() && world.hooks("b").await.len() == 1);
}

#[tokio::test(start_paused = true)]
async fn hooks_are_removed_where_nobody_waits_and_refused_where_somebody_does() {
    let world = World::new();
    world.enroll(&[SHOP, "--yes"]).await;
    world.aws.put_hook("a", HookSpec::terminating("Terminate-LC-Hook"));
    let going = world.aws.scale_in("a", 1).remove(0);
    let (output, code) = world.enroll(&[SHOP, "--remove"]).await;
    assert!(
        is(code, 1)
            && output.contains(&format!("a: sundown-terminate is not removed: {going} waits"))
            && output.contains("b: remove"),
        "{output}"
    );
    assert_eq!(world.aws.count("autoscaling:DeleteLifecycleHook"), 0);
    let (output, code) = world.enroll(&[SHOP, "--remove", "--yes"]).await;
    assert!(is(code, 1) && output.ends_with("1 hook removed.\n"), "{output}");
    assert_eq!((world.hooks("a").await.len(), world.hooks("b").await.len()), (2, 0));
    assert!(world.aws.actions().iter().all(|a| a.end.is_none()), "the drain goes on");
    let (output, code) = world.enroll(&[SHOP, "--remove", "--now", "--yes"]).await;
    assert!(
        is(code, 0)
            && output.contains(&format!("{going} waits, and AWS terminates it at once"))
            && output.contains("b: it has no hook"),
        "{output}"
    );
    assert_eq!(world.hooks("a").await, ["Terminate-LC-Hook 1h ABANDON"], "only ours");
    let ends: Vec<_> = world
        .aws
        .actions()
        .into_iter()
        .filter(|a| a.hook == "sundown-terminate")
        .map(|a| a.end.unwrap().verdict)
        .collect();
    assert_eq!(ends, [Verdict::Removed]);
}

#[tokio::test(start_paused = true)]
async fn wait_waits_for_the_drain_and_not_longer_than_its_limit() {
    let world = World::new();
    world.enroll(&["--asg=a", "--yes"]).await;
    let going = world.aws.scale_in("a", 1).remove(0);
    let began = Instant::now();
    let (output, code) = world.enroll(&["--asg=a", "--remove", "--wait=2m", "--yes"]).await;
    assert!(is(code, 1) && output.contains(&format!("{going} still waits")), "{output}");
    assert!((seconds(120)..seconds(135)).contains(&began.elapsed()), "{:?}", began.elapsed());
    // The hook times out after 5 min, and then no instance waits.
    let (output, code) = world.enroll(&["--asg=a", "--remove", "--wait", "--yes"]).await;
    assert!(
        is(code, 0) && output.contains("waiting for") && output.ends_with("1 hook removed.\n"),
        "{output}"
    );
    assert!((seconds(300)..seconds(315)).contains(&began.elapsed()), "{:?}", began.elapsed());
    assert_eq!(
        world.aws.actions()[0].end.as_ref().unwrap().verdict,
        Verdict::TimedOut(crate::sim::aws::HookResult::Continue)
    );
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_begins_to_wait_in_a_later_group_is_not_cut_short() {
    let world = World::new();
    world.enroll(&[SHOP, "--yes"]).await;
    world.aws.scale_in("a", 1);
    let later = async {
        tokio::time::sleep(seconds(60)).await;
        world.aws.scale_in("b", 1).remove(0)
    };
    let ((output, code), going) =
        futures::join!(world.enroll(&[SHOP, "--remove", "--wait=2m", "--yes"]), later);
    assert!(
        is(code, 1) && output.contains(&format!("b: sundown-terminate is not removed: {going}")),
        "{output}"
    );
    assert_eq!((world.hooks("a").await.len(), world.hooks("b").await.len()), (1, 1));
    assert!(world.aws.actions().iter().all(|a| a.end.is_none()), "both drains go on");
}

#[test]
fn metadata_with_a_bad_setting_is_refused_before_any_call() {
    let read = |metadata: &str| {
        let command = EnrollArgs::augment_args(Command::new("enroll").no_binary_name(true));
        let flags = ["--asg", "a", "--metadata", metadata];
        command.try_get_matches_from(flags).map(|_| ()).map_err(|error| error.to_string())
    };
    for good in ["for team a", r#"{"sundown":{"drain-timeout":"4h"},"owner":"a"}"#] {
        assert_eq!(read(good), Ok(()), "{good}");
    }
    let error = read(r#"{"sundown":{"drain-timeout":"9d"}}"#).unwrap_err();
    assert!(error.contains("is `9d`: use hours, minutes and seconds"), "{error}");
}

//! `sundown enroll` as a process. What it decides and how it waits is in `src/cli/enroll`.

use sundown::sim::aws::GroupSpec;

use crate::{
    process::{run, sundown},
    stage::Stage,
};

#[tokio::test(flavor = "multi_thread")]
async fn groups_are_enrolled_checked_and_let_go() {
    let stage = Stage::new(70).await;
    stage.world.add_group(GroupSpec::new("a", 1).tag("team", "shop"), &[]);
    let tag = ["enroll", "--asg-tag", "team=shop"];
    let with = |more: &[&str]| {
        tag.iter().copied().chain(more.iter().copied()).map(str::to_owned).collect::<Vec<_>>()
    };
    let enroll = async |more: &[&str]| {
        let words = with(more);
        stage.tool(&words.iter().map(String::as_str).collect::<Vec<_>>()).await
    };
    // For cron: 3 is a group without its hook, and nothing is changed by asking.
    assert_eq!(enroll(&["--check"]).await.code, Some(3));
    assert_eq!(enroll(&[]).await.code, Some(0));
    assert_eq!(enroll(&["--check"]).await.code, Some(3));
    let output = enroll(&["--yes"]).await;
    assert!(
        output.code == Some(0) && output.out.contains("a: add sundown-terminate"),
        "{}{}",
        output.out,
        output.err
    );
    assert_eq!(enroll(&["--check"]).await.code, Some(0));
    assert_eq!(enroll(&["--remove", "--yes"]).await.code, Some(0));
    assert_eq!(enroll(&["--check"]).await.code, Some(3));
    assert_eq!(stage.world.aws.count("autoscaling:DeleteLifecycleHook"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_makes_no_sense_is_refused_before_anything_is_asked() {
    let stage = Stage::new(71).await;
    for (flags, word) in [
        (&[][..], "--asg-tag"),
        (&["--asg", "a", "--yes", "--check"], "--check"),
        (&["--asg", "a", "--wait"], "--remove"),
        (&["--asg", "a", "--remove", "--now", "--wait"], "--wait"),
        (&["--asg", "a", "--heartbeat-timeout", "3h"], "30s to 2h"),
        (&["--asg", "a", "--hook-name", "a b"], "--hook-name"),
    ] {
        let output = stage
            .tool(&["enroll"].into_iter().chain(flags.iter().copied()).collect::<Vec<_>>())
            .await;
        assert!(
            output.code == Some(2) && output.err.contains(word),
            "{flags:?}: {:?} {}",
            output.code,
            output.err
        );
    }
    assert!(stage.world.aws.calls().is_empty());
    let output = stage.tool(&["enroll", "--asg-tag", "team=shop"]).await;
    assert!(
        output.code == Some(1)
            && output.err.contains("no Auto Scaling group has the tag team=shop"),
        "{}",
        output.err
    );
    let alone = run(
        stage.folder.path(),
        sundown(stage.folder.path())
            .args(["enroll", "--asg", "a"])
            .env("AWS_EC2_METADATA_DISABLED", "true"),
    )
    .await;
    assert!(
        alone.code == Some(2) && alone.err.contains("--region"),
        "{:?} {}",
        alone.code,
        alone.err
    );
}

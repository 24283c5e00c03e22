//! The API server away, or out of one replica's reach: nobody writes who may not lead, and no hook
//! is lost.

use sundown::{
    domain::Moment,
    sim::{
        aws::{EventKind, Rule as QueueRule},
        kube::{Away, Fault, Match, Rule},
    },
};

use super::{
    BEAT, gaps,
    leaders::{Drains, follow, one_at_a_time, written},
    s,
};
use crate::{harness::Stage, messages::bodies};

/// One writer at a time, but that who was cut off at this moment goes on sending heartbeats: it
/// cannot know that somebody else leads, and they do no harm
/// (docs/adr/0010-heartbeats-go-on-while-nobody-leads.md).
fn one_writer_but_for_heartbeats_of(stage: &Stage, replica: &str, cut_off: Moment) {
    one_at_a_time(written(stage, |by, at| by != replica || at < cut_off));
}

/// When this replica sent heartbeats.
fn heartbeats_of(stage: &Stage, replica: &str) -> Vec<Moment> {
    stage
        .world
        .aws
        .calls()
        .into_iter()
        .filter(|c| c.api == BEAT && c.by == replica)
        .map(|c| c.at)
        .collect()
}

#[tokio::test(start_paused = true)]
async fn c73_a_leader_that_is_cut_off_from_the_api_server_stops_before_another_begins() {
    let stage = Stage::new(73);
    let mut drains = Drains::prepared(&stage).await;
    let first = stage.lead("sundown-0", &[]).await;
    let second = stage.start("sundown-1", &[]);
    stage.pass(10).await;
    drains.begin(&stage);
    stage.pass(30).await;
    let cut = Match { client: Some("sundown-0".to_owned()), ..Match::all() };
    let partition = stage.world.kube.inject(Rule::always(cut, Fault::Hang));
    let begun = stage.clock.now();
    follow(&stage, 20, &second).await;
    assert_eq!(first.metric("leader"), 0.0, "the first knows before the second begins");
    let last = written(&stage, |_, _| false)["sundown-0"].last().copied().unwrap();
    assert!(
        last.duration_since(begun).as_secs() <= 10,
        "nothing but heartbeats is started after the renew deadline"
    );
    stage.pass(30).await;
    assert!(
        heartbeats_of(&stage, "sundown-0").last().is_some_and(|at| at.since_or_zero(begun) > s(30)),
        "it knows of nobody else who leads"
    );
    stage.world.kube.lift(partition);
    stage.pass(5).await;
    let seen = stage.clock.now();
    stage.until(250, "all are completed", || stage.all_over()).await;
    stage.all_completed_once();
    for action in stage.world.aws.actions() {
        assert!(
            gaps(&action).iter().all(|g| *g < action.heartbeat_timeout.as_secs_f64()),
            "{action:?}"
        );
    }
    assert!(
        heartbeats_of(&stage, "sundown-0").last().is_some_and(|at| *at < seen),
        "none once it has seen the other"
    );
    assert_eq!(first.metric("open_actions"), 0.0);
    drains.forced_on_time(&stage);
    one_writer_but_for_heartbeats_of(&stage, "sundown-0", begun);
    first.stop().await;
    second.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn c73_what_another_leader_has_completed_gets_one_more_heartbeat_from_one_that_is_cut_off() {
    let stage = Stage::new(732);
    let instance = stage.group(1, 60).remove(0);
    stage.slow_pod(&instance, "slow", 100);
    let first = stage.lead("sundown-0", &[]).await;
    let second = stage.start("sundown-1", &[]);
    stage.pass(10).await;
    stage.world.aws.terminate(&instance, true);
    stage.pass(30).await;
    let begun = stage.clock.now();
    let partition = stage.world.kube.inject(Rule::always(
        Match { client: Some("sundown-0".to_owned()), ..Match::all() },
        Fault::Hang,
    ));
    follow(&stage, 20, &second).await;
    stage.until(100, "the second completes it", || stage.is_over(&instance)).await;
    stage.pass(120).await;
    let action = stage.action(&instance);
    assert_eq!(action.end.unwrap().by, "sundown-1");
    assert_eq!(action.late_calls.len(), 1, "one heartbeat tells, and no further one");
    one_writer_but_for_heartbeats_of(&stage, "sundown-0", begun);
    // Nothing of it is left when it may lead again.
    stage.world.kube.lift(partition);
    second.kill();
    follow(&stage, 20, &first).await;
    stage.pass(60).await;
    assert_eq!(stage.action(&instance).late_calls.len(), 1);
    first.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn c80_an_api_server_that_is_away_for_five_minutes_costs_no_hook() {
    for (how, timeout) in
        [(Away::Refusing, 60), (Away::Silent, 60), (Away::Refusing, 300), (Away::Silent, 300)]
    {
        let stage = Stage::new(80);
        let instances = stage.group_with("asg", 3, &[super::hook("drain", timeout)]);
        stage.slow_pod(&instances[0], "slow", 120);
        let sundown = stage.lead("sundown-0", &[]).await;
        stage.world.aws.terminate(&instances[0], true);
        stage.pass(60).await;
        stage.world.kube.go_away(how);
        // One that comes before the Lease is lost, and cannot be accepted.
        stage.world.aws.terminate(&instances[1], true);
        stage.pass(30).await;
        assert_eq!(
            (sundown.metric("leader"), sundown.metric("open_actions")),
            (0.0, 2.0),
            "{how:?} {timeout}"
        );
        stage.pass(270).await;
        assert!(
            instances[..2].iter().all(|i| !stage.is_over(i)),
            "nothing is completed on the word of an API server that is away"
        );
        stage.world.kube.come_back();
        follow(&stage, 40, &sundown).await;
        stage
            .until(120, "all are completed", || {
                stage.world.aws.actions().len() == 2 && stage.all_over()
            })
            .await;
        stage.all_completed_once();
        for action in stage.world.aws.actions() {
            assert!(
                gaps(&action).iter().all(|g| *g < action.heartbeat_timeout.as_secs_f64()),
                "{how:?} {action:?}"
            );
        }
        assert_eq!(stage.removals().len(), 1);
        stage.pass(5).await;
        assert_eq!(sundown.metric("open_actions"), 0.0);
        sundown.stop().await;
        stage.end();
    }
}

#[tokio::test(start_paused = true)]
async fn an_open_action_whose_hook_has_a_later_made_up_one_is_kept_alive_after_an_outage() {
    let stage = Stage::new(803);
    let instance = stage.group(1, 60).remove(0);
    stage.slow_pod(&instance, "slow", 600);
    stage.queue_for("late", [EventKind::TerminateAction]);
    let sundown = stage.lead("sundown-0", &["--drain-timeout", "20m"]).await;
    let queue = stage.world.queue();
    stage.world.aws.reroute(QueueRule { enabled: false, ..QueueRule::usual(queue) });
    stage.world.aws.terminate(&instance, true);
    stage.pass(2).await;
    let made_up = bodies::terminate("asg", "drain", &instance, &stage.now());
    stage.world.aws.send_event(stage.world.queue(), &made_up);
    stage.until(3, "its node is cordoned", || stage.is_cordoned(&instance)).await;
    stage.pass(5).await;
    let real = stage.bodies_in("late").remove(0);
    stage.world.aws.send_event(stage.world.queue(), &real);
    let joined = || stage.record(&instance).unwrap()["interruptions"].get(1).is_some();
    stage.until(5, "the real one joins", joined).await;
    stage.pass(20).await;
    stage.world.kube.go_away(Away::Refusing);
    stage.until(60, "it no longer leads", || sundown.metric("leader") == 0.0).await;
    stage.world.kube.come_back();
    follow(&stage, 40, &sundown).await;
    stage.pass(430).await;
    assert!(!stage.is_over(&instance), "pods are left: {:?}", stage.action(&instance));
    stage.until(200, "the real one is completed", || stage.is_over(&instance)).await;
    stage.completed_once(&instance);
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn what_is_kept_alive_while_nobody_leads_is_not_kept_alive_beyond_its_drain() {
    let stage = Stage::new(801);
    let instance = stage.group(1, 60).remove(0);
    stage.slow_pod(&instance, "slow", 3_000);
    let sundown = stage.lead("sundown-0", &["--drain-timeout", "10m"]).await;
    stage.world.aws.terminate(&instance, true);
    stage.pass(30).await;
    stage.world.kube.go_away(Away::Refusing);
    stage.pass(540).await;
    assert!(!stage.is_over(&instance));
    stage.pass(120).await;
    let action = stage.action(&instance);
    let last = action.heartbeats.last().unwrap().since_or_zero(action.started).as_secs();
    assert!((560..=605).contains(&last), "the last heartbeat came after {last} s");
    assert_eq!(sundown.metric("open_actions"), 0.0);
    sundown.kill();
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn a_record_that_is_deleted_before_its_node_while_nobody_can_watch_has_its_action_completed()
{
    let stage = Stage::new(802);
    let instance = stage.group_with("hooked", 1, &[super::hook("drain", 300)]).remove(0);
    stage.slow_pod(&instance, "slow", 600);
    let sundown = stage.lead("sundown-0", &[]).await;
    stage.world.aws.terminate(&instance, true);
    stage.pass(10).await;
    stage.world.kube.go_away(Away::Refusing);
    stage.pass(30).await;
    // The watch brings both changes at once when the API server is back.
    let name = stage.name_of(&instance);
    let without_record = |node: &mut serde_json::Value| {
        drop(node["metadata"]["annotations"].as_object_mut().unwrap().remove("sundown.dev/record"));
    };
    assert!(stage.world.kube.edit("nodes", "", &name, without_record));
    assert!(stage.world.kube.delete("nodes", "", &name));
    stage.pass(5).await;
    stage.world.kube.come_back();
    follow(&stage, 40, &sundown).await;
    stage.until(10, "its action is completed", || stage.is_over(&instance)).await;
    stage.completed_once(&instance);
    sundown.stop().await;
    stage.end();
}

//! Who leads, and what becomes of drains when that changes.

use std::collections::{BTreeMap, BTreeSet};

use sundown::{
    domain::Moment,
    sim::{
        aws::Outcome,
        kube::{Fact, Fault, Match, PodShape, PodSpec, Rule, Workload},
    },
};

use super::{gaps, s};
use crate::harness::{Replica, Stage};

/// What replicas wrote, and when: to Kubernetes (the Lease aside) and to Auto Scaling.
pub(super) fn writes(stage: &Stage) -> BTreeMap<String, Vec<Moment>> {
    written(stage, |_, _| true)
}

/// The same without these heartbeats (of whom, and when).
pub(super) fn written(
    stage: &Stage,
    heartbeats: impl Fn(&str, Moment) -> bool,
) -> BTreeMap<String, Vec<Moment>> {
    let mut by: BTreeMap<String, Vec<Moment>> = BTreeMap::new();
    for r in stage.world.kube.requests() {
        if r.client.starts_with("sundown") && r.is_write() && r.resource != "leases" {
            by.entry(r.client).or_default().push(r.at);
        }
    }
    for c in stage.world.aws.calls() {
        let writes =
            c.api.contains("Complete") || (c.api == super::BEAT && heartbeats(&c.by, c.at));
        if c.by.starts_with("sundown") && writes && c.outcome != Outcome::LostBefore {
            by.entry(c.by).or_default().push(c.at);
        }
    }
    by.values_mut().for_each(|w| w.sort());
    by
}

/// No write of one replica between the first and the last of another's term: they follow each
/// other.
pub(super) fn one_writer_at_a_time(stage: &Stage) {
    one_at_a_time(writes(stage));
}

pub(super) fn one_at_a_time(writes: BTreeMap<String, Vec<Moment>>) {
    let mut all: Vec<(Moment, String)> = writes
        .into_iter()
        .flat_map(|(by, at)| at.into_iter().map(move |a| (a, by.clone())))
        .collect();
    all.sort();
    let mut over = BTreeSet::new();
    let mut last: Option<&(Moment, String)> = None;
    for write in &all {
        if let Some(l) = last
            && l.1 != write.1
        {
            assert!(write.0 > l.0, "two writers in one moment: {l:?} {write:?}");
            over.insert(l.1.clone());
            assert!(!over.contains(&write.1), "{} writes again after {}", write.1, l.1);
        }
        last = Some(write);
    }
}

fn evictions_by_pod(stage: &Stage) -> BTreeMap<String, usize> {
    let mut by = BTreeMap::new();
    for entry in stage.deeds() {
        if let Fact::Evicted { pod, again, .. } = entry.fact {
            assert!(!again, "a second eviction of {pod:?}, which was terminating");
            *by.entry(pod.uid).or_default() += 1;
        }
    }
    by
}

/// What goes on while leaders change.
pub(super) struct Drains {
    /// With hooks of 30 s, a minute and five, and with pods that take minutes.
    pub(super) hooked: Vec<String>,
    /// With a pod that its budget never lets go.
    pub(super) spot: String,
    noticed: Moment,
}

impl Drains {
    pub(super) async fn prepared(stage: &Stage) -> Self {
        let mut hooked = Vec::new();
        for (group, timeout) in [("thirty", 30), ("minute", 60), ("five", 300)] {
            let instance = stage.group_with(group, 1, &[super::hook("drain", timeout)]).remove(0);
            stage.slow_pod(&instance, &format!("slow-{group}"), 200);
            hooked.push(instance);
        }
        let spot = stage.spot_group(1).remove(0);
        stage.blocked_pod(&spot, "blocked", 30);
        stage.pass(5).await;
        Self { hooked, spot, noticed: Moment::UNIX_EPOCH }
    }

    pub(super) fn begin(&mut self, stage: &Stage) {
        self.hooked.iter().for_each(|i| stage.world.aws.terminate(i, true));
        stage.spot_warning(&self.spot, "spot-1");
        self.noticed = stage.clock.now();
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &String> {
        self.hooked.iter().chain([&self.spot])
    }

    /// Whoever led: the blocked pod was deleted once, when that was due, with its own grace: 30 s
    /// before the deadline, which is 10 s before the end of the two minutes.
    pub(super) fn forced_on_time(&self, stage: &Stage) {
        let deleted = |e: &sundown::sim::kube::Entry| {
            matches!(
                &e.fact, Fact::Deleted { pod, grace: 30, .. } if pod.name == "blocked"
            )
        };
        let at: Vec<_> = stage
            .deeds()
            .iter()
            .filter(|e| deleted(e))
            .map(|e| e.at.since_or_zero(self.noticed).as_secs_f64())
            .collect();
        assert!(at.len() == 1 && (79.0..81.0).contains(&at[0]), "{at:?} {:?}", stage.removals());
    }
}

/// A leader that drains this instance's node, and a standby.
async fn one_drain_and_a_standby(stage: &Stage, instance: &str, flags: &[&str]) -> [Replica; 2] {
    let first = stage.lead("sundown-0", flags).await;
    let second = stage.start("sundown-1", flags);
    stage.pass(10).await;
    stage.world.aws.terminate(instance, true);
    stage.until(5, "it is written", || stage.is_cordoned(instance) && stage.in_queue() == 0).await;
    [first, second]
}

/// A person deletes the record of this instance's node.
fn delete_record(stage: &Stage, instance: &str) {
    let delete = |node: &mut serde_json::Value| {
        drop(node["metadata"]["annotations"].as_object_mut().unwrap().remove("sundown.dev/record"));
    };
    assert!(stage.world.kube.edit("nodes", "", &stage.name_of(instance), delete));
}

pub(super) async fn follow(stage: &Stage, limit: u64, replica: &Replica) {
    stage.until(limit, "the standby leads", || replica.metrics.leads()).await;
}

#[tokio::test(start_paused = true)]
async fn c72_c73_s26_a_standby_follows_a_killed_leader_and_goes_on_where_it_was() {
    let stage = Stage::new(72);
    let mut drains = Drains::prepared(&stage).await;
    let first = stage.lead("sundown-0", &[]).await;
    let second = stage.start("sundown-1", &[]);
    stage.pass(10).await;
    drains.begin(&stage);
    stage.pass(40).await;
    let ends: Vec<_> =
        drains.all().map(|i| first.drain(&stage.name_of(i)).unwrap().ends_at).collect();
    let records: Vec<_> = drains.all().map(|i| stage.record(i)).collect();
    first.kill();
    follow(&stage, 17, &second).await;
    stage.pass(5).await;
    for (n, instance) in drains.all().enumerate() {
        assert_eq!(
            second.drain(&stage.name_of(instance)).unwrap().ends_at,
            ends[n],
            "the same clock"
        );
        assert_eq!(stage.record(instance), records[n], "nothing is written anew");
    }
    stage.until(250, "all are completed", || stage.all_over()).await;
    stage.all_completed_once();
    for action in stage.world.aws.actions() {
        assert!(
            gaps(&action).iter().all(|g| *g < action.heartbeat_timeout.as_secs_f64()),
            "{action:?}"
        );
    }
    assert_eq!(evictions_by_pod(&stage).values().filter(|n| **n > 1).count(), 0);
    drains.forced_on_time(&stage);
    one_writer_at_a_time(&stage);
    second.stop().await;
    stage.end();
}

/// The record goes with the Node; whoever saw both go still knows what is owed.
#[tokio::test(start_paused = true)]
async fn what_a_node_owed_that_was_deleted_while_nobody_led_is_completed_by_the_next_leader() {
    let stage = Stage::new(722);
    let instance = stage.group(1, 300).remove(0);
    stage.slow_pod(&instance, "slow", 600);
    let first = stage.lead("sundown-0", &[]).await;
    let second = stage.start("sundown-1", &[]);
    stage.pass(10).await;
    stage.world.aws.terminate(&instance, true);
    stage.pass(20).await;
    first.kill();
    stage.pass(1).await;
    assert!(stage.world.kube.delete("nodes", "", &stage.name_of(&instance)));
    assert!(stage.action(&instance).end.is_none());
    follow(&stage, 17, &second).await;
    stage.until(2, "it is completed", || stage.all_over()).await;
    stage.all_completed_once();
    second.stop().await;
    stage.end();
}

/// As long as a leader lives it writes such a record back; while nobody led, somebody must have
/// seen it.
#[tokio::test(start_paused = true)]
async fn a_record_that_was_deleted_while_nobody_led_is_written_back_by_the_next_leader() {
    let stage = Stage::new(7221);
    let instance = stage.group(1, 300).remove(0);
    stage.slow_pod(&instance, "slow", 100);
    let [first, second] = one_drain_and_a_standby(&stage, &instance, &[]).await;
    let record = stage.record(&instance);
    first.kill();
    stage.pass(1).await;
    delete_record(&stage, &instance);
    follow(&stage, 17, &second).await;
    stage
        .until(2, "it is written back", || {
            stage.node(&instance)["metadata"]["annotations"].get("sundown.dev/record").is_some()
        })
        .await;
    assert_eq!(stage.record(&instance), record);
    stage.until(250, "it is completed", || stage.all_over()).await;
    stage.all_completed_once();
    assert_eq!(stage.removals().len(), 1, "evicted once: {:?}", stage.removals());
    let records = |event: &str| second.metric(&format!("records_total{{event=\"{event}\"}}"));
    assert_eq!(
        (records("restored"), records("damaged")),
        (1.0, 0.0),
        "a record that is written back is not lost"
    );
    second.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn a_record_that_was_deleted_long_before_anybody_led_again_is_written_back() {
    let stage = Stage::new(7225);
    let instance = stage.group(1, 3600).remove(0);
    stage.slow_pod(&instance, "slow", 100);
    let [first, second] = one_drain_and_a_standby(&stage, &instance, &[]).await;
    let record = stage.record(&instance);
    first.kill();
    let lease =
        stage.world.kube.inject(Rule::always(Match::of("update", "leases"), Fault::Forbidden));
    stage.pass(1).await;
    delete_record(&stage, &instance);
    stage.pass(1200).await;
    assert!(!stage.is_over(&instance), "nobody leads, and its window is an hour long");
    stage.world.kube.lift(lease);
    follow(&stage, 60, &second).await;
    stage
        .until(2, "it is written back", || {
            stage.node(&instance)["metadata"]["annotations"].get("sundown.dev/record").is_some()
        })
        .await;
    assert_eq!(stage.record(&instance), record);
    stage.until(250, "it is completed", || stage.all_over()).await;
    stage.all_completed_once();
    second.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn a_node_that_goes_while_its_deleted_record_is_written_back_has_its_action_completed() {
    let stage = Stage::new(7224);
    let instance = stage.group(1, 300).remove(0);
    stage.slow_pod(&instance, "slow", 600);
    let [first, second] = one_drain_and_a_standby(&stage, &instance, &[]).await;
    first.kill();
    stage.pass(1).await;
    let name = stage.name_of(&instance);
    delete_record(&stage, &instance);
    stage
        .world
        .kube
        .inject(Rule::always(Match::of("patch", "nodes").from("sundown-1"), Fault::Forbidden));
    follow(&stage, 17, &second).await;
    stage.pass(5).await;
    assert_eq!(second.metric("records_total{event=\"restored\"}"), 1.0);
    assert!(stage.world.kube.delete("nodes", "", &name));
    stage.until(5, "it is completed", || stage.all_over()).await;
    stage.all_completed_once();
    second.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn the_hook_of_a_record_that_was_deleted_while_nobody_led_gets_heartbeats_while_the_nodes_cannot_be_listed()
 {
    let stage = Stage::new(7223);
    let instance = stage.group(1, 60).remove(0);
    stage.slow_pod(&instance, "slow", 3_000);
    let [first, second] =
        one_drain_and_a_standby(&stage, &instance, &["--drain-timeout", "10m"]).await;
    first.kill();
    stage.pass(1).await;
    let list = stage
        .world
        .kube
        .inject(Rule::always(Match::of("list", "nodes").from("sundown-1"), Fault::Forbidden));
    delete_record(&stage, &instance);
    follow(&stage, 17, &second).await;
    // The last long poll of the leader that was killed would take the message.
    stage.pass(20).await;
    stage.spot_warning(&instance, "spot-1");
    stage.until(5, "the notice is accepted", || second.messages("spot", "accepted") == 1.0).await;
    stage.pass(90).await;
    let kinds = || -> Vec<serde_json::Value> {
        stage.record(&instance).unwrap()["interruptions"]
            .as_array()
            .unwrap()
            .iter()
            .map(|i| i["kind"].clone())
            .collect()
    };
    assert!(!stage.is_over(&instance), "heartbeats keep it open: {:?}", stage.action(&instance));
    assert_eq!(kinds(), ["spot"], "the nodes cannot be listed");
    stage.world.kube.lift(list);
    stage
        .until(15, "the hook is written into the record", || kinds() == ["terminate-hook", "spot"])
        .await;
    stage.until(250, "it is completed", || stage.all_over()).await;
    stage.all_completed_once();
    assert!(
        gaps(&stage.action(&instance)).iter().all(|gap| *gap < 60.0),
        "{:?}",
        stage.action(&instance)
    );
    second.stop().await;
    stage.end();
}

/// What is put back loses record, taint and cordon in one patch: nobody has to remember it.
#[tokio::test(start_paused = true)]
async fn a_node_that_was_put_back_stays_so_under_the_next_leader() {
    let stage = Stage::new(7222);
    let instance = stage.group(1, 300).remove(0);
    stage.slow_pod(&instance, "slow", 100);
    let first = stage.lead("sundown-0", &[]).await;
    let second = stage.start("sundown-1", &[]);
    stage.pass(10).await;
    stage.world.aws.spot_interruption(&instance, sundown::sim::aws::SpotAction::Terminate);
    stage.until(5, "it is written", || stage.is_cordoned(&instance)).await;
    let release = |node: &mut serde_json::Value| {
        node["metadata"]["annotations"]["sundown.dev/release"] = "true".into();
    };
    assert!(stage.world.kube.edit("nodes", "", &stage.name_of(&instance), release));
    stage.until(5, "it is put back", || !stage.is_cordoned(&instance)).await;
    first.kill();
    follow(&stage, 17, &second).await;
    stage.pass(10).await;
    assert!(!stage.is_cordoned(&instance));
    second.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn c72_one_replica_that_is_killed_goes_on_after_its_restart() {
    let stage = Stage::new(721);
    let instance = stage.group(1, 300).remove(0);
    stage.slow_pod(&instance, "slow", 300);
    let first = stage.lead("sundown-0", &[]).await;
    stage.world.aws.terminate(&instance, true);
    stage.pass(60).await;
    first.kill();
    stage.pass(20).await;
    let again = stage.lead("sundown-1", &[]).await;
    stage
        .until(3, "it gets a heartbeat at once", || !stage.action(&instance).heartbeats.is_empty())
        .await;
    stage.until(300, "the action is completed", || stage.all_over()).await;
    stage.all_completed_once();
    assert_eq!(stage.removals().len(), 1, "evicted once: {:?}", stage.removals());
    again.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_is_told_to_stop_hands_over_within_seconds() {
    let stage = Stage::new(722);
    let mut drains = Drains::prepared(&stage).await;
    // A fourth whose Node cannot be patched: its message is undecided.
    let stuck = stage.group_with("stuck", 1, &[super::hook("drain", 300)]).remove(0);
    let first = stage.lead("sundown-0", &[]).await;
    let second = stage.start("sundown-1", &[]);
    stage.pass(10).await;
    stage.world.kube.inject(Rule::always(
        Match::of("patch", "nodes").named(stage.name_of(&stuck)).from("sundown-0"),
        Fault::Hang,
    ));
    drains.begin(&stage);
    stage.world.aws.terminate(&stuck, true);
    stage.pass(20).await;
    assert_eq!(stage.in_queue(), 1);
    let before = tokio::time::Instant::now();
    first.stop().await;
    assert!(before.elapsed() <= s(6), "it took {:?}", before.elapsed());
    // What it had not accepted is visible at once, and the Lease is free.
    follow(&stage, 3, &second).await;
    stage.until(5, "the undecided one is accepted by the next", || stage.is_cordoned(&stuck)).await;
    stage.until(250, "all are completed", || stage.all_over()).await;
    stage.all_completed_once();
    for action in stage.world.aws.actions() {
        assert!(
            gaps(&action).iter().all(|g| *g < action.heartbeat_timeout.as_secs_f64()),
            "{action:?}"
        );
    }
    assert_eq!(evictions_by_pod(&stage).values().filter(|n| **n > 1).count(), 0);
    drains.forced_on_time(&stage);
    one_writer_at_a_time(&stage);
    second.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn a_standby_only_watches() {
    let stage = Stage::new(723);
    let instance = stage.group(2, 60).remove(0);
    let first = stage.lead("sundown-0", &[]).await;
    let second = stage.start("sundown-1", &[]);
    stage.pass(5).await;
    assert!(second.readiness.missing().is_empty(), "a standby is ready: {:?}", second.readiness);
    stage.world.aws.terminate(&instance, true);
    stage.pass(120).await;
    stage.completed_once(&instance);
    let calls: BTreeSet<_> = stage
        .world
        .aws
        .calls()
        .into_iter()
        .filter(|c| c.by == "sundown-1")
        .map(|c| c.api)
        .collect();
    assert_eq!(calls, BTreeSet::from(["sqs:GetQueueAttributes".to_owned()]));
    assert!(!writes(&stage).contains_key("sundown-1"));
    let asked = stage.world.aws.calls().into_iter().filter(|c| c.by == "sundown-1").count();
    assert!((4..=6).contains(&asked), "every 30 s: {asked}");
    first.stop().await;
    second.stop().await;
    stage.end();
}

/// A take-over after a partition lasts up to the lease duration and two seconds: 17 s. That is less
/// than half of a heartbeat timeout from 35 s on; of a hook with AWS's shortest, 30 s, it is more
/// than half, and what is left of its window after a beat that was due is 3 s.
#[tokio::test(start_paused = true)]
async fn a_stolen_lease_ends_all_writing_at_once() {
    let stage = Stage::new(74);
    let instance = stage.group(1, 60).remove(0);
    stage.slow_pod(&instance, "slow", 300);
    let first = stage.lead("sundown-0", &[]).await;
    stage.world.aws.terminate(&instance, true);
    stage.pass(40).await;
    let lease = stage.world.kube.object("leases", "kube-system", "sundown").unwrap();
    assert!(lease["spec"]["holderIdentity"].as_str().unwrap().starts_with("sundown"));
    stage
        .world
        .kube
        .edit("leases", "kube-system", "sundown", |l| l["spec"]["holderIdentity"] = "thief".into());
    stage.until(3, "the theft is noticed", || !first.metrics.leads()).await;
    let stolen = stage.clock.now();
    assert!(
        stage.in_queue() == 0
            && first.metric("drains_active") == 0.0
            && first.metric("open_actions") == 0.0
    );
    // The thief never renews: the lease is taken back after its duration, and the hook of a minute
    // has not lapsed.
    follow(&stage, 17, &first).await;
    let begun = stage.clock.now().minus(s(1));
    let between =
        writes(&stage)["sundown-0"].iter().filter(|at| **at > stolen && **at < begun).count();
    assert_eq!(between, 0);
    stage.until(350, "the action is completed", || stage.all_over()).await;
    stage.all_completed_once();
    first.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn c54_the_leader_on_a_draining_node_gives_the_lease_up_once_and_its_own_pod_goes_last() {
    let mut stage = Stage::new(54);
    let instances = stage.group(3, 300);
    let (here, there) = (stage.name_of(&instances[0]), stage.name_of(&instances[1]));
    stage.world.kube.add_deployment(&Workload::new("shop", "web", 6));
    for (n, node) in [&here, &there].into_iter().enumerate() {
        stage.world.kube.add_pod(&PodSpec::on(node, "sundown", format!("sundown-{n}")));
    }
    stage.environment("POD_NAMESPACE", "sundown");
    stage.environment("POD_NAME", "sundown-0");
    stage.environment("NODE_NAME", &here);
    let first = stage.lead("sundown-0", &[]).await;
    stage.environment("POD_NAME", "sundown-1");
    stage.environment("NODE_NAME", &there);
    let second = stage.start("sundown-1", &[]);
    stage.pass(10).await;
    stage.world.aws.terminate(&instances[0], true);
    follow(&stage, 10, &second).await;
    assert_eq!(first.metric("leader"), 0.0);
    stage.until(100, "the action is completed", || stage.is_over(&instances[0])).await;
    stage.all_completed_once();
    one_writer_at_a_time(&stage);
    assert_eq!(
        first.metric("leader_changes_total{role=\"leader\"}"),
        1.0,
        "given up once, never taken back"
    );
    first.kill();
    // Alone, on a node that drains: given up, taken back after five seconds, and its own pod goes
    // last.
    stage.world.aws.terminate(&instances[1], true);
    stage.until(5, "the lease is given up", || !second.metrics.leads()).await;
    follow(&stage, 10, &second).await;
    stage
        .until(60, "its own pod is asked to go", || {
            stage.removals().iter().any(|r| r.0 == "sundown-1")
        })
        .await;
    let removed = stage.removals();
    let on_its_node: Vec<_> = stage
        .deeds()
        .into_iter()
        .filter_map(|e| match e.fact {
            Fact::Evicted { pod, .. } if pod.node == there => Some(pod.name),
            _ => None,
        })
        .collect();
    assert_eq!(on_its_node.last().map(String::as_str), Some("sundown-1"), "{removed:?}");
    assert_eq!(second.metric("leader_changes_total{role=\"leader\"}"), 2.0);
    second.kill();
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn a_deadline_that_is_over_at_the_take_over_forces_nothing() {
    let stage = Stage::new(75);
    let instance = stage.spot_group(2).remove(0);
    // One goes and never ends; the other is not let go by its budget, and would have been forced a
    // minute after the notice.
    let shape = PodShape { grace: Some(s(600)), stuck: true, ..PodShape::default() };
    stage
        .world
        .kube
        .add_pod(&PodSpec::on(stage.name_of(&instance), "shop", "leaving").shape(shape));
    stage.blocked_pod(&instance, "blocked", 60);
    let first = stage.lead("sundown-0", &[]).await;
    stage.spot_warning(&instance, "spot-1");
    stage
        .until(20, "one of them is evicted", || stage.removals().iter().any(|r| r.0 == "leaving"))
        .await;
    first.kill();
    stage.pass(150).await;
    let pod = |name: &str| {
        stage.world.kube.object("pods", "shop", name).unwrap_or_else(|| panic!("{name} is gone"))
    };
    assert!(pod("leaving")["metadata"]["deletionTimestamp"].is_string());
    assert!(pod("blocked")["metadata"].get("deletionTimestamp").is_none());
    let before = stage.removals().len();
    let second = stage.lead("sundown-1", &[]).await;
    stage.pass(300).await;
    assert_eq!(second.drain(&stage.name_of(&instance)).unwrap().phase, "draining");
    assert_eq!(stage.removals().len(), before, "nothing is shortened or forced");
    assert!(
        pod("leaving")["metadata"]["deletionTimestamp"].is_string()
            && pod("blocked")["metadata"].get("deletionTimestamp").is_none()
    );
    // Nor is anything cut short that is let go now.
    assert!(stage.world.kube.delete("poddisruptionbudgets", "shop", "blocked"));
    stage.until(60, "it is evicted", || stage.removals().len() > before).await;
    assert_eq!(
        stage.removals().last().map(|r| (r.0.as_str(), r.1, r.2)),
        Some(("blocked", 60, false)),
        "with its own grace"
    );
    second.stop().await;
    stage.end();
}

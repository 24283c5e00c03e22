//! Pausing drains, and the release of one node: what people do with kubectl alone.

use sundown::{
    cluster::lease::{LeasePlace, set_paused},
    sim::{
        aws::SpotAction,
        kube::{Fault, Match, Rule as Fails},
    },
};

use super::gaps;
use crate::{harness::Stage, judge::Rule};

const PAUSE: &str = "sundown.dev/pause";
const RELEASE: &str = "sundown.dev/release";
const IGNORE: &str = "sundown.dev/ignore";

async fn pause(stage: &Stage, on: bool) {
    let place = LeasePlace { namespace: "kube-system".to_owned(), name: "sundown".to_owned() };
    assert!(set_paused(stage.world.kube.client_as("person"), &place, on).await.unwrap());
}

fn has_taint(stage: &Stage, instance: &str) -> bool {
    let node = stage.node(instance);
    node["spec"]["taints"]
        .as_array()
        .is_some_and(|t| t.iter().any(|t| t["key"] == "sundown.dev/interruption"))
}

#[tokio::test(start_paused = true)]
async fn paused_everything_is_accepted_and_kept_alive_and_nothing_is_evicted() {
    let stage = Stage::new(1_301);
    let hooked = stage.group(3, 60);
    let spot = stage.spot_group(1).remove(0);
    stage.slow_pod(&hooked[0], "slow", 20);
    stage.blocked_pod(&hooked[1], "blocked", 30);
    stage.slow_pod(&spot, "spot", 20);
    let sundown = stage.lead("sundown-0", &["--drain-timeout", "5m"]).await;
    pause(&stage, true).await;
    stage.until(5, "the pause is noticed", || sundown.metric("paused") == 1.0).await;
    hooked.iter().for_each(|i| stage.world.aws.terminate(i, true));
    stage.spot_warning(&spot, "spot-1");
    stage
        .until(5, "all are cordoned", || hooked.iter().chain([&spot]).all(|i| stage.is_cordoned(i)))
        .await;
    stage.until(5, "messages are deleted as ever", || stage.in_queue() == 0).await;
    // The third node is empty: it is completed.
    stage.until(15, "the empty node is completed", || stage.is_over(&hooked[2])).await;
    let ends = sundown.drain(&stage.name_of(&hooked[0])).unwrap().ends_at;
    assert!(ends.is_some(), "the deadline stands and is shown");
    // Far beyond all deadlines.
    stage.pass(600).await;
    assert_eq!(stage.removals(), [], "neither evicted nor forced");
    for instance in &hooked[..2] {
        let action = stage.action(instance);
        assert!(action.end.is_none(), "nor completed");
        assert!(gaps(&action).iter().all(|g| *g <= 30.5), "beats go on: {:?}", gaps(&action));
        assert_eq!(sundown.drain(&stage.name_of(instance)).unwrap().ends_at, ends);
    }
    pause(&stage, false).await;
    stage.until(5, "the drains go on", || stage.removals().len() >= 2).await;
    assert_eq!(sundown.metric("paused"), 0.0);
    // A take-up: deadlines that were over are void. The spot pod goes with its own grace, the
    // blocked one is not forced at once.
    let graces: Vec<_> =
        stage.removals().into_iter().filter(|r| r.0 == "spot").map(|r| r.1).collect();
    assert_eq!(graces, [4 * 3600]);
    stage.pass(120).await;
    assert!(stage.removals().iter().all(|r| r.0 != "blocked"), "{:?}", stage.removals());
    stage.until(200, "the new deadline forces", || stage.is_over(&hooked[1])).await;
    stage.until(5, "all are completed", || stage.all_over()).await;
    stage.all_completed_once();
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn one_node_can_be_paused_alone() {
    let stage = Stage::new(1_302);
    let instances = stage.group(2, 60);
    stage.slow_pod(&instances[0], "held", 10);
    stage.slow_pod(&instances[1], "free", 10);
    let sundown = stage.lead("sundown-0", &[]).await;
    stage.annotate(&instances[0], PAUSE, Some("true"));
    instances.iter().for_each(|i| stage.world.aws.terminate(i, true));
    stage.until(60, "the other is completed", || stage.is_over(&instances[1])).await;
    stage.pass(100).await;
    assert!(!stage.is_over(&instances[0]) && stage.is_cordoned(&instances[0]));
    assert!(stage.removals().iter().all(|r| r.0 == "free"));
    assert_eq!((sundown.metric("nodes_paused"), sundown.metric("paused")), (1.0, 0.0));
    stage.annotate(&instances[0], PAUSE, None);
    stage.until(3, "it is held no more", || sundown.metric("nodes_paused") == 0.0).await;
    stage.until(30, "it goes on", || stage.is_over(&instances[0])).await;
    stage.all_completed_once();
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn a_pause_lasts_through_a_change_of_leaders() {
    let stage = Stage::new(1_303);
    let instance = stage.group(1, 60).remove(0);
    stage.slow_pod(&instance, "slow", 10);
    let first = stage.lead("sundown-0", &[]).await;
    let second = stage.start("sundown-1", &[]);
    pause(&stage, true).await;
    stage.pass(3).await;
    stage.world.aws.terminate(&instance, true);
    stage.pass(20).await;
    first.kill();
    stage.until(17, "the standby leads", || second.metrics.leads()).await;
    stage.pass(120).await;
    assert_eq!(stage.removals(), []);
    assert_eq!(second.metric("paused"), 1.0);
    assert!(gaps(&stage.action(&instance)).iter().all(|g| *g < 60.0));
    pause(&stage, false).await;
    stage.until(30, "it goes on", || stage.is_over(&instance)).await;
    stage.all_completed_once();
    second.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn a_released_node_that_owed_a_hook_is_completed_and_stays_cordoned() {
    let stage = Stage::new(1_304);
    let instance = stage.group(1, 300).remove(0);
    stage.blocked_pod(&instance, "blocked", 30);
    let sundown = stage.lead("sundown-0", &[]).await;
    stage.world.aws.other_action("asg", "drain", &instance, &[]).unwrap();
    stage.pass(20).await;
    stage.annotate(&instance, RELEASE, Some("true"));
    stage.until(2, "the action is completed", || stage.is_over(&instance)).await;
    stage
        .until(2, "the record is released", || {
            stage.record(&instance).unwrap()["released"].is_object()
        })
        .await;
    stage.pass(60).await;
    assert!(stage.is_cordoned(&instance) && has_taint(&stage, &instance), "its instance goes now");
    assert!(
        stage.node(&instance)["metadata"]["annotations"].get(RELEASE).is_none(),
        "the order is consumed"
    );
    assert_eq!(stage.removals(), []);
    stage.all_completed_once();
    assert_eq!(sundown.metric("drains_total{end=\"released\"}"), 1.0);
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn any_other_released_node_is_put_back_as_it_was() {
    let stage = Stage::new(1_305);
    let instances = stage.spot_group(4);
    stage.blocked_pod(&instances[0], "blocked", 30);
    stage.blocked_pod(&instances[1], "blocked-too", 30);
    // The second was cordoned by somebody before.
    stage.world.kube.edit("nodes", "", &stage.name_of(&instances[1]), |n| {
        n["spec"]["unschedulable"] = true.into();
    });
    let sundown = stage.lead("sundown-0", &[]).await;
    for instance in &instances[..2] {
        stage.spot_warning(instance, &format!("spot-{instance}"));
    }
    stage
        .until(5, "they are cordoned", || {
            instances[..2].iter().all(|i| stage.is_cordoned(i) && has_taint(&stage, i))
        })
        .await;
    for instance in &instances[..2] {
        stage.annotate(instance, RELEASE, Some("true"));
    }
    stage
        .until(5, "they are put back", || instances[..2].iter().all(|i| !has_taint(&stage, i)))
        .await;
    assert!(!stage.is_cordoned(&instances[0]));
    assert!(stage.is_cordoned(&instances[1]), "somebody else's cordon stands");
    for instance in &instances[..2] {
        let node = stage.node(instance);
        assert!(
            node["metadata"]["labels"]
                .get("node.kubernetes.io/exclude-from-external-load-balancers")
                .is_none(),
            "{node}"
        );
        assert!(node["metadata"]["annotations"].get(RELEASE).is_none());
    }
    stage.pass(200).await;
    assert_eq!(stage.removals(), [], "nothing was evicted before or after");
    assert_eq!(sundown.metric("records_total{event=\"put_back\"}"), 2.0);
    sundown.stop().await;
    stage.end_except(&[Rule::AskedInTime], "a person releases the nodes");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_released_before_its_pods_are_listed_is_not_said_to_be_drained() {
    let stage = Stage::new(1_307);
    let instance = stage.spot_group(3).remove(0);
    stage.slow_pod(&instance, "slow", 10);
    let sundown = stage.lead("sundown-0", &[]).await;
    stage.world.kube.inject(Fails::always(Match::of("list", "pods"), Fault::Hang));
    stage.spot_warning(&instance, "spot");
    stage.until(5, "it is cordoned", || has_taint(&stage, &instance)).await;
    stage.annotate(&instance, RELEASE, Some("true"));
    stage.until(5, "it is put back", || !has_taint(&stage, &instance)).await;
    stage.pass(3).await;
    let said: Vec<_> = stage.events().into_iter().map(|event| event.reason).collect();
    assert!(
        said.contains(&"DrainEnded".to_owned()) && !said.contains(&"Drained".to_owned()),
        "{said:?}"
    );
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn a_spot_notice_of_a_paused_node_that_goes_is_over_with_its_machine() {
    let stage = Stage::new(1_306);
    let instance = stage.spot_group(2).remove(0);
    stage.slow_pod(&instance, "slow", 10);
    let sundown = stage.lead("sundown-0", &[]).await;
    stage.annotate(&instance, PAUSE, Some("true"));
    stage.world.aws.spot_interruption(&instance, SpotAction::Terminate);
    stage.pass(300).await;
    assert_eq!(stage.removals(), []);
    assert_eq!(sundown.metric("drains_active"), 0.0, "the machine is gone, and so is the drain");
    assert_eq!(stage.in_queue(), 0);
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn an_order_to_release_that_is_older_than_the_drain_ends_nothing() {
    let stage = Stage::new(1_307);
    let hooked = stage.group(2, 300).remove(0);
    let spot = stage.spot_group(2).remove(0);
    stage.slow_pod(&hooked, "hooked", 20);
    stage.slow_pod(&spot, "spot", 20);
    let sundown = stage.lead("sundown-0", &[]).await;
    for instance in [&hooked, &spot] {
        stage.annotate(instance, RELEASE, Some("true"));
    }
    stage.pass(10).await;
    stage.world.aws.terminate(&hooked, true);
    stage.spot_warning(&spot, "spot-1");
    stage
        .until(5, "both are accepted", || [&hooked, &spot].iter().all(|i| has_taint(&stage, i)))
        .await;
    for instance in [&hooked, &spot] {
        assert!(
            stage.node(instance)["metadata"]["annotations"].get(RELEASE).is_none(),
            "the accept removes it"
        );
    }
    stage.pass(15).await;
    assert!(!stage.is_over(&hooked), "nothing is completed before the node is empty");
    stage
        .until(60, "both are drained", || sundown.metric("drains_total{end=\"empty\"}") == 2.0)
        .await;
    stage.completed_once(&hooked);
    assert_eq!(stage.removals().len(), 2, "{:?}", stage.removals());
    assert_eq!(sundown.metric("drains_total{end=\"released\"}"), 0.0);
    sundown.stop().await;
    stage.end();
}

/// A drain of a hooked and a spot node, each with a pod that its budget holds.
async fn held_drains(stage: &Stage, sundown: &crate::harness::Replica) -> (String, String) {
    let hooked = stage.group(2, 300).remove(0);
    let spot = stage.spot_group(2).remove(0);
    stage.pass(2).await;
    stage.blocked_pod(&hooked, "blocked", 30);
    stage.blocked_pod(&spot, "blocked-too", 30);
    stage.pass(5).await;
    // The machines of both stay: what becomes of their Nodes can be seen.
    stage.world.aws.other_action("asg", "drain", &hooked, &[]).unwrap();
    stage.spot_warning(&spot, "spot-1");
    stage
        .until(5, "both are cordoned", || stage.is_cordoned(&hooked) && stage.is_cordoned(&spot))
        .await;
    stage.pass(5).await;
    assert_eq!(sundown.metric("drains_active"), 2.0);
    (hooked, spot)
}

/// Both drains ended as if they had been released by hand.
async fn both_are_let_go(
    stage: &Stage,
    sundown: &crate::harness::Replica,
    hooked: &str,
    spot: &str,
) {
    stage.until(3, "the hook is completed", || stage.is_over(hooked)).await;
    stage
        .until(3, "the other is put back", || !has_taint(stage, spot) && !stage.is_cordoned(spot))
        .await;
    stage
        .until(3, "both records say so", || {
            [hooked, spot].iter().all(|i| stage.record(i).unwrap()["released"].is_object())
        })
        .await;
    assert!(stage.is_cordoned(hooked), "its instance goes now");
    stage.completed_once(hooked);
    let events = || {
        stage
            .world
            .kube
            .objects("events")
            .iter()
            .filter(|e| e["reason"] == "NoLongerManaged")
            .count()
    };
    stage.until(5, "it is said", || events() == 2).await;
    assert_eq!(sundown.metric("drains_total{end=\"released\"}"), 2.0);
    let writes = || {
        stage
            .world
            .kube
            .requests()
            .iter()
            .filter(|r| r.verb == "patch" && r.resource == "nodes")
            .count()
    };
    let before = writes();
    stage.pass(300).await;
    assert_eq!((stage.removals().len(), writes()), (0, before), "and then they are left alone");
}

/// What is owed is completed although pods are left.
const LET_GO: [Rule; 1] = [Rule::NotTooEarly];

#[tokio::test(start_paused = true)]
async fn a_node_that_is_to_be_left_alone_in_the_middle_of_its_drain_is_let_go() {
    for key in ["annotation", "label"] {
        let stage = Stage::new(1_308);
        let sundown = stage.lead("sundown-0", &[]).await;
        let (hooked, spot) = held_drains(&stage, &sundown).await;
        for instance in [&hooked, &spot] {
            if key == "annotation" {
                stage.annotate(instance, IGNORE, Some("true"));
            } else {
                let node = stage.name_of(instance);
                stage.world.kube.edit("nodes", "", &node, |n| {
                    n["metadata"]["labels"]["karpenter.sh/nodepool"] = "general".into();
                });
            }
        }
        both_are_let_go(&stage, &sundown, &hooked, &spot).await;
        sundown.stop().await;
        stage.end_except(
            &LET_GO,
            "somebody told Sundown to leave the nodes alone while it drained them",
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_to_be_left_alone_since_its_accept_is_let_go_by_the_next_leader() {
    let stage = Stage::new(1_309);
    let first = stage.lead("sundown-0", &[]).await;
    let (hooked, spot) = held_drains(&stage, &first).await;
    first.kill();
    for instance in [&hooked, &spot] {
        stage.annotate(instance, IGNORE, Some("true"));
    }
    stage.pass(5).await;
    let second = stage.lead("sundown-1", &[]).await;
    both_are_let_go(&stage, &second, &hooked, &spot).await;
    second.stop().await;
    stage.end_except(
        &LET_GO,
        "somebody told Sundown to leave the nodes alone while it drained them",
    );
}

/// Two Sundowns may share a cluster, each with its own nodes: what another has accepted is not ours
/// to complete.
#[tokio::test(start_paused = true)]
async fn an_open_record_of_a_node_that_was_never_ours_is_not_touched_at_a_take_over() {
    let stage = Stage::new(1_310);
    let first = stage.lead("sundown-0", &[]).await;
    let (hooked, spot) = held_drains(&stage, &first).await;
    first.kill();
    stage.pass(5).await;
    let other = stage.lead("other-0", &["--node-selector", "pool=other"]).await;
    stage.pass(60).await;
    assert!(!stage.is_over(&hooked) && has_taint(&stage, &spot));
    assert_eq!(other.metric("drains_active"), 0.0);
    other.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn deleting_the_lease_does_not_end_the_pause() {
    let stage = Stage::new(1_311);
    let instance = stage.group(2, 300).remove(0);
    stage.slow_pod(&instance, "slow", 10);
    let first = stage.lead("sundown-0", &[]).await;
    let second = stage.start("sundown-1", &[]);
    pause(&stage, true).await;
    stage.pass(5).await;
    stage.world.aws.terminate(&instance, true);
    stage.pass(10).await;
    for round in 0..2 {
        if round == 1 {
            // Nobody is there to write it again at once: the standby does when it leads.
            first.end();
        }
        assert!(stage.world.kube.delete("leases", "kube-system", "sundown"));
        let is_paused = || {
            let lease = stage.world.kube.object("leases", "kube-system", "sundown");
            lease.is_some_and(|l| l["metadata"]["annotations"][PAUSE] == "true")
        };
        stage.until(40, "the annotation is back", is_paused).await;
        stage.pass(30).await;
        assert_eq!(stage.removals(), []);
    }
    stage.until(20, "the standby leads", || second.metrics.leads()).await;
    assert_eq!(second.metric("paused"), 1.0);
    pause(&stage, false).await;
    stage.until(60, "it goes on", || stage.is_over(&instance)).await;
    stage.all_completed_once();
    second.stop().await;
    stage.end();
}

/// The Events of an instance's Node with this reason: their messages, and how often each was said.
fn told(stage: &Stage, instance: &str, reason: &str) -> Vec<(String, u64)> {
    let name = stage.name_of(instance);
    let events = stage
        .world
        .kube
        .objects("events")
        .into_iter()
        .filter(|e| e["involvedObject"]["name"] == name.as_str() && e["reason"] == reason);
    events
        .map(|e| (e["message"].as_str().unwrap().to_owned(), e["count"].as_u64().unwrap()))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_pause_and_its_end_are_told_on_the_node_which_is_not_called_draining_meanwhile() {
    let stage = Stage::new(1_330);
    let hooked = stage.group(3, 300);
    for (instance, pod) in hooked.iter().zip(["before", "meanwhile"]) {
        stage.slow_pod(instance, pod, 3600);
    }
    let sundown = stage.lead("sundown-0", &["--drain-timeout", "2h"]).await;
    stage.world.aws.terminate(&hooked[0], true);
    stage.until(5, "one is cordoned", || stage.is_cordoned(&hooked[0])).await;
    stage.pass(5).await;
    assert_eq!(told(&stage, &hooked[0], "Paused"), []);
    pause(&stage, true).await;
    stage.until(5, "the pause is noticed", || sundown.metric("paused") == 1.0).await;
    stage.world.aws.terminate(&hooked[1], true);
    stage.until(5, "the other is cordoned", || stage.is_cordoned(&hooked[1])).await;
    stage.pass(5).await;
    for instance in &hooked[..2] {
        let paused = told(&stage, instance, "Paused");
        assert!(
            paused.len() == 1
                && paused[0].0.contains("`sundown resume` ends the pause")
                && paused[0].1 == 1,
            "{paused:?}"
        );
    }
    let accepted = |n: usize| told(&stage, &hooked[n], "InterruptionAccepted").remove(0).0;
    assert!(
        accepted(0).ends_with("cordoned, draining")
            && accepted(1).ends_with("its drain waits, because it is paused"),
        "{}",
        accepted(1)
    );
    pause(&stage, false).await;
    stage
        .until(5, "the end of the pause is told", || {
            hooked[..2].iter().all(|i| told(&stage, i, "Resumed").len() == 1)
        })
        .await;
    stage.annotate(&hooked[0], PAUSE, Some("true"));
    stage
        .until(5, "the pause of one is told", || told(&stage, &hooked[0], "Paused").len() == 2)
        .await;
    let alone = format!("`sundown resume {}` ends the pause", stage.name_of(&hooked[0]));
    assert!(told(&stage, &hooked[0], "Paused").iter().any(|(message, _)| message.contains(&alone)));
    assert_eq!(told(&stage, &hooked[1], "Paused").len(), 1, "the others were not paused again");
    sundown.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_whose_pod_is_blocked_for_long_says_so_now_and_then_and_that_its_hook_is_kept_open()
{
    let stage = Stage::new(1_331);
    let instance = stage.group(2, 120).remove(0);
    stage.blocked_pod(&instance, "blocked", 30);
    let sundown = stage.lead("sundown-0", &["--drain-timeout", "2h"]).await;
    stage.world.aws.terminate(&instance, true);
    stage.until(5, "it is cordoned", || stage.is_cordoned(&instance)).await;
    stage.pass(25).await;
    assert_eq!(
        (told(&stage, &instance, "Blocked"), told(&stage, &instance, "HookKeptOpen")),
        (vec![], vec![])
    );
    stage.pass(15).await;
    let blocked = told(&stage, &instance, "Blocked");
    assert!(
        blocked.len() == 1
            && blocked[0].0.starts_with("1 pod is blocked: ")
            && blocked[0].0.contains("blocked (pdb "),
        "{blocked:?}"
    );
    assert!(
        blocked[0].0.contains("Blocked pods are deleted by force from ")
            && blocked[0].0.contains("The drain ends at "),
        "{blocked:?}"
    );
    stage.pass(3600).await;
    let times =
        |reason: &str| told(&stage, &instance, reason).iter().map(|(_, count)| count).sum::<u64>();
    assert!(
        (6..=8).contains(&times("Blocked")),
        "every nine minutes: {:?}",
        told(&stage, &instance, "Blocked")
    );
    assert!(
        (5..=8).contains(&times("HookKeptOpen")),
        "{:?}",
        told(&stage, &instance, "HookKeptOpen")
    );
    assert_eq!(told(&stage, &instance, "HookKeptOpen").len(), 1, "counted up on one Event");
    let name = format!("{}/", stage.action(&instance).group);
    assert!(told(&stage, &instance, "HookKeptOpen")[0].0.contains(&name));
    sundown.stop().await;
}

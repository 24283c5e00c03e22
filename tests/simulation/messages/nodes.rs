//! Which Node an interruption is about, and which Nodes are never written to.

use sundown::sim::{
    aws::{GroupSpec, InstanceSpec},
    kube::{Fact, NodeSpec, PodSpec},
};

use super::{bodies, tools::continuing_hook};
use crate::{
    harness::{Replica, Stage},
    judge::Rule,
};

#[tokio::test(start_paused = true)]
async fn c36_nodes_of_other_provisioners_and_ignored_ones_are_never_written_to() {
    let stage = Stage::new(60);
    let instances = stage.group(4, 300);
    stage.shop(8);
    let url = stage.queue_for("in", [sundown::sim::aws::EventKind::TerminateAction]);
    let marks = [
        ("labels", "karpenter.sh/nodepool", "default"),
        ("labels", "eks.amazonaws.com/compute-type", "auto"),
        ("annotations", "sundown.dev/ignore", "true"),
    ];
    let sundown = stage.settled(&["--queue-url", &url]).await;
    for (instance, (map, key, value)) in instances.iter().zip(marks) {
        let node = stage.world.node_of(instance).unwrap();
        stage.world.kube.edit("nodes", "", &node, |n| n["metadata"][map][key] = value.into());
    }
    stage.pass(1).await;
    for instance in &instances[..3] {
        stage.world.aws.terminate(instance, true);
        stage.world.aws.send_event("in", &bodies::spot(instance, &stage.now()));
        stage
            .world
            .aws
            .send_event("in", &bodies::state_change(instance, "terminated", &stage.now()));
    }
    stage.until(10, "all are deleted", || stage.bodies_in("in").is_empty()).await;
    stage.pass(250).await;
    for kind in ["terminate-hook", "spot", "state-change"] {
        assert_eq!(sundown.messages(kind, "not_managed"), 3.0, "{kind}");
    }
    for instance in &instances[..3] {
        stage.assert_untouched(&stage.world.node_of(instance).unwrap());
        assert_eq!(stage.hook_calls(instance), 0);
    }
    assert!(stage.removals().is_empty());
    assert_eq!(stage.describes(), 0);
    sundown.stop().await;
    stage.end_except(
        &[Rule::Messages, Rule::AskedInTime, Rule::AcceptedInTime],
        "nodes of one group are told apart by what they wear",
    );
}

#[tokio::test(start_paused = true)]
async fn a_node_selector_says_which_nodes_are_ours() {
    let stage = Stage::new(61);
    let blue = stage.node_of_shape("blue", |n, _| {
        n.label("pool", "blue").label("karpenter.sh/nodepool", "default")
    });
    let other = stage.node_of_shape("other", |n, _| n);
    let sundown = stage.settled(&["--node-selector", "pool in (blue,green)"]).await;
    stage.send(&bodies::spot(&blue, &stage.now()));
    stage.send(&bodies::spot(&other, &stage.now()));
    stage.until(10, "ours is cordoned", || stage.is_cordoned(&blue)).await;
    stage.until(10, "both are deleted", || stage.in_queue() == 0).await;
    assert_eq!(
        (sundown.messages("spot", "accepted"), sundown.messages("spot", "not_managed")),
        (1.0, 1.0)
    );
    stage.assert_untouched("other");
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn c37_a_managed_tag_is_asked_for_only_where_it_is_wanted_in_batches_and_cached() {
    let stage = Stage::new(62);
    let mut spec = GroupSpec { replace_after: None, ..GroupSpec::new("tagged", 40) };
    spec.template.tags.insert("drain/me".to_owned(), String::new());
    let tagged = stage.world.add_group(spec, &[]);
    // On the group and not propagated: it counts for nothing while the instance's own tags can be
    // read.
    let untagged = stage.world.add_group(
        GroupSpec { replace_after: None, ..GroupSpec::new("untagged", 40) }.tag("drain/me", ""),
        &[],
    );
    let sundown = stage.settled(&["--managed-tag", "drain/me"]).await;
    for instance in tagged.iter().chain(&untagged) {
        stage.send(&bodies::spot(instance, &stage.now()));
    }
    stage.until(20, "all are decided", || stage.in_queue() == 0).await;
    assert_eq!(
        (sundown.messages("spot", "accepted"), sundown.messages("spot", "not_managed")),
        (40.0, 40.0)
    );
    assert!(tagged.iter().all(|i| stage.is_cordoned(i)));
    for instance in &untagged {
        stage.assert_untouched(&stage.world.node_of(instance).unwrap());
    }
    assert!(stage.describes() <= 4, "{} calls about 80 instances", stage.describes());
    let before = stage.describes();
    stage.send(&bodies::spot(&untagged[0], &stage.ago(1)));
    stage.until(10, "it is decided", || stage.in_queue() == 0).await;
    assert_eq!(stage.describes(), before, "from the cache");
    sundown.stop().await;
    stage.end_except(&[Rule::Messages], "a flag makes instances foreign");
}

#[tokio::test(start_paused = true)]
async fn c37_without_the_flag_no_tag_is_asked_for() {
    let stage = Stage::new(63);
    let instances = stage.spot_group(2);
    let sundown = stage.settled(&[]).await;
    stage.send(&bodies::spot(&instances[0], &stage.now()));
    stage.until(10, "it is accepted", || stage.is_cordoned(&instances[0])).await;
    assert_eq!(stage.describes(), 0);
    assert_eq!(sundown.messages("spot", "accepted"), 1.0);
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn a_managed_tag_that_is_missing_keeps_a_hook_from_being_touched() {
    let stage = Stage::new(64);
    let instances = stage.group(3, 300);
    let sundown = stage.settled(&["--managed-tag", "drain/me"]).await;
    stage.world.aws.terminate(&instances[0], true);
    stage.until(10, "it is deleted", || stage.in_queue() == 0).await;
    assert_eq!(sundown.messages("terminate-hook", "not_managed"), 1.0);
    stage.pass(200).await;
    assert_eq!(stage.hook_calls(&instances[0]), 0);
    stage.assert_untouched(&stage.world.node_of(&instances[0]).unwrap());
    sundown.stop().await;
    stage.end_except(&[Rule::Messages], "a flag makes the instance foreign");
}

fn cordoned(stage: &Stage, node: &str) -> bool {
    stage.world.kube.object("nodes", "", node).is_some_and(|n| n["spec"]["unschedulable"] == true)
}

async fn evicted_from(stage: &Stage, sundown: &Replica, node: &str) {
    stage.until(100, "its pods are evicted", || stage.world.kube.pods_on(node).is_empty()).await;
    assert!(sundown.drain(node).is_some());
}

#[tokio::test(start_paused = true)]
async fn a_node_without_a_provider_id_is_found_by_its_private_dns_name_in_batches() {
    let stage = Stage::new(65);
    let mut nodes = Vec::new();
    for _ in 0..30 {
        let id = stage.lone_instance(stage.instance_of_ours());
        let name = stage.world.aws.instance(&id).unwrap().private_dns;
        stage.world.kube.add_node(&NodeSpec {
            provider_id: Some(String::new()),
            ..NodeSpec::named(name.clone()).instance(id.clone())
        });
        stage.world.kube.add_pod(&PodSpec::on(name.clone(), "shop", format!("pod-{name}")));
        nodes.push((id, name));
    }
    let sundown = stage.settled(&[]).await;
    for (id, _) in &nodes[..25] {
        stage.send(&bodies::spot(id, &stage.now()));
    }
    stage
        .until(10, "they are cordoned", || nodes[..25].iter().all(|(_, n)| cordoned(&stage, n)))
        .await;
    assert_eq!(sundown.messages("spot", "accepted"), 25.0);
    assert!(stage.describes() <= 4, "{} calls about 25 instances", stage.describes());
    evicted_from(&stage, &sundown, &nodes[0].1).await;
    nodes[25..].iter().for_each(|(_, name)| stage.assert_untouched(name));
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn a_hook_of_a_node_without_a_provider_id_is_kept_alive_and_completed() {
    let stage = Stage::new(66);
    let instances = stage.group_without_nodes("asg", 2, 86_400, &[continuing_hook("drain", 60)]);
    let name = stage.world.aws.instance(&instances[0]).unwrap().private_dns;
    stage.world.kube.add_node(&NodeSpec {
        provider_id: Some(String::new()),
        ..NodeSpec::named(name.clone()).instance(instances[0].clone())
    });
    stage.world.kube.add_pod(&PodSpec::on(name.clone(), "shop", "slow").shape(
        sundown::sim::kube::PodShape {
            grace: Some(std::time::Duration::from_secs(200)),
            stop: Some(std::time::Duration::from_secs(150)),
            ..Default::default()
        },
    ));
    let sundown = stage.settled(&[]).await;
    stage.world.aws.terminate(&instances[0], true);
    stage.until(10, "it is cordoned", || cordoned(&stage, &name)).await;
    stage.until(250, "it is completed", || stage.actions(&instances[0])[0].end.is_some()).await;
    let action = &stage.actions(&instances[0])[0];
    assert!(
        action.heartbeats.len() >= 4 && !action.end.as_ref().unwrap().by.is_empty(),
        "{action:?}"
    );
    assert!(
        action.end.as_ref().unwrap().at.duration_since(action.started)
            > jiff::SignedDuration::from_secs(150),
        "not before the pod was gone"
    );
    assert_eq!(sundown.metric("completions_total{result=\"accepted\"}"), 1.0);
    sundown.stop().await;
    stage.end_except(
        &[Rule::Messages],
        "what is written on such a Node is not told by its providerID",
    );
}

#[tokio::test(start_paused = true)]
async fn c34_c35_c40_nodes_are_found_whatever_they_are_called_and_however_the_provider_id_is_written()
 {
    let stage = Stage::new(67);
    let spec = InstanceSpec { private_dns: Some(String::new()), ..stage.instance_of_ours() };
    let mut nodes = Vec::new();
    for (name, provider) in [
        ("custom", "aws:///eu-west-1a/"),
        ("short", "aws://"),
        ("bare", "aws:///"),
        ("id", "aws:///eu-west-1b/"),
    ] {
        let id = stage.lone_instance(spec.clone());
        let name = if name == "id" { id.clone() } else { name.to_owned() };
        stage.world.kube.add_node(&NodeSpec {
            provider_id: Some(format!("{provider}{id}")),
            ..NodeSpec::named(name.clone()).instance(id.clone())
        });
        nodes.push((id, name));
    }
    // Called by its instance id, without a providerID.
    let id = stage.lone_instance(spec);
    stage.world.kube.add_node(&NodeSpec {
        provider_id: Some(String::new()),
        ..NodeSpec::named(id.clone()).instance(id.clone())
    });
    let sundown = stage.settled(&[]).await;
    for (id, _) in &nodes {
        stage.send(&bodies::spot(id, &stage.now()));
    }
    stage
        .until(10, "all are cordoned", || nodes.iter().all(|(_, name)| cordoned(&stage, name)))
        .await;
    assert_eq!(stage.describes(), 0, "nothing is asked about them");
    stage.send(&bodies::spot(&id, &stage.now()));
    stage.until(10, "the one without providerID is cordoned", || cordoned(&stage, &id)).await;
    assert_eq!(sundown.messages("spot", "accepted"), 5.0);
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn c39_a_new_instance_under_an_old_name_is_never_drained_for_the_old_one() {
    let stage = Stage::new(68);
    let old = stage.node_of_shape("worker", |n, _| n);
    let sundown = stage.settled(&[]).await;
    // A new machine has joined under the name of the old one; then the old one's warning and its
    // end are read.
    let new = stage.node_of_shape("worker", |n, _| n);
    stage.world.kube.add_pod(&PodSpec::on("worker", "shop", "web"));
    stage.pass(2).await;
    stage.send(&bodies::spot(&old, &stage.now()));
    stage.send(&bodies::state_change(&old, "terminated", &stage.now()));
    stage.world.aws.terminate_in_ec2(&old);
    stage.until(400, "they are deleted", || stage.in_queue() == 0).await;
    stage.assert_untouched("worker");
    assert_eq!(sundown.messages("spot", "accepted"), 0.0);
    assert!(stage.removals().is_empty());
    stage.send(&bodies::spot(&new, &stage.now()));
    stage.until(10, "its own warning counts", || cordoned(&stage, "worker")).await;
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn c39_a_new_instance_that_joins_under_the_name_in_mid_drain_is_not_drained() {
    let stage = Stage::new(69);
    let old =
        stage.group_without_nodes("asg", 2, 86_400, &[continuing_hook("drain", 300)]).remove(0);
    stage.world.kube.add_node(&NodeSpec::named("worker").instance(old.clone()));
    let slow = sundown::sim::kube::PodShape {
        grace: Some(std::time::Duration::from_secs(600)),
        stuck: true,
        ..Default::default()
    };
    stage.world.kube.add_pod(&PodSpec::on("worker", "shop", "slow").shape(slow));
    let sundown = stage.settled(&[]).await;
    stage.world.aws.terminate(&old, true);
    stage.until(10, "it is cordoned", || cordoned(&stage, "worker")).await;
    stage.pass(20).await;
    let new = stage.node_of_shape("worker", |n, _| n);
    stage.world.kube.add_pod(&PodSpec::on("worker", "shop", "fresh"));
    stage
        .until(30, "the old one's hook is completed", || stage.actions(&old)[0].end.is_some())
        .await;
    stage.pass(120).await;
    assert!(!cordoned(&stage, "worker"));
    assert_eq!(stage.world.node_of(&new).as_deref(), Some("worker"));
    let fresh = |f: &Fact| {
        matches!(
            f, Fact::Evicted { pod, .. } | Fact::Deleted { pod, .. } if pod.name == "fresh"
        )
    };
    assert!(!stage.deeds().iter().any(|e| fresh(&e.fact)), "its pods stay");
    sundown.stop().await;
    stage.end();
}

#[tokio::test(start_paused = true)]
async fn c39_of_two_nodes_of_one_instance_the_living_one_is_drained() {
    let stage = Stage::new(70);
    let id = stage.node_of_shape("left-behind", |n, _| n);
    stage.pass(60).await;
    stage.world.kube.kubelet_lost("left-behind");
    stage.pass(100).await;
    stage.world.kube.add_node(&NodeSpec::named("living").instance(id.clone()));
    let sundown = stage.settled(&[]).await;
    stage.send(&bodies::spot(&id, &stage.now()));
    stage.until(10, "the living one is cordoned", || cordoned(&stage, "living")).await;
    stage.until(10, "the message is deleted", || stage.in_queue() == 0).await;
    stage.assert_untouched("left-behind");
    assert_eq!(sundown.messages("spot", "accepted"), 1.0);
    sundown.stop().await;
    stage.end();
}

//! Nodes of instances that boot again.
#![allow(clippy::indexing_slicing, reason = "what is not there fails the test")]

use super::*;
use crate::{
    domain::Moment,
    sim::aws::{LifecycleState, PoolState},
};

/// A world with a group `g` of one instance, and this instance.
fn with_group(keeps_nodes: bool) -> (World, Spawner, String) {
    let spawner = Spawner::new();
    let mut settings = WorldSettings::seeded(7);
    if keeps_nodes {
        settings.kube.timing.node_deletion = None;
    }
    let world = World::start(settings, Clock::starting_at(Moment::UNIX_EPOCH), &spawner);
    let spec = GroupSpec { replace_after: None, ..GroupSpec::new("g", 1) };
    let instance = world.add_group(spec, &[]).remove(0);
    (world, spawner, instance)
}

async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

impl World {
    /// Whether the Node is Ready, and its boot ID. `None`: there is no Node.
    fn node_now(&self, instance: &str) -> Option<(bool, String)> {
        let node = self.kube.object("nodes", "", &self.node_of(instance)?)?;
        let conditions = node["status"]["conditions"].as_array()?;
        let ready = conditions.iter().any(|c| c["type"] == "Ready" && c["status"] == "True");
        Some((ready, node["status"]["nodeInfo"]["bootID"].as_str()?.to_owned()))
    }

    fn lifecycle_state(&self, instance: &str) -> Option<LifecycleState> {
        self.aws.members("g").into_iter().find(|m| m.instance == instance).map(|m| m.state)
    }

    /// The instance goes into a warm pool, and out of it again a while later.
    async fn through_pool(&self, instance: &str, pool_state: PoolState) {
        self.aws.put_warm_pool_with_state("g", pool_state);
        self.aws.scale_in_to_warm_pool(instance);
        pass(120).await;
        assert_ne!(self.node_now(instance).map(|(ready, _)| ready), Some(true), "it is off");
        self.aws.scale_out_from_warm_pool(instance);
        pass(30).await;
        assert_eq!(self.lifecycle_state(instance), Some(LifecycleState::InService));
        pass(30).await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_node_of_an_instance_that_was_stopped_in_a_pool_boots_again() {
    let (world, _spawner, instance) = with_group(true);
    let (_, before) = world.node_now(&instance).unwrap();
    world.through_pool(&instance, PoolState::Stopped).await;
    let (ready, after) = world.node_now(&instance).unwrap();
    assert!(ready && after != before);
}

#[tokio::test(start_paused = true)]
async fn the_node_of_an_instance_that_was_hibernated_in_a_pool_has_the_same_boot_id() {
    let (world, _spawner, instance) = with_group(true);
    let (_, before) = world.node_now(&instance).unwrap();
    world.through_pool(&instance, PoolState::Hibernated).await;
    assert_eq!(world.node_now(&instance), Some((true, before)));
}

#[tokio::test(start_paused = true)]
async fn a_node_that_was_deleted_while_its_instance_was_in_a_pool_registers_again() {
    let (world, _spawner, instance) = with_group(false);
    let (_, before) = world.node_now(&instance).unwrap();
    world.through_pool(&instance, PoolState::Stopped).await;
    let (ready, after) = world.node_now(&instance).unwrap();
    assert!(ready && after != before);
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_is_launched_into_a_pool_becomes_a_node_when_it_is_launched_from_there() {
    let (world, _spawner, _) = with_group(true);
    world.aws.put_warm_pool_with_state("g", PoolState::Stopped);
    let instance = world.aws.launch_into_warm_pool("g").unwrap();
    pass(120).await;
    assert_eq!(world.node_now(&instance), None, "it was stopped before it could register");
    assert_eq!(world.lifecycle_state(&instance), Some(LifecycleState::WarmedStopped));
    world.aws.scale_out_from_warm_pool(&instance);
    pass(60).await;
    assert_eq!(world.node_now(&instance).map(|(ready, _)| ready), Some(true));
}

#[tokio::test(start_paused = true)]
async fn the_node_of_an_instance_with_a_new_root_volume_has_a_new_boot_id() {
    let (world, _spawner, instance) = with_group(true);
    let (_, before) = world.node_now(&instance).unwrap();
    world.aws.replace_root_volume(&instance);
    pass(24).await;
    assert_eq!(world.node_now(&instance), Some((true, before.clone())));
    pass(60).await;
    assert_eq!(world.lifecycle_state(&instance), Some(LifecycleState::InService));
    let (ready, after) = world.node_now(&instance).unwrap();
    assert!(ready && after != before);
}

//! Nodes that are deleted or tainted too early, or not at all.

use sundown::sim::{WorldSettings, kube::NodeState};

use super::*;

const WRONG: &str = "--delete-node: ";
const TERMINATED: &str = "--delete-node: its instance is not terminated";
const READY: &str = "--delete-node: it is Ready";
const LEFT: &str = "it was to be deleted";

/// A cluster without a cloud controller manager: Sundown taints the Node of an instance that is gone,
/// and deletes it.
async fn deleted() -> Evidence {
    let mut settings = WorldSettings::seeded(2_510);
    settings.kube.timing.node_deletion = None;
    let stage = Stage::with(settings);
    let instance = stage.group(2, 60).remove(0);
    let node = stage.world.node_of(&instance).unwrap();
    let sundown = led(&stage, &["--delete-node", "--out-of-service-taint"]).await;
    stage.world.aws.terminate(&instance, true);
    let is_gone = || stage.world.kube.object("nodes", "", &node).is_none();
    stage.until(300, "it is deleted", is_gone).await;
    stage.pass(150).await;
    ended(stage, sundown).await
}

/// Changes each state of the Node that was deleted.
fn edit_states(evidence: &mut Evidence, change: impl Fn(&mut NodeState)) {
    let gone = evidence.entries.iter().find_map(|entry| match &entry.fact {
        Fact::NodeGone(name) => Some(name.clone()),
        _ => None,
    });
    for entry in &mut evidence.entries {
        if let Fact::NodeChanged(state) = &mut entry.fact
            && Some(&state.name) == gone.as_ref()
        {
            change(state);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_deleted_before_its_instance_is_gone_or_without_the_flag_is_seen() {
    let evidence = deleted().await;
    keeps(&judge(&evidence), WRONG, "its instance was terminated");
    let mut early = evidence.clone();
    early.entries.retain(|entry| !matches!(entry.fact, Fact::MachineGone(_)));
    breaks(&judge(&early), TERMINATED);
    let mut ready = evidence.clone();
    edit_states(&mut ready, |state| state.ready = "True".to_owned());
    breaks(&judge(&ready), READY);
    for flag in ["--delete-node", "--out-of-service-taint"] {
        let mut without = evidence.clone();
        without.terms.flags[0].1.retain(|of| of != flag);
        breaks(&judge(&without), &format!("{flag}: the flag is not set"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_not_deleted_is_seen() {
    let mut evidence = deleted().await;
    keeps(&judge(&evidence), LEFT, "it was deleted");
    evidence.entries.retain(|entry| !matches!(entry.fact, Fact::NodeGone(_)));
    breaks(&judge(&evidence), LEFT);
}

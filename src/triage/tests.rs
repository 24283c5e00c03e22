//! Each row of the table has a test, whose name is the rule.

#![allow(
    clippy::unnecessary_wraps,
    reason = "the helpers return values for fields that are options"
)]

mod claims;
mod hook_claims;
mod impaired;
mod launch;
mod model;
mod nodes;
mod planned;
mod properties;
mod responses;
mod stale;
mod sweep;
mod unknown;

use std::{collections::BTreeMap, sync::Arc};

use super::*;
use crate::domain::{
    Cause, GroupName, HookAction, HookDescription, HookName, HookPurpose, HookResult, IGNORE,
    InstanceFacts, InstanceId, InstanceState, Interruption, Moment, Node, PoolEnd, Ready,
    SpotAction, Transition, seconds,
};

const INSTANCE: &str = "i-1234567890abcdef0";
const OTHER: &str = "i-0fedcba0987654321";
const CLUSTER: &str = "prod";
const DNS: &str = "ip-10-0-0-1.eu-west-1.compute.internal";

fn now() -> Moment {
    "2026-03-04T05:06:07Z".parse().unwrap()
}

fn id(text: &str) -> InstanceId {
    text.parse().unwrap()
}

fn tags(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
}

fn ours() -> BTreeMap<String, String> {
    tags(&[("kubernetes.io/cluster/prod", "owned")])
}

fn theirs() -> BTreeMap<String, String> {
    tags(&[("kubernetes.io/cluster/test", "owned")])
}

fn action(hook: &str) -> HookAction {
    HookAction {
        group: "my-asg".into(),
        hook: hook.into(),
        token: Some("t".into()),
        origin: None,
        destination: None,
        purpose: HookPurpose::Ordinary,
        metadata: None,
    }
}

fn interruption(cause: Cause) -> Interruption {
    Interruption { instance: id(INSTANCE), event_id: "e".to_owned(), time: None, cause }
}

fn terminate() -> Interruption {
    interruption(Cause::Terminate(action("my-hook")))
}

fn launch() -> Interruption {
    interruption(Cause::Launch(action("my-hook")))
}

fn spot() -> Interruption {
    interruption(Cause::Spot(SpotAction::Terminate))
}

fn state_change(state: InstanceState) -> Interruption {
    interruption(Cause::StateChange(state))
}

/// The kinds that a Node is drained for.
fn draining() -> [Interruption; 5] {
    [
        terminate(),
        spot(),
        interruption(Cause::CapacityReservation { ends: None }),
        interruption(Cause::CapacityBlock { ends: None }),
        state_change(InstanceState::ShuttingDown),
    ]
}

fn node(name: &str, instance: Option<&str>) -> Node {
    Node { instance: instance.map(id), dns: Some(DNS.to_owned()), ..Node::for_test(name) }
}

fn our_node() -> Arc<Node> {
    Arc::new(node("n", Some(INSTANCE)))
}

fn facts(state: InstanceState, tags: BTreeMap<String, String>) -> InstanceFacts {
    InstanceFacts {
        id: id(INSTANCE),
        state,
        launched: Some(now().minus(seconds(3600))),
        private_dns: None,
        private_address: None,
        tags,
    }
}

fn answer(facts: Option<InstanceFacts>) -> Option<InstanceAnswer> {
    Some(InstanceAnswer { at: now(), facts })
}

/// The hooks of `my-asg`. None of their names starts with `sundown`.
fn described() -> Option<HooksAnswer> {
    Some(HooksAnswer::Described([("my-hook".into(), Transition::Terminating)].into()))
}

/// The interruption was received when it happened, the index can be trusted, and the group's hooks
/// are described.
fn fresh() -> Knowledge {
    Knowledge { index_trusted: true, hooks: described(), ..Knowledge::new(now(), now()) }
}

/// The same, with the Node in the index.
fn with_node() -> Knowledge {
    Knowledge { nodes: vec![our_node()], ..fresh() }
}

/// The same, with an interruption of this age in seconds.
fn aged(age: u64) -> Knowledge {
    Knowledge { happened: now().minus(seconds(age)), ..with_node() }
}

fn policy() -> Policy {
    Policy {
        cluster_name: Some(CLUSTER.to_owned()),
        ..Policy::new(
            "!karpenter.sh/nodepool,eks.amazonaws.com/compute-type!=auto".parse().unwrap(),
        )
    }
}

fn nameless() -> Policy {
    Policy { cluster_name: None, ..policy() }
}

fn shared(policy: Policy) -> Policy {
    Policy { shared_queue: true, ..policy }
}

fn with_hooks(globs: &[&str]) -> Policy {
    Policy { hooks: HookGlobs::new(globs).unwrap(), ..policy() }
}

fn tagged(key: &str) -> Policy {
    Policy { managed_tag: Some(key.to_owned()), ..policy() }
}

fn verdict(i: &Interruption, known: &Knowledge, policy: &Policy) -> Verdict {
    triage(i, known, policy, now())
}

/// The Node's name and the certainty of an accepted interruption.
fn accepted(v: Verdict) -> (String, Certainty) {
    match v {
        Verdict::Accept(a) => (a.node.name.to_string(), a.certainty),
        other => panic!("{other:?}"),
    }
}

fn waits(v: Verdict) -> Wait {
    match v {
        Verdict::Wait(w) => w,
        other => panic!("{other:?}"),
    }
}

fn asks(v: Verdict) -> Vec<Question> {
    waits(v).ask
}

fn ask_instance(not_before: Moment) -> Question {
    Question::Instance { instance: id(INSTANCE), not_before }
}

fn ask_group() -> Question {
    Question::Group(GroupName::from("my-asg"))
}

fn ask_hook() -> Question {
    Question::Hook(GroupName::from("my-asg"), HookName::from("my-hook"))
}

fn ask_heartbeat() -> Question {
    Question::Heartbeat(terminate().lifecycle_action(&id(INSTANCE)).unwrap().key)
}

fn long_ago() -> Moment {
    now().minus(seconds(300))
}

#[test]
fn a_message_for_another_reader_is_hidden_for_a_second_and_longer_only_when_it_comes_often() {
    let hidden = |count| hidden_from_others(count).as_secs();
    assert_eq!((0..11).map(hidden).collect::<Vec<_>>(), [1, 1, 1, 1, 2, 4, 8, 16, 32, 60, 60]);
    let ten: u64 = (1..=10).map(hidden).sum();
    assert!(ten >= 180, "ten receives take as long as a change of leader may: {ten}");
    assert_eq!(hidden(u32::MAX), 60);
}

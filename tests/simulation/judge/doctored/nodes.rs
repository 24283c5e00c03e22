//! What is written on Nodes: with the accept, and when they are put back.

use serde_json::json;
use sundown::sim::kube::NodeState;

use super::*;
use crate::judge::nodes::{EXCLUDED, RECORD, RELEASE, TAINT, open_record, taint};

const US: &str = "sundown-0";
const PERSON: &str = "kubectl";

fn state(entry: &mut Entry) -> Option<&mut NodeState> {
    if let Fact::NodeChanged(state) = &mut entry.fact { Some(&mut **state) } else { None }
}

/// Every state of a Node that Sundown wrote, and all after it.
fn from_first_of_ours(evidence: &mut Evidence) -> impl Iterator<Item = &mut NodeState> {
    let first = evidence
        .entries
        .iter()
        .position(|e| e.by == US && matches!(e.fact, Fact::NodeChanged(_)))
        .unwrap();
    evidence.entries.iter_mut().skip(first).filter_map(state)
}

/// What the judge says where all states from the first of ours on are different.
fn with(evidence: &Evidence, change: impl Fn(&mut NodeState)) -> Vec<String> {
    let mut evidence = evidence.clone();
    from_first_of_ours(&mut evidence).for_each(change);
    judge(&evidence)
}

/// The last state of the only Node, with this change, written then.
pub(super) fn then(evidence: &mut Evidence, at: Moment, by: &str, change: impl Fn(&mut NodeState)) {
    let mut before = evidence.entries.iter_mut().filter(|e| e.at <= at).filter_map(state);
    let mut new = before.next_back().unwrap().clone();
    change(&mut new);
    insert(evidence, at, by, Fact::NodeChanged(Box::new(new)));
}

fn accepted(evidence: &Evidence) -> Moment {
    when(evidence, |f| matches!(f, Fact::NodeChanged(state) if open_record(state).is_some()))
}

#[tokio::test(start_paused = true)]
async fn an_accept_that_is_not_one_write_is_seen() {
    let evidence = hooked().await;
    let untaint = |state: &mut NodeState| state.taints.retain(|(key, ..)| key != TAINT);
    breaks(
        &with(&evidence, |s| s.unschedulable = false),
        "accepted and not cordoned with the same write",
    );
    breaks(&with(&evidence, untaint), "accepted and not tainted with the same write");
    let other_kind = |state: &mut NodeState| {
        untaint(state);
        state.taints.insert((TAINT.to_owned(), "spot".to_owned(), "NoSchedule".to_owned()));
    };
    breaks(&with(&evidence, other_kind), "does not show the kind that leaves least time");
    let at = accepted(&evidence) - Duration::from_millis(1);
    let mut split = evidence.clone();
    then(&mut split, at, US, |s| s.unschedulable = true);
    breaks(&judge(&split), "cordoned without a record");
    let mut split = evidence.clone();
    then(&mut split, at, US, |s| {
        s.taints.extend([(TAINT.to_owned(), "spot".to_owned(), "NoSchedule".to_owned())]);
    });
    breaks(&judge(&split), "tainted without a record");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_cordoned_without_a_record_is_seen_unless_another_one_claims_its_instance_then()
 {
    const ALONE: &str = "cordoned without a record";
    let evidence = hooked().await;
    let at = accepted(&evidence) - Duration::from_millis(1);
    let name = evidence.nodes.first_key_value().unwrap().1.clone();
    // The other one names this provider, and went so many seconds before.
    let twins = |provider: Option<&str>, went: Option<u64>| {
        let (mut evidence, begun) = (evidence.clone(), evidence.begun);
        if provider == Some("") {
            evidence.entries.iter_mut().filter_map(state).for_each(|s| s.provider_id.clear());
        }
        let named =
            |s: &mut NodeState| provider.into_iter().for_each(|p| s.provider_id = p.to_owned());
        then(&mut evidence, begun, "<kubelet>", |s| {
            s.name = "a-twin".to_owned();
            named(s);
        });
        then(&mut evidence, at, US, |s| {
            (s.name, s.unschedulable) = ("a-twin".to_owned(), true);
            named(s);
        });
        if let Some(seconds) = went {
            insert(&mut evidence, at - s(seconds), "<test>", Fact::NodeGone(name.clone()));
        }
        judge(&evidence)
    };
    keeps(&twins(None, None), ALONE, "a Node that claims the same instance is only cordoned");
    keeps(&twins(None, Some(1)), ALONE, "it need not be known yet that the other one is gone");
    breaks(&twins(None, Some(5)), ALONE);
    breaks(&twins(Some("aws:///eu-west-1a/i-0another"), None), ALONE);
    breaks(&twins(Some(""), None), ALONE);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_a_person_uncordoned_and_that_is_cordoned_again_is_seen() {
    const AGAIN: &str = "uncordoned by a person during its drain, and cordoned again";
    let boot = |is_new: bool| if is_new { "the second" } else { "the first" };
    let hooked = hooked().await;
    let mut evidence = hooked.clone();
    let at = accepted(&evidence) + s(2);
    then(&mut evidence, at, PERSON, |s| s.unschedulable = false);
    keeps(&judge(&evidence), "cordoned again", "a person may");
    then(&mut evidence, at + s(1), US, |s| s.unschedulable = true);
    breaks(&judge(&evidence), "uncordoned by a person during its drain, and cordoned again");
    // The machine boots, and an interruption of the new boot comes.
    let edit = |state: &mut NodeState, change: &dyn Fn(&mut Value)| {
        let text = state.annotations.get_mut(RECORD).unwrap();
        let mut record: Value = serde_json::from_str(text).unwrap();
        change(&mut record);
        *text = record.to_string();
    };
    let spot = json!([{
        "kind": "spot", "event": "e", "time": at.to_string(), "accepted": at.to_string()
    }]);
    let rebooted = |has_hook: bool, is_new: bool| {
        let mut evidence = hooked.clone();
        let old = |record: &mut Value| {
            record["boot"] = json!("the first");
            if !has_hook {
                record["interruptions"] = spot.clone();
            }
        };
        then(&mut evidence, at, "<kubelet>", |s| {
            edit(s, &old);
            s.boot_id = boot(is_new).to_owned();
        });
        then(&mut evidence, at + s(1), PERSON, |s| s.unschedulable = false);
        then(&mut evidence, at + s(2), US, |s| {
            s.unschedulable = true;
            edit(s, &|record| record["boot"] = json!(boot(is_new)));
        });
        judge(&evidence)
    };
    keeps(&rebooted(false, true), AGAIN, "the record of the boot before counts for nothing");
    breaks(&rebooted(false, false), AGAIN);
    breaks(&rebooted(true, true), AGAIN);
}

/// A spot notice, and a person who releases the node: it is put back. `before`: what was done to
/// the Node before.
async fn put_back(before: impl Fn(&mut serde_json::Value)) -> Evidence {
    let stage = Stage::new(7);
    let instances = stage.spot_group(3);
    let node = stage.world.node_of(&instances[0]).unwrap();
    stage.world.kube.edit("nodes", "", &node, before);
    let sundown = led(&stage, &[]).await;
    stage.world.aws.spot_interruption(&instances[0], SpotAction::Terminate);
    stage.until(10, "it is accepted", || stage.record(&instances[0]).is_some()).await;
    stage
        .world
        .kube
        .edit("nodes", "", &node, |n| n["metadata"]["annotations"][RELEASE] = "true".into());
    stage
        .until(10, "it is put back", || {
            !stage.node(&instances[0]).to_string().contains("sundown.dev/interruption")
        })
        .await;
    stage.pass(3).await;
    ended(stage, sundown).await
}

fn last_tainted(evidence: &Evidence) -> usize {
    evidence
        .entries
        .iter()
        .rposition(|e| matches!(&e.fact, Fact::NodeChanged(s) if taint(s).is_some()))
        .unwrap()
}

/// The write that put the Node back, and all after it, with this change.
fn but(evidence: &Evidence, change: impl Fn(&mut NodeState)) -> Vec<String> {
    let mut evidence = evidence.clone();
    let drained = last_tainted(&evidence);
    let name = state(&mut evidence.entries[drained]).unwrap().name.clone();
    evidence
        .entries
        .iter_mut()
        .skip(drained + 1)
        .filter_map(state)
        .filter(|s| s.name == name)
        .for_each(change);
    judge(&evidence)
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_not_put_back_as_it_was_is_seen() {
    const NOT_PUT_BACK: &str = "a person released it, and it was not put back";
    let evidence = put_back(|n| {
        n["spec"]["taints"] = json!([{ "key": "example.com/own", "effect": "NoSchedule" }]);
    })
    .await;
    breaks(&but(&evidence, |s| s.unschedulable = true), "it was put back and left cordoned");
    let label =
        |s: &mut NodeState| drop(s.labels.insert(EXCLUDED.to_owned(), "sundown".to_owned()));
    breaks(&but(&evidence, label), "it was put back and left out of load balancers");
    breaks(&but(&evidence, |s| s.taints.clear()), "Sundown changed taints of others");
    breaks(&but(&evidence, |s| drop(s.labels.pop_first())), "Sundown changed labels of others");
    let pause = |s: &mut NodeState| {
        drop(s.annotations.insert("sundown.dev/pause".to_owned(), "true".to_owned()));
    };
    breaks(&but(&evidence, pause), "Sundown changed annotations of others");
    let mut never = evidence.clone();
    never.entries.truncate(last_tainted(&never) + 1);
    breaks(&judge(&never), NOT_PUT_BACK);
    let joined = |hook: Option<&str>| {
        let mut joined = never.clone();
        then(&mut joined, evidence.ended, PERSON, |s| {
            let record = s.annotations.get_mut("sundown.dev/record").unwrap();
            let mut written: serde_json::Value = serde_json::from_str(record).unwrap();
            let more = json!({ "kind": "terminate-hook", "event": "made-up", "hook": hook });
            written["interruptions"].as_array_mut().unwrap().push(more);
            *record = written.to_string();
        });
        judge(&joined)
    };
    keeps(&joined(Some("drain")), NOT_PUT_BACK, "the action of a hook must be over first");
    breaks(&joined(None), NOT_PUT_BACK);
    let accepted_anew = |boot: Option<&str>| {
        let mut again = never.clone();
        then(&mut again, evidence.ended, US, |s| {
            s.annotations.remove("sundown.dev/release");
            let record = s.annotations.get_mut("sundown.dev/record").unwrap();
            let mut written: serde_json::Value = serde_json::from_str(record).unwrap();
            boot.into_iter().for_each(|boot| written["boot"] = json!(boot));
            *record = written.to_string();
        });
        judge(&again)
    };
    let booted = accepted_anew(Some("another"));
    keeps(&booted, NOT_PUT_BACK, "a boot had ended the drain that the order was for");
    breaks(&accepted_anew(None), NOT_PUT_BACK);
    let mut taken = never.clone();
    then(&mut taken, evidence.ended, US, |s| drop(s.annotations.remove("sundown.dev/record")));
    breaks(&judge(&taken), "its taint was left behind without a record");
    let mut taken = never.clone();
    then(&mut taken, evidence.ended, PERSON, |s| drop(s.annotations.remove("sundown.dev/record")));
    breaks(&judge(&taken), "its taint was left behind without a record");
    let mut unseen = taken.clone();
    unseen.ends = vec![(US.to_owned(), evidence.ended)];
    for rule in [
        "its taint was left behind without a record",
        "a person released it, and it was not put back",
    ] {
        keeps(&judge(&unseen), rule, "nobody who had seen its record leads any more");
    }
    let mut later = unseen.clone();
    later.ends = vec![(US.to_owned(), evidence.ended + s(5))];
    breaks(&judge(&later), "its taint was left behind without a record");
    let is_patch = |r: &&Request| r.client == US && r.verb == "patch" && r.resource == "nodes";
    let patch = later.requests.iter().rfind(is_patch).unwrap().clone();
    // It tries to write the record back, and is ended 15 s later.
    let tried = |is_disturbed: bool, by: &str| {
        let mut tried = later.clone();
        tried.ends = vec![(US.to_owned(), evidence.ended + s(15))];
        let at = evidence.ended;
        tried.requests.push(Request {
            at,
            answered: None,
            ended: None,
            status: 0,
            is_disturbed,
            ..patch.clone()
        });
        let (by, what, object) = (by.to_owned(), "patch nodes".to_owned(), patch.name.clone());
        tried.disturbances.push(Disturbance {
            at,
            until: None,
            by,
            what,
            object,
            is_silent: false,
        });
        judge(&tried)
    };
    keeps(
        &tried(true, US),
        "its taint was left behind without a record",
        "no try to write it back came through before the process ended",
    );
    breaks(&tried(false, US), "its taint was left behind without a record");
    breaks(&tried(true, "sundown-9"), "its taint was left behind without a record");
    // Nobody renews the Lease any more, or somebody does until then. The process is ended later.
    let lapsed = |is_renewed: bool| {
        let (mut lapsed, at) = (never.clone(), evidence.ended + s(12));
        if is_renewed {
            longer(&mut lapsed, at);
        }
        lapsed.ended = at;
        then(&mut lapsed, at, PERSON, |s| drop(s.annotations.remove("sundown.dev/record")));
        lapsed.ends = vec![(US.to_owned(), at + s(5))];
        judge(&lapsed)
    };
    keeps(
        &lapsed(false),
        "its taint was left behind without a record",
        "it did not lead any more, although nobody else held the Lease",
    );
    breaks(&lapsed(true), "its taint was left behind without a record");
    // The process does not lead when the record is taken away. It renews the Lease so many seconds
    // later, and its only try to write the record back fails after 20 s. Then it is ended.
    let is_lease = |r: &&Request| r.resource == "leases" && r.is_write() && r.status == 200;
    let renewal = never.requests.iter().rfind(is_lease).unwrap().clone();
    let led_again = |renewed: &[u64], tries: bool| {
        let (mut again, at) = (never.clone(), evidence.ended + s(12));
        again.ended = at + s(25);
        then(&mut again, at, PERSON, |s| drop(s.annotations.remove("sundown.dev/record")));
        again.ends = vec![(US.to_owned(), at + s(21))];
        again.requests.extend(renewed.iter().map(|after| {
            let at = at + s(*after);
            Request { at, answered: Some(at), ended: Some(at), ..renewal.clone() }
        }));
        let (tried, status) = (at + s(20), 429);
        let refused = Request {
            at: tried,
            answered: Some(tried),
            ended: Some(tried),
            status,
            is_disturbed: true,
            ..patch.clone()
        };
        again.requests.extend(tries.then_some(refused));
        again.disturbances.extend(tries.then(|| Disturbance {
            at: tried,
            until: Some(tried),
            by: US.to_owned(),
            what: "patch nodes".to_owned(),
            object: patch.name.clone(),
            is_silent: false,
        }));
        judge(&again)
    };
    keeps(
        &led_again(&[20], true),
        "its taint was left behind without a record",
        "it led for a second, in which its try failed",
    );
    breaks(&led_again(&[20], false), "its taint was left behind without a record");
    breaks(&led_again(&[5, 14], true), "its taint was left behind without a record");
    let drained = hooked().await;
    let mut taken = drained.clone();
    then(&mut taken, drained.ended, PERSON, |s| drop(s.annotations.remove("sundown.dev/record")));
    keeps(&judge(&taken), "its taint was left behind without a record", "the drain was over");
    let mut taken = drained.clone();
    then(&mut taken, drained.ended, US, |s| drop(s.annotations.remove("sundown.dev/record")));
    breaks(&judge(&taken), "its taint was left behind without a record");
}

#[tokio::test(start_paused = true)]
async fn a_released_node_that_is_not_put_back_is_seen_unless_a_hook_joined_whose_action_was_open() {
    const NOT_PUT_BACK: &str = "a person released it, and it was not put back";
    const TOKEN: &str = "12345678-1234-1234-1234-123456789012";
    let mut never = put_back(|_| {}).await;
    never.entries.truncate(last_tainted(&never) + 1);
    let (asked, at) = (never.entries.last().unwrap().at, never.ended);
    let node = state(never.entries.last_mut().unwrap()).unwrap();
    let instance = crate::judge::nodes::instance(node).to_owned();
    let group = never.groups[&instance].clone();
    let action = ActionReport {
        group: group.clone(),
        token: TOKEN.to_owned(),
        started: asked - s(60),
        instance,
        end: None,
        ..hooked().await.actions[0].clone()
    };
    // Its hook joins, and Sundown writes the end of the drain.
    let joins = |token: &str, is_ended: bool, action: ActionReport| {
        let mut evidence = never.clone();
        let hook = json!({
            "kind": "terminate-hook", "event": "joins", "time": at.to_string(),
            "accepted": at.to_string(), "group": group, "hook": action.hook, "token": token,
        });
        evidence.actions.push(action);
        then(&mut evidence, at, US, |s| {
            let record = s.annotations.get_mut(RECORD).unwrap();
            let mut written: Value = serde_json::from_str(record).unwrap();
            written["interruptions"].as_array_mut().unwrap().push(hook.clone());
            if is_ended {
                written["released"] = json!({ "at": at.to_string() });
            }
            *record = written.to_string();
        });
        judge(&evidence)
    };
    let ends = |at: Moment| {
        let verdict = Verdict::Completed(HookResult::Continue);
        let end = Some(ActionEnd { at, verdict, by: US.to_owned() });
        ActionReport { end, ..action.clone() }
    };
    keeps(&joins(TOKEN, true, action.clone()), NOT_PUT_BACK, "the instance goes");
    keeps(&joins(TOKEN, true, ends(asked + s(1))), NOT_PUT_BACK, "its hook was completed");
    breaks(&joins(TOKEN, true, ends(asked - s(5))), NOT_PUT_BACK);
    breaks(&joins(TOKEN, false, action.clone()), NOT_PUT_BACK);
    breaks(&joins("00000000-0000-4000-8000-000000000000", true, action.clone()), NOT_PUT_BACK);
    let of_another = ActionReport { instance: "i-0another".to_owned(), ..action.clone() };
    breaks(&joins(TOKEN, true, of_another), NOT_PUT_BACK);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_drained_again_and_not_put_back_is_seen_unless_a_person_took_its_record_away()
 {
    const LEFT: &str = "left cordoned";
    const LABELED: &str = "it was put back and left out of load balancers";
    let drained = hooked().await;
    let record = json!({ "version": 1, "interruptions": [] }).to_string();
    let put_back = |is_forgotten: bool| {
        let (mut evidence, at) = (drained.clone(), drained.ended);
        then(&mut evidence, at, US, |s| {
            drop(s.labels.insert(EXCLUDED.to_owned(), "sundown".to_owned()));
        });
        if is_forgotten {
            then(&mut evidence, at, PERSON, |s| drop(s.annotations.remove(RECORD)));
        }
        then(&mut evidence, at, US, |s| {
            drop(s.annotations.insert(RECORD.to_owned(), record.clone()));
        });
        then(&mut evidence, at, US, |s| s.taints.retain(|(key, ..)| key != TAINT));
        judge(&evidence)
    };
    keeps(&put_back(true), LEFT, "nobody knows any more what it was before");
    breaks(&put_back(false), LEFT);
    keeps(&put_back(true), LABELED, "and who set the label");
    breaks(&put_back(false), LABELED);
    // A person made up a record on a node with a label that `--compat nth` writes.
    let made_up = |by_hand: bool, compat: Option<&str>| {
        let (mut evidence, at) = (drained.clone(), drained.ended);
        let record = json!({ "version": 1, "interruptions": [], "compat": compat }).to_string();
        evidence.hands.extend(by_hand.then(|| (at, node_of(&drained).1, "record made up")));
        then(&mut evidence, at, US, |s| {
            let label = "aws-node-termination-handler".to_owned();
            drop(s.labels.insert(EXCLUDED.to_owned(), label));
        });
        then(&mut evidence, at, PERSON, |s| {
            drop(s.annotations.insert(RECORD.to_owned(), record.clone()));
        });
        then(&mut evidence, at, US, |s| s.taints.retain(|(key, ..)| key != TAINT));
        judge(&evidence)
    };
    keeps(&made_up(true, None), LABELED, "the record does not say that Sundown set it");
    breaks(&made_up(true, Some("nth")), LABELED);
    breaks(&made_up(false, None), LABELED);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_a_person_had_cordoned_and_that_is_uncordoned_is_seen() {
    let evidence = put_back(|n| n["spec"]["unschedulable"] = true.into()).await;
    breaks(
        &but(&evidence, |s| s.unschedulable = false),
        "Sundown uncordoned it, and somebody else had cordoned it",
    );
    let labeled = put_back(|n| n["metadata"]["labels"][EXCLUDED] = "dedicated".into()).await;
    let label = |s: &mut NodeState| drop(s.labels.remove(EXCLUDED));
    breaks(&but(&labeled, label), "Sundown changed the load balancer label of others");
}

#[tokio::test(start_paused = true)]
async fn a_label_that_comes_too_early_or_on_too_many_nodes_is_seen() {
    const TAKEN: &str = "was taken out of load balancers";
    let label =
        |s: &mut NodeState| drop(s.labels.insert(EXCLUDED.to_owned(), "sundown".to_owned()));
    let evidence = hooked().await;
    breaks(&with(&evidence, label), "with its accept, which is too early");
    breaks(&with(&evidence, label), "beside 0 of 1 Ready nodes");
    let mut without_drain = evidence.clone();
    then(&mut without_drain, evidence.begun + s(20), US, label);
    breaks(&judge(&without_drain), "was taken out of load balancers without a drain");
    let flagged = |evidence: &Evidence, value: &str| {
        let mut evidence = evidence.clone();
        evidence.terms.flags =
            vec![("sundown".to_owned(), vec![format!("--exclude-from-load-balancers={value}")])];
        judge(&evidence)
    };
    let spot = put_back(|_| {}).await;
    keeps(&judge(&spot), TAKEN, "one of three");
    breaks(&flagged(&spot, "never"), "which --exclude-from-load-balancers=never forbids");
    breaks(&flagged(&spot, "late"), "with its accept, which is too early");
    let unlabeled = |s: &mut NodeState| drop(s.labels.remove(EXCLUDED));
    breaks(
        &with(&spot, unlabeled),
        "was accepted and not taken out of load balancers, although there was room",
    );
    let responds = |response: &str, change: &dyn Fn(&mut NodeState)| {
        let mut evidence = spot.clone();
        evidence.terms.flags = vec![("sundown".to_owned(), vec![format!("--on=spot={response}")])];
        with(&evidence, change)
    };
    keeps(&responds("prefer", &unlabeled), "although there was room", "it is only tainted");
    breaks(&responds("cordon", &unlabeled), "although there was room");
    breaks(&responds("prefer", &|_| {}), "although --on asks only for a taint");
    // A patch of another node is not answered yet: it may take that one out.
    let patch =
        spot.requests.iter().find(|r| r.verb == "patch" && r.resource == "nodes").unwrap().clone();
    let other = spot.nodes.values().find(|node| **node != patch.name).unwrap().clone();
    let beside_patch_until = |ended: Moment| {
        let mut evidence = spot.clone();
        let at = accepted(&spot) - s(5);
        evidence.requests.push(Request {
            at,
            answered: None,
            ended: Some(ended),
            status: 0,
            name: other.clone(),
            ..patch.clone()
        });
        with(&evidence, unlabeled)
    };
    keeps(
        &beside_patch_until(accepted(&spot) + s(5)),
        "although there was room",
        "two of three nodes would have left",
    );
    breaks(&beside_patch_until(accepted(&spot) - s(1)), "although there was room");
    // It failed, and is tried again.
    let beside_failed_patch = |again: Option<u64>| {
        let mut evidence = spot.clone();
        let at = accepted(&spot) - s(1);
        let tries = [Some(at), again.map(|after| at + s(after))];
        evidence.requests.extend(tries.into_iter().flatten().map(|at| Request {
            at,
            answered: Some(at),
            ended: Some(at),
            status: 500,
            name: other.clone(),
            ..patch.clone()
        }));
        with(&evidence, unlabeled)
    };
    keeps(
        &beside_failed_patch(Some(2)),
        "although there was room",
        "two of three nodes would have left",
    );
    breaks(&beside_failed_patch(None), "although there was room");
    breaks(&beside_failed_patch(Some(15)), "although there was room");
    // One of the others has left already.
    let mut crowded = spot.clone();
    let drained = last_tainted(&crowded);
    let name = state(&mut crowded.entries[drained]).unwrap().name.clone();
    let others = |s: &&mut NodeState| s.name != name;
    crowded.entries.iter_mut().filter_map(state).filter(others).for_each(label);
    breaks(&judge(&crowded), "of 3 Ready nodes");
}

#[tokio::test(start_paused = true)]
async fn a_taint_that_a_weaker_response_weakens_after_a_drain_is_seen() {
    const WEAKER: &str = "its taint became weaker";
    let mut evidence = hooked().await;
    for (_, flags) in &mut evidence.terms.flags {
        flags.push("--on=state-change=prefer".to_owned());
    }
    let is_released =
        |s: &NodeState| s.annotations.get(RECORD).is_some_and(|r| r.contains("\"released\""));
    let released = when(&evidence, |f| matches!(f, Fact::NodeChanged(state) if is_released(state)));
    then(&mut evidence, released + Duration::from_millis(1), PERSON, |s| s.unschedulable = false);
    let at = released + Duration::from_millis(2);
    let marked = |effect: &str| {
        let mut evidence = evidence.clone();
        then(&mut evidence, at, US, |s| {
            let text = s.annotations.get_mut(RECORD).unwrap();
            let mut record: Value = serde_json::from_str(text).unwrap();
            record["interruptions"] = json!([{
                "kind": "state-change", "event": "e", "time": at.to_string(),
                "accepted": at.to_string(), "state": "stopping", "response": "prefer"
            }]);
            record.as_object_mut().unwrap().remove("released");
            *text = record.to_string();
            s.taints.retain(|(key, ..)| key != TAINT);
            s.taints.insert((TAINT.to_owned(), "state-change".to_owned(), effect.to_owned()));
        });
        judge(&evidence)
    };
    breaks(&marked("PreferNoSchedule"), WEAKER);
    keeps(&marked("NoSchedule"), WEAKER, "the taint of the drain stays");
    keeps(&marked("NoSchedule"), "not tainted with the same write", "it is enough");
}

#[tokio::test(start_paused = true)]
async fn what_joins_without_a_cordon_is_seen_unless_a_person_removed_one_that_had_stayed() {
    const NOT_CORDONED: &str = "an interruption joined its record, and it was not cordoned";
    const AGAIN: &str = "uncordoned by a person during its drain, and cordoned again";
    let evidence = hooked().await;
    let is_released =
        |s: &NodeState| s.annotations.get(RECORD).is_some_and(|r| r.contains("\"released\""));
    let released = when(&evidence, |f| matches!(f, Fact::NodeChanged(state) if is_released(state)));
    let after = |millis: u64| released + Duration::from_millis(millis);
    let entry = |kind: &str, response: Option<&str>| {
        let time = released.to_string();
        json!({
            "kind": kind, "event": kind, "time": time, "accepted": time, "response": response
        })
    };
    let write = |evidence: &mut Evidence, at: Moment, all: &[Value], is_cordoned: bool| {
        then(evidence, at, US, |s| {
            let text = s.annotations.get_mut(RECORD).unwrap();
            let mut record: Value = serde_json::from_str(text).unwrap();
            record["interruptions"] = json!(all);
            record.as_object_mut().unwrap().remove("released");
            *text = record.to_string();
            s.unschedulable = is_cordoned;
        });
    };
    // The drained node is still cordoned, or a person has uncordoned it. A recommendation begins
    // another record. The node is uncordoned, and a spot notice joins.
    let joined = |response: Option<&str>, stays: bool, uncordons: &str, is_cordoned: bool| {
        let mut evidence = evidence.clone();
        if !stays {
            then(&mut evidence, after(1), PERSON, |s| s.unschedulable = false);
        }
        let first = entry("rebalance", response);
        write(&mut evidence, after(2), std::slice::from_ref(&first), stays);
        then(&mut evidence, after(3), uncordons, |s| s.unschedulable = false);
        write(&mut evidence, after(4), &[first, entry("spot", None)], is_cordoned);
        judge(&evidence)
    };
    let cordon = Some("cordon");
    keeps(&joined(cordon, true, PERSON, false), NOT_CORDONED, "a person uncordoned it");
    breaks(&joined(cordon, true, PERSON, true), AGAIN);
    breaks(&joined(cordon, true, US, false), NOT_CORDONED);
    breaks(&joined(cordon, false, PERSON, false), NOT_CORDONED);
    breaks(&joined(None, true, PERSON, false), NOT_CORDONED);
}

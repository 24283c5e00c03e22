//! What is in records, and why.

use serde_json::{Value, json};
use sundown::sim::aws::{Call, InstanceChange, Outcome, State};

use super::*;

const TIME: &str = "%Y-%m-%dT%H:%M:%SZ";

fn doctored(evidence: &Evidence, change: impl FnOnce(&mut Evidence)) -> Vec<String> {
    let mut evidence = evidence.clone();
    change(&mut evidence);
    judge(&evidence)
}

/// Calls of this kind met a fault all the time.
fn always_fails(evidence: &mut Evidence, what: &str) {
    let (begun, ended) = (evidence.begun, evidence.ended);
    fault(evidence, what, begun, ended);
}

/// Changes the first interruption of each record.
fn edit_first(evidence: &mut Evidence, change: impl Fn(&mut Value)) {
    edit_records(evidence, |record| change(&mut record["interruptions"][0]));
}

#[tokio::test(start_paused = true)]
async fn a_record_of_an_event_that_nobody_had_sent_is_seen() {
    const NOBODY: &str = "which nobody had sent";
    let evidence = reclaimed().await;
    breaks(&doctored(&evidence, |e| e.messages.clear()), NOBODY);
    let at = accepted(&evidence);
    let sent = |after: Duration| {
        move |e: &mut Evidence| e.messages.iter_mut().for_each(|m| m.at = at + after)
    };
    breaks(&doctored(&evidence, sent(Duration::from_millis(1))), NOBODY);
    keeps(&doctored(&evidence, sent(Duration::ZERO)), NOBODY, "it had just been sent");
    let of_another = |e: &mut Evidence| {
        edit_bodies(e, |body| body["detail"]["instance-id"] = json!("i-0123456789abcdef0"));
    };
    breaks(&doctored(&evidence, of_another), NOBODY);
    let by_hand = |e: &mut Evidence| {
        e.messages.clear();
        e.entries
            .iter_mut()
            .filter(|e| matches!(e.fact, Fact::Annotated { .. }))
            .for_each(|e| e.by = "kubectl".to_owned());
    };
    keeps(&doctored(&evidence, by_hand), NOBODY, "a person wrote it");
}

#[tokio::test(start_paused = true)]
async fn a_record_that_says_other_than_its_message_is_seen() {
    let evidence = hooked().await;
    let other = |field: &'static str, value: Value| {
        doctored(&evidence, |e| edit_first(e, |entry| entry[field] = value.clone()))
    };
    let later = (accepted(&evidence) - s(60)).strftime(TIME).to_string();
    breaks(&other("kind", json!("spot")), "but its kind spot, and the message terminate-hook");
    breaks(&other("time", json!(later)), "but its time");
    breaks(&other("state", json!("stopping")), "but its state stopping");
    breaks(&other("ends", json!(later)), "but its ends");
    breaks(
        &other("hook", json!("drain-too")),
        "but its hook asg/drain-too, and the message asg/drain",
    );
    breaks(&other("group", json!("other")), "but its hook other/drain");
    breaks(&other("token", json!("x")), "but its token x");
    breaks(&other("event", json!("another")), "which nobody had sent");
}

#[tokio::test(start_paused = true)]
async fn an_event_from_the_future_is_recorded_as_five_seconds_after_its_receipt() {
    let evidence = hooked().await;
    let at = accepted(&evidence);
    let recorded = |seconds: u64| {
        doctored(&evidence, |e| {
            edit_bodies(e, |body| body["time"] = json!((at + s(600)).strftime(TIME).to_string()));
            edit_first(e, |entry| entry["time"] = json!((at + s(seconds)).to_string()));
        })
    };
    keeps(&recorded(5), "but its time", "that is the limit");
    breaks(&recorded(1), "but its time");
    breaks(&recorded(10), "but its time");
}

#[tokio::test(start_paused = true)]
async fn a_record_that_says_another_time_of_its_accept_is_seen() {
    const OFF: &str = "from the moment that it says";
    let evidence = hooked().await;
    let at = accepted(&evidence);
    let says = |seconds: i64, failing: &str| {
        doctored(&evidence, |e| {
            let time = at + jiff::SignedDuration::from_secs(seconds);
            edit_first(e, |entry| entry["accepted"] = json!(time.to_string()));
            always_fails(e, failing);
        })
    };
    breaks(&says(-2, ""), OFF);
    breaks(&says(2, ""), OFF);
    breaks(&says(2, "patch nodes"), OFF);
    keeps(&says(-10, "patch nodes"), OFF, "the PATCH was sent again for ten seconds");
    breaks(&says(-10, "delete pods"), OFF);
    breaks(&says(-15, "patch nodes"), OFF);
}

#[tokio::test(start_paused = true)]
async fn a_record_of_a_message_that_its_writer_has_not_received_is_seen() {
    const UNREAD: &str = "which sundown-0 had not received";
    let evidence = reclaimed().await;
    let at = accepted(&evidence);
    let deliveries = |change: fn(&mut Vec<Delivery>)| {
        doctored(&evidence, |e| e.messages.iter_mut().for_each(|m| change(&mut m.deliveries)))
    };
    breaks(&deliveries(Vec::clear), UNREAD);
    breaks(&deliveries(|all| all.iter_mut().for_each(|d| d.by = "sundown-1".to_owned())), UNREAD);
    let late = |e: &mut Evidence| {
        e.messages.iter_mut().flat_map(|m| &mut m.deliveries).for_each(|d| d.at = at + s(1));
    };
    breaks(&doctored(&evidence, late), UNREAD);
}

#[tokio::test(start_paused = true)]
async fn a_record_that_another_process_writes_back_at_once_is_known_by_the_accept_that_it_says() {
    const UNREAD: &str = "which sundown-1 had not received";
    let mut evidence = reclaimed().await;
    let first = accepted(&evidence);
    let after = |millis: u64| (first + Duration::from_millis(millis)).to_string();
    edit_first(&mut evidence, |entry| entry["accepted"] = json!(after(400)));
    let is_record = |fact: &&Fact| {
        matches!(
            fact,
            Fact::Annotated { annotations, .. } if annotations.contains_key("sundown.dev/record")
        )
    };
    let written = evidence.entries.iter().map(|e| &e.fact).find(is_record).unwrap().clone();
    // Half a second after the accept a person deletes the record.
    let written_back = |says: u64| {
        let mut evidence = evidence.clone();
        let Fact::Annotated { node, provider_id, mut annotations } = written.clone() else {
            panic!()
        };
        let at = first + Duration::from_millis(500);
        let mut record: Value = serde_json::from_str(&annotations["sundown.dev/record"]).unwrap();
        record["interruptions"][0]["accepted"] = json!(after(says));
        annotations.insert("sundown.dev/record".to_owned(), record.to_string());
        let without = Fact::Annotated {
            node: node.clone(),
            provider_id: provider_id.clone(),
            annotations: [("other".to_owned(), "x".to_owned())].into(),
        };
        insert(&mut evidence, at, "kubectl", without);
        insert(&mut evidence, at, "sundown-1", Fact::Annotated { node, provider_id, annotations });
        judge(&evidence)
    };
    keeps(&written_back(400), UNREAD, "it is the same entry");
    breaks(&written_back(500), UNREAD);
}

#[tokio::test(start_paused = true)]
async fn a_drain_for_what_asks_for_none_is_seen() {
    const NONE: &str = "which asks for no drain";
    let evidence = reclaimed().await;
    let rebalance = |e: &mut Evidence| {
        edit_bodies(e, |body| body["detail-type"] = json!("EC2 Instance Rebalance Recommendation"));
        edit_first(e, |entry| entry["kind"] = json!("rebalance"));
    };
    let ignored = |e: &mut Evidence| {
        rebalance(e);
        for (_, flags) in &mut e.terms.flags {
            flags.push("--on=rebalance=ignore".to_owned());
        }
    };
    breaks(&doctored(&evidence, ignored), NONE);
    let state = |state: &'static str| {
        move |e: &mut Evidence| {
            edit_bodies(e, |body| {
                body["detail-type"] = json!("EC2 Instance State-change Notification");
                body["detail"]["state"] = json!(state);
            });
            edit_first(e, |entry| {
                entry["kind"] = json!("state-change");
                entry["state"] = json!(state);
            });
        }
    };
    breaks(&doctored(&evidence, state("running")), NONE);
    keeps(&doctored(&evidence, state("stopping")), NONE, "the instance is about to go");
    let test = |real: bool, flag: &str| {
        doctored(&evidence, |e| {
            edit_bodies(e, |body| {
                body["source"] = json!("sundown.test");
                body["detail"]["sundown"] = json!({ "real": real });
            });
            e.terms.flags = vec![("sundown".to_owned(), vec![flag.to_owned()])];
        })
    };
    breaks(&test(false, ""), NONE);
    breaks(&test(false, "--accept-real-tests=1h"), NONE);
    breaks(&test(true, ""), NONE);
    breaks(&test(true, "--accept-real-tests=1ms"), NONE);
    keeps(&test(true, "--accept-real-tests=1h"), NONE, "it was asked for, and accepted");
}

#[tokio::test(start_paused = true)]
async fn a_drain_for_the_hook_of_somebody_else_is_seen() {
    const FOREIGN: &str = "of the hook asg/drain, which is not ours";
    let mut evidence = hooked().await;
    keeps(&judge(&evidence), FOREIGN, "it is ours");
    let named = sundown::sim::aws::ActionReport {
        hook: "sundown-drain".to_owned(),
        ..evidence.actions[0].clone()
    };
    evidence.actions.push(named);
    breaks(&judge(&evidence), FOREIGN);
    let is_answer =
        |c: &Call| c.api == "autoscaling:DescribeLifecycleHooks" && c.outcome == Outcome::Ok;
    let answer = evidence.calls.iter().find(|c| is_answer(c)).unwrap().clone();
    evidence.calls.retain(|c| !is_answer(c));
    keeps(&judge(&evidence), FOREIGN, "AWS had not described the hooks yet");
    // The API server held its PATCH for three seconds.
    let at = accepted(&evidence);
    let is_accept = |r: &&mut Request| r.verb == "patch" && r.resource == "nodes" && r.at == at;
    evidence.requests.iter_mut().find(is_accept).unwrap().at = at - s(3);
    let described = |ago: u64| {
        let mut evidence = evidence.clone();
        evidence.calls.push(Call { at: at - s(ago), ..answer.clone() });
        judge(&evidence)
    };
    keeps(&described(2), FOREIGN, "its PATCH had come in before that");
    breaks(&described(4), FOREIGN);
}

#[tokio::test(start_paused = true)]
async fn a_drain_for_a_notice_that_is_minutes_old_is_seen() {
    const OLD: &str = "of an instance that runs on";
    let mut evidence = reclaimed().await;
    keeps(&judge(&evidence), OLD, "a fresh one is what it is for");
    let at = accepted(&evidence);
    let sent = (at - s(600)).strftime(TIME).to_string();
    edit_bodies(&mut evidence, |body| body["time"] = json!(sent));
    edit_first(&mut evidence, |entry| entry["time"] = json!(sent));
    breaks(&judge(&evidence), OLD);
    let (id, _) = node_of(&evidence);
    let change = |state: State, at: Moment| InstanceChange { id: id.clone(), state, at };
    let ending =
        |at: Moment| doctored(&evidence, |e| e.changes.push(change(State::ShuttingDown, at)));
    breaks(&ending(at + s(1)), OLD);
    keeps(&ending(at - s(1)), OLD, "EC2 said that it ends");
    let stopped_and_started = |e: &mut Evidence| {
        e.changes.extend([change(State::Stopping, at - s(9)), change(State::Running, at - s(1))]);
    };
    breaks(&doctored(&evidence, stopped_and_started), OLD);
    // A recommendation counts until it expires.
    let recommended = |flags: &[&str]| {
        doctored(&evidence, |e| {
            edit_bodies(e, |body| {
                body["detail-type"] = json!("EC2 Instance Rebalance Recommendation");
            });
            edit_first(e, |entry| entry["kind"] = json!("rebalance"));
            e.terms.flags[0].1.extend(flags.iter().map(|&flag| flag.to_owned()));
        })
    };
    keeps(&recommended(&["--on=rebalance=drain"]), OLD, "it expires after an hour");
    breaks(&recommended(&["--on=rebalance=drain", "--rebalance-ttl=9m"]), OLD);
}

#[tokio::test(start_paused = true)]
async fn a_record_that_calls_an_interruption_stale_that_is_not_is_seen() {
    let evidence = reclaimed().await;
    let at = accepted(&evidence);
    let stale = |age: u64, failing: &str| {
        doctored(&evidence, |e| {
            let time = (at - s(age)).strftime(TIME).to_string();
            edit_bodies(e, |body| body["time"] = json!(time));
            edit_first(e, |entry| {
                entry["time"] = json!(time);
                entry["stale"] = json!(true);
            });
            always_fails(e, failing);
        })
    };
    breaks(&stale(10, "ec2:DescribeInstances"), "stale after");
    breaks(&stale(600, ""), "stale, although all was well");
    breaks(&stale(600, "patch nodes"), "stale, although all was well");
    keeps(&stale(600, "ec2:DescribeInstances"), "stale", "nobody could be asked");
}

#[tokio::test(start_paused = true)]
async fn a_record_of_a_stop_whose_node_registered_later_is_seen_unless_ec2_could_not_be_asked() {
    const RUNS: &str = "of an instance that runs on";
    let evidence = reclaimed().await;
    let (at, (_, node)) = (accepted(&evidence), node_of(&evidence));
    let stopped = |registers: bool, is_stale: bool, failing: &str| {
        doctored(&evidence, |e| {
            let time = (at - s(40)).strftime(TIME).to_string();
            edit_bodies(e, |body| {
                body["detail-type"] = json!("EC2 Instance State-change Notification");
                body["detail"]["state"] = json!("stopped");
                body["time"] = json!(time);
            });
            edit_first(e, |entry| {
                entry["kind"] = json!("state-change");
                entry["state"] = json!("stopped");
                entry["time"] = json!(time);
                if is_stale {
                    entry["stale"] = json!(true);
                }
            });
            let is_added = |e: &&mut Entry| matches!(e.fact, Fact::NodeAdded(_));
            e.entries.iter_mut().filter(is_added).for_each(|e| e.at = at - s(60));
            if registers {
                insert(e, at - s(20), "<test>", Fact::NodeAdded(node.clone()));
            }
            always_fails(e, failing);
        })
    };
    keeps(&stopped(false, false, "none"), RUNS, "it was read in time");
    breaks(&stopped(true, false, "none"), RUNS);
    breaks(&stopped(false, true, "ec2:DescribeInstances"), "stale after");
    let unasked = stopped(true, true, "ec2:DescribeInstances");
    keeps(&unasked, "stale after", "it needs a proof at any age");
    keeps(&unasked, "stale, although all was well", "nobody could be asked");
    breaks(&stopped(true, true, "none"), "stale, although all was well");
}

#[tokio::test(start_paused = true)]
async fn a_record_that_names_another_instance_or_another_time_of_its_release_is_seen() {
    const OFF: &str = "from the moment that it says";
    let evidence = hooked().await;
    let another = |e: &mut Evidence| {
        edit_records(e, |record| record["instance"] = json!("i-0123456789abcdef0"));
    };
    breaks(&doctored(&evidence, another), "and its instance is");
    let unnamed = |e: &mut Evidence| {
        for entry in &mut e.entries {
            if let Fact::Annotated { provider_id, .. } = &mut entry.fact {
                provider_id.clear();
            }
        }
    };
    keeps(&doctored(&evidence, unnamed), "and its instance is", "its name says which it is");
    breaks(
        &doctored(&evidence, |e| {
            unnamed(e);
            another(e);
        }),
        "and its instance is",
    );
    let released = |seconds: i64, failing: &str| {
        doctored(&evidence, |e| {
            edit_records(e, |record| {
                let at = record["released"]["at"].as_str().and_then(|t| t.parse::<Moment>().ok());
                let at = at.map(|at| at + jiff::SignedDuration::from_secs(seconds));
                at.into_iter().for_each(|at| record["released"]["at"] = json!(at.to_string()));
            });
            always_fails(e, failing);
        })
    };
    breaks(&released(-3, ""), OFF);
    breaks(&released(-10, "create pods/eviction"), OFF);
    breaks(&released(3, "patch nodes"), OFF);
    keeps(&released(-10, "patch nodes"), OFF, "the PATCH was sent again for ten seconds");
    keeps(&released(0, ""), OFF, "nothing was changed");
    // The answer of the release was garbled, and that of an earlier PATCH came at the same moment.
    let unread = |seconds: i64| {
        doctored(&evidence, |e| {
            let is_patch = |r: &Request| r.verb == "patch" && r.resource == "nodes";
            let last = e.requests.iter().rposition(|r| is_patch(r) && r.subresource.is_empty());
            let release = &mut e.requests[last.unwrap()];
            let at = release.at;
            let earlier = Request { at: at - s(3), answered: Some(at), ..release.clone() };
            (release.answered, release.status) = (None, 0);
            e.requests.insert(last.unwrap(), earlier);
            edit_records(e, |record| {
                let at = record["released"]["at"].as_str().and_then(|t| t.parse::<Moment>().ok());
                let at = at.map(|at| at + jiff::SignedDuration::from_secs(seconds));
                at.into_iter().for_each(|at| record["released"]["at"] = json!(at.to_string()));
            });
        })
    };
    keeps(&unread(0), OFF, "it came in when the record says");
    breaks(&unread(3), OFF);
}

#[tokio::test(start_paused = true)]
async fn a_record_by_another_clock_than_awss_is_seen_unless_aws_had_not_answered_its_writer() {
    const OFF: &str = "was released";
    let evidence = hooked().await;
    let begun = evidence.begun;
    // AWS's clock is ahead, and these are all answers of AWS. Each took some seconds.
    let with = |ahead: u64, answers: &[(u64, &str, Outcome)]| {
        let mut evidence = evidence.clone();
        evidence.messages.iter_mut().for_each(|m| m.sent = m.sent + s(ahead));
        evidence.calls.clear();
        for (took, by, outcome) in answers {
            let [api, object] = ["sqs:GetQueueAttributes", "sundown"].map(str::to_owned);
            let (at, by, outcome) = (begun + s(*took), (*by).to_owned(), outcome.clone());
            evidence.disturbances.push(Disturbance {
                at: begun,
                until: Some(at),
                by: by.clone(),
                what: api.clone(),
                object: object.clone(),
                is_silent: false,
            });
            evidence.calls.push(Call { at, api, object, by, outcome });
        }
        evidence
    };
    let (ours, another) = ("sundown-0", "sundown-1");
    keeps(&judge(&with(60, &[])), OFF, "the process used the API server's clock");
    let answered = with(60, &[(0, another, Outcome::Ok), (0, ours, Outcome::LostBefore)]);
    keeps(&judge(&answered), OFF, "AWS has answered another process only");
    breaks(&judge(&with(60, &[(0, ours, Outcome::Ok)])), OFF);
    breaks(&judge(&with(60, &[(3, ours, Outcome::Ok)])), OFF);
    keeps(&judge(&with(3, &[(3, ours, Outcome::Ok)])), OFF, "a slow answer is not more exact");
    breaks(&judge(&with(3, &[(0, ours, Outcome::Ok)])), OFF);
    breaks(&judge(&with(3, &[(3, ours, Outcome::Ok), (0, ours, Outcome::Ok)])), OFF);
    // The first fast answer comes at the moment of the release, or before.
    let is_released = |f: &Fact| {
        matches!(
            f, Fact::Annotated { annotations, .. } if annotations.values().any(|a| a.contains("\"released\":{"))
        )
    };
    let released = when(&evidence, is_released);
    let answers_at = |at: Moment| {
        doctored(&with(3, &[(3, ours, Outcome::Ok)]), |e| {
            let call = e.calls[0].clone();
            e.calls.push(Call { at, ..call });
        })
    };
    keeps(&answers_at(released), OFF, "the release may have been written before it came");
    // The first answer comes at the moment of the release, and was slow.
    let slow_at = |at: Moment, took: u64| {
        doctored(&with(3, &[(took, ours, Outcome::Ok)]), |e| {
            (e.calls[0].at, e.disturbances[0].at) = (at, at - s(took));
            e.disturbances[0].until = Some(at);
            edit_records(e, |record| {
                let at = record["released"]["at"].as_str().and_then(|t| t.parse::<Moment>().ok());
                at.into_iter()
                    .for_each(|at| record["released"]["at"] = json!((at + s(5)).to_string()));
            });
        })
    };
    keeps(&slow_at(released, 3), OFF, "the process may have used it");
    breaks(&slow_at(released, 1), OFF);
    breaks(&slow_at(released + Duration::from_millis(1), 3), OFF);
    // No message shows AWS's clock.
    let silent = |ahead: i64| {
        doctored(&evidence, |e| {
            e.messages.clear();
            e.aws_ahead = jiff::SignedDuration::from_secs(ahead);
        })
    };
    keeps(&silent(0), OFF, "it was not ahead");
    breaks(&silent(60), OFF);
    breaks(&answers_at(released - Duration::from_millis(1)), OFF);
    let wrong = doctored(&with(60, &[]), |e| {
        edit_records(e, |record| {
            let at = record["released"]["at"].as_str().and_then(|t| t.parse::<Moment>().ok());
            at.into_iter()
                .for_each(|at| record["released"]["at"] = json!((at + s(10)).to_string()));
        });
    });
    breaks(&wrong, OFF);
}

#[tokio::test(start_paused = true)]
async fn an_old_notice_that_is_accepted_once_more_is_seen_and_a_record_that_is_written_back_is_not()
{
    const OLD: &str = "of an instance that runs on";
    let mut evidence = reclaimed().await;
    let first = accepted(&evidence);
    let at = first + s(300);
    longer(&mut evidence, at + s(5));
    let is_record = |e: &&Entry| {
        matches!(
            &e.fact,
            Fact::Annotated { annotations, .. } if annotations.contains_key("sundown.dev/record")
        )
    };
    let written = evidence.entries.iter().find(is_record).unwrap().clone();
    let patch = evidence
        .requests
        .iter()
        .rev()
        .find(|r| r.resource == "nodes" && r.verb == "patch")
        .unwrap()
        .clone();
    evidence.requests.push(Request { at, answered: Some(at), ended: Some(at), ..patch });
    let again = |says: Moment| {
        let mut evidence = evidence.clone();
        let Fact::Annotated { node, provider_id, mut annotations } = written.fact.clone() else {
            panic!()
        };
        let mut record: Value = serde_json::from_str(&annotations["sundown.dev/record"]).unwrap();
        record["interruptions"][0]["accepted"] = json!(says.to_string());
        annotations.insert("sundown.dev/record".to_owned(), record.to_string());
        let without = [("other".to_owned(), "x".to_owned())].into();
        insert(
            &mut evidence,
            at - s(1),
            "kubectl",
            Fact::Annotated {
                node: node.clone(),
                provider_id: provider_id.clone(),
                annotations: without,
            },
        );
        insert(&mut evidence, at, "sundown-0", Fact::Annotated { node, provider_id, annotations });
        judge(&evidence)
    };
    keeps(&again(first), OLD, "a person had deleted the record");
    breaks(&again(at), OLD);
}

#[tokio::test(start_paused = true)]
async fn a_late_hook_whose_action_was_over_when_its_writer_received_it_is_seen() {
    const OLD: &str = "of an instance that runs on";
    let mut evidence = hooked().await;
    let at = accepted(&evidence);
    let sent = (at - s(600)).strftime(TIME).to_string();
    edit_bodies(&mut evidence, |body| body["time"] = json!(sent));
    edit_first(&mut evidence, |entry| entry["time"] = json!(sent));
    let action = &mut evidence.actions[0];
    action.started = at - s(600);
    *action.end.as_mut().unwrap() = ActionEnd {
        at: at - s(100),
        verdict: Verdict::TimedOut(HookResult::Continue),
        by: String::new(),
    };
    let received = |by: &str| {
        doctored(&evidence, |e| {
            e.messages.iter_mut().for_each(|m| {
                m.deliveries.insert(0, Delivery { at: at - s(300), by: by.to_owned() });
            });
        })
    };
    keeps(&received("sundown-0"), OLD, "it asked while the action was open");
    breaks(&received("sundown-1"), OLD);
}

//! Judges what `--on impaired` needs: the permission to see failed status checks, and Nodes that let
//! a drain begin. No I/O.

use std::{collections::BTreeMap, sync::Arc};

use super::finding::Finding;
use crate::{
    aws::{AwsError, Group},
    cli::words::count,
    config::ImpairedConfig,
    domain::{GroupName, InstanceId, Moment, Node, Response, Selector},
    record,
    triage::impaired::{
        Census, LastHour, REPLACING, ScannedNode, Scene, block_reason, busy_groups, census,
    },
};

const POINT: &str = "impaired";
/// How many groups a finding names.
const MOST_NAMED: usize = 3;

/// Whether EC2 shows failed status checks.
pub(super) fn judge_statuses(answer: Result<usize, &AwsError>) -> Finding {
    match answer {
        Ok(failing) => {
            let message = format!(
                "EC2 answers which status checks fail (they do for {} in the region). This command \
                 cannot test the permission for SetInstanceHealth, because that call changes an \
                 instance",
                count(failing, "instance")
            );
            Finding::yes(POINT, "status checks", message)
        }
        Err(error) => Finding::of_error(POINT, "status checks", error),
    }
}

/// Whether a group replaces the instances that Sundown reports as unhealthy. `None`: nobody asks for
/// that.
pub(super) fn judge_group(group: &Group, config: Option<ImpairedConfig>) -> Option<Finding> {
    config.filter(|config| config.then_unhealthy)?;
    let is_suspended = |process: &&str| group.suspended.contains(*process);
    let suspended: Vec<&str> = REPLACING.into_iter().filter(is_suspended).collect();
    if suspended.is_empty() {
        return None;
    }
    let (name, processes) = (group.group.as_str(), suspended.join(" "));
    let message = format!(
        "it replaces no unhealthy instance ({processes} suspended): --then impaired=unhealthy has no \
         effect, and drained nodes wait"
    );
    let remedy = format!(
        "aws autoscaling resume-processes --auto-scaling-group-name {name} --scaling-processes \
         {processes}"
    );
    Some(Finding::no("group.replacement", name, message, remedy).advice())
}

/// Whether the Nodes let the drain of a sick instance begin. An outage of the API server and answers
/// of AWS are known only to the leader.
pub(super) fn judge_nodes(
    nodes: Vec<Node>,
    selector: &Selector,
    config: ImpairedConfig,
    now: Moment,
) -> Finding {
    let scan = |node: Node| ScannedNode {
        status: record::impaired_status(&node),
        last_sickness: record::last_sickness(&node),
        is_managed: selector.matches(&node.labels) && !node.ignored(),
        node: Arc::new(node),
    };
    let nodes: Vec<ScannedNode> = nodes.into_iter().map(scan).collect();
    let none: BTreeMap<InstanceId, Moment> = BTreeMap::new();
    let scene = Scene {
        now,
        nodes: &nodes,
        failing: Some(&none),
        is_index_sound: true,
        watch_failed_at: None,
        is_paused: false,
        response: Response::Drain,
    };
    let [Census { nodes: all, sick }, _] = census(&scene);
    let begun = LastHour::default().count_of_all_leaders(&scene);
    let seen = format!("{sick} of {} not Ready", count(all, "node"));
    if let Some(why) = block_reason(&scene) {
        let message = format!("{seen}: no drain of a sick instance begins, because {}", why.text());
        let remedy = "look for the common cause; see the runbook `A sick node is not drained`";
        return Finding::no(POINT, "nodes", message, remedy).advice();
    }
    if begun >= config.max_an_hour {
        let message = format!(
            "{seen}, and {} within an hour, which is as many as --max-impaired allows: the next \
             one waits",
            count(begun, "drain of a sick instance")
        );
        let remedy = "find out why these instances are sick; to drain more within an hour, raise --max-impaired";
        return Finding::no(POINT, "nodes", message, remedy).advice();
    }
    let busy = busy_groups(&scene);
    let named: Vec<&str> = busy.iter().take(MOST_NAMED).map(GroupName::as_str).collect();
    let more = if busy.len() > MOST_NAMED { ", …" } else { "" };
    let others = if busy.is_empty() {
        String::new()
    } else {
        let named = named.join(", ");
        format!("; further sick nodes of these groups wait for an earlier one: {named}{more}")
    };
    let drains = count(config.max_an_hour, "drain");
    let message = format!("{seen}; {begun} of {drains} begun within an hour{others}");
    Finding::yes(POINT, "nodes", message)
}

#[cfg(test)]
mod tests {
    use super::{super::finding::Answer, *};
    use crate::{
        domain::{Impairment, Ready, Symptom, seconds},
        record::{
            AcceptOptions,
            tests::{apply, at, id, node},
        },
    };

    const CONFIG: ImpairedConfig =
        ImpairedConfig { after: seconds(600), max_an_hour: 1, then_unhealthy: true };

    fn named(n: usize, ready: Ready) -> Node {
        let instance = Some(id(&format!("i-{n:017x}")));
        Node {
            name: format!("n{n}").as_str().into(),
            uid: n.to_string(),
            instance,
            ready,
            ..node()
        }
    }

    fn taken_on(node: &Node, second: i64) -> Node {
        let since = at(second - 600);
        let sick = Impairment { symptom: Symptom::NotReady, since, group: "asg".into() };
        let sick = sick.of(node.instance.clone().unwrap());
        let accepted = record::accept(node, &sick, at(second), &AcceptOptions::default());
        let record::Accept::Patch { body, .. } = accepted else { panic!("{accepted:?}") };
        apply(node, &body)
    }

    #[test]
    fn the_nodes_show_why_nothing_begins() {
        let all = |sick: usize| {
            let of = |n| named(n, if n < sick { Ready::Unknown } else { Ready::True });
            (0..10).map(of).collect::<Vec<_>>()
        };
        let mut one_taken_on = all(1);
        let sick = one_taken_on.remove(0);
        one_taken_on.insert(0, taken_on(&sick, 5_000));
        for (name, nodes, now, answer, words) in [
            ("well", all(0), 5_000, Answer::Yes, "0 of 10 nodes not Ready; 0 of 1 drain begun"),
            ("two are sick", all(2), 5_000, Answer::Yes, "2 of 10 nodes"),
            ("three are sick", all(3), 5_000, Answer::No, "the fault lies elsewhere"),
            ("one was taken on", one_taken_on.clone(), 6_000, Answer::No, "--max-impaired"),
            ("an hour ago", one_taken_on, 8_600, Answer::Yes, "wait for an earlier one: asg"),
        ] {
            let found = judge_nodes(nodes, &Selector::default(), CONFIG, at(now));
            assert_eq!(found.answer, answer, "{name}: {}", found.message);
            assert!(found.message.contains(words), "{name}: {}", found.message);
            assert!(answer == Answer::Yes || !found.needed, "{name}: it is advice");
        }
    }

    #[test]
    fn a_group_that_replaces_no_instance_is_reported_if_it_is_to_replace_sick_ones() {
        let group = |suspended: &[&str]| Group {
            group: "asg".into(),
            tags: BTreeMap::new(),
            capacity: crate::domain::GroupCapacity::default(),
            members: Vec::new(),
            unhealthy: std::collections::BTreeSet::new(),
            suspended: suspended.iter().map(|process| (*process).to_owned()).collect(),
            has_warm_pool: false,
            retains_abandoned: false,
        };
        for (suspended, words) in [
            (&["ReplaceUnhealthy"][..], "ReplaceUnhealthy"),
            (&["Terminate", "AZRebalance", "ReplaceUnhealthy"], "ReplaceUnhealthy Terminate"),
        ] {
            let found = judge_group(&group(suspended), Some(CONFIG)).unwrap();
            assert!(found.answer == Answer::No && !found.needed, "{found:?}");
            assert!(format!("{found:?}").contains(&format!("--scaling-processes {words}")));
        }
        assert!(judge_group(&group(&["HealthCheck", "Launch"]), Some(CONFIG)).is_none());
        let only_drained = ImpairedConfig { then_unhealthy: false, ..CONFIG };
        for config in [None, Some(only_drained)] {
            assert!(judge_group(&group(&["Terminate"]), config).is_none());
        }
    }
}

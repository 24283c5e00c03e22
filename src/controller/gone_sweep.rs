//! Looks for drained instances that are gone, and taints or deletes their Nodes
//! (`--out-of-service-taint`, `--delete-node`). [`crate::record::awaited_termination`] decides about which
//! Nodes EC2 is asked, and what follows from its answer.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use futures::{StreamExt, stream};
use tracing::{debug, info, warn};

use super::context::Term;
use crate::{
    cluster::{About, ClusterError, EventNote, EventReason, Problem, Severity},
    domain::{GoneNodes, InstanceFacts, Moment, Node, OUT_OF_SERVICE, seconds},
    observe::GoneNodeStep,
    record::{AwaitedTermination, GoneStep, GoneWait, awaited_termination},
};

/// The pause between two rounds. While no drained instance is awaited, a round costs no call.
const PAUSE: Duration = seconds(15);
/// How many Nodes are looked into at once. The lookups put their questions into few calls.
const MAX_CONCURRENT: usize = 64;
/// How long the questions and the write about one Node last at most.
const TIMEOUT: Duration = seconds(30);
/// After this time the log shows once why a Node still waits.
const LOG_AFTER: Duration = Duration::from_mins(10);

/// Runs until the end of the term. A dry run does not start it.
pub(super) async fn run(term: Arc<Term>) {
    let wanted = term.shared.config.drain.gone_nodes;
    if !wanted.any() {
        return;
    }
    term.shared.nodes.synced().await;
    let mut waiting = Waiting::default();
    loop {
        term.shared.clock.sleep_until(term.shared.clock.now().plus(PAUSE)).await;
        let nodes = term.shared.nodes.all().into_iter().filter(|node| term.manages(node));
        let awaited: Vec<(Arc<Node>, AwaitedTermination)> = nodes
            .filter_map(|node| Some((Arc::clone(&node), awaited_termination(&node, wanted)?)))
            .collect();
        waiting.keep(&awaited);
        let is_left = |node: &Node| !waiting.deleted.contains(&node.uid);
        let awaited: Vec<_> = awaited.into_iter().filter(|(node, _)| is_left(node)).collect();
        let now = term.aws_now();
        let (given_up, awaited): (Vec<_>, Vec<_>) =
            awaited.into_iter().partition(|(node, awaited)| {
                awaited.is_given_up(now, waiting.waits.contains_key(&node.uid))
            });
        for (node, awaited) in given_up {
            waiting.give_up(&term, &node, &awaited);
        }
        let checks: Vec<_> = stream::iter(awaited)
            .map(|(node, awaited)| check_in_time(&term, node, awaited, wanted))
            .buffer_unordered(MAX_CONCURRENT)
            .collect()
            .await;
        for (node, awaited, wait) in checks {
            waiting.note(&node, &awaited, wait, now);
        }
    }
}

async fn check_in_time(
    term: &Term,
    node: Arc<Node>,
    awaited: AwaitedTermination,
    wanted: GoneNodes,
) -> (Arc<Node>, AwaitedTermination, Checked) {
    let check = tokio::time::timeout(TIMEOUT, check(term, &node, &awaited, wanted));
    let wait = check.await.unwrap_or_else(|_| {
        debug!(node = %node.name, "No answer in time whether a drained instance is gone.");
        Checked::Waits(GoneWait::Unanswered)
    });
    (node, awaited, wait)
}

/// What the check of a Node has shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Checked {
    /// The Node stays as it is for now, because of this.
    Waits(GoneWait),
    /// The API server has accepted the deletion. Finalizers may keep the Node for a while.
    Deleted,
    /// Nothing is left to do.
    Done,
}

/// Asks EC2, and does what follows.
async fn check(
    term: &Term,
    node: &Node,
    awaited: &AwaitedTermination,
    wanted: GoneNodes,
) -> Checked {
    let asking =
        term.shared.lookups.instances.get_since(&awaited.instance, tokio::time::Instant::now());
    let found = match asking.await {
        Ok((_, found)) => found,
        Err(error) if error.is_denied() => {
            if term.is_first_report("whether drained instances are gone") {
                warn!(
                    %error,
                    "Sundown cannot ask EC2 whether drained instances are gone: it taints and \
                     deletes no nodes. Allow ec2:DescribeInstances in the role's policy."
                );
            }
            return Checked::Waits(GoneWait::Denied);
        }
        Err(error) => {
            debug!(node = %node.name, %error, "No answer whether a drained instance is gone.");
            return Checked::Waits(GoneWait::Unanswered);
        }
    };
    match next(term, node, awaited, found.as_deref(), wanted) {
        GoneStep::Wait(wait) => Checked::Waits(wait),
        GoneStep::Done => Checked::Done,
        GoneStep::Taint(_) | GoneStep::Delete => {
            write(term, node, awaited, found.as_deref(), wanted).await
        }
    }
}

fn next(
    term: &Term,
    node: &Node,
    awaited: &AwaitedTermination,
    found: Option<&InstanceFacts>,
    wanted: GoneNodes,
) -> GoneStep {
    let claims = term.shared.nodes.by_instance(&awaited.instance).len();
    awaited.next(node, found, claims, wanted, term.aws_now())
}

/// Decides again by the newest version of the Node while no other task writes it, and writes that.
async fn write(
    term: &Term,
    node: &Node,
    awaited: &AwaitedTermination,
    found: Option<&InstanceFacts>,
    wanted: GoneNodes,
) -> Checked {
    // The slot first, as in `node_writer`.
    let _slot = term.node_write_slot().await;
    let _lock = term.lock_node(&node.name).await;
    let Some(node) = term.shared.nodes.get(&node.name).filter(|now| now.uid == node.uid) else {
        return Checked::Done;
    };
    if awaited_termination(&node, wanted).as_ref() != Some(awaited) || !term.manages(&node) {
        return Checked::Done;
    }
    let (answer, what) = match next(term, &node, awaited, found, wanted) {
        GoneStep::Taint(patch) => {
            let answer = term.shared.nodes.patch(&node.name, &patch).await;
            (answer.map(|_| GoneNodeStep::Tainted), "set the out-of-service taint of")
        }
        GoneStep::Delete => {
            let answer = term.shared.nodes.delete(&node).await;
            (answer.map(|()| GoneNodeStep::Deleted), "delete")
        }
        GoneStep::Wait(wait) => return Checked::Waits(wait),
        GoneStep::Done => return Checked::Done,
    };
    match answer {
        Ok(step) => written(term, &node, awaited, step),
        Err(error) => Checked::Waits(failed(term, &node, &error, what)),
    }
}

/// Counts and logs a change that the API server has accepted, and writes an Event about it.
fn written(term: &Term, node: &Node, awaited: &AwaitedTermination, step: GoneNodeStep) -> Checked {
    term.shared.metrics.gone_node(step);
    let instance = &awaited.instance;
    if step == GoneNodeStep::Deleted {
        info!(
            node = %node.name, %instance,
            "The drained instance is gone: its node is deleted."
        );
        let message = format!("EC2 has terminated instance {instance}: Sundown deleted the node.");
        note(term, node, Severity::Normal, EventReason::NodeDeleted, message);
        return Checked::Deleted;
    }
    info!(
        node = %node.name, %instance,
        "The drained instance is gone: its node has the out-of-service taint."
    );
    let message = format!(
        "EC2 has terminated instance {instance}: Sundown set the taint {OUT_OF_SERVICE}, and \
         Kubernetes deletes the pods that are left and detaches their volumes."
    );
    note(term, node, Severity::Normal, EventReason::OutOfServiceTaintSet, message);
    Checked::Done
}

fn note(term: &Term, node: &Node, severity: Severity, reason: EventReason, message: String) {
    term.note(EventNote { about: About::Node(node.name.clone()), severity, reason, message });
}

/// The API server has not taken the change.
fn failed(term: &Term, node: &Node, error: &ClusterError, what: &'static str) -> GoneWait {
    if !matches!(error.problem, Problem::Forbidden | Problem::NotAdmitted) {
        debug!(node = %node.name, %error, what, "Trying again in the next round.");
        return GoneWait::NotChanged;
    }
    term.shared.metrics.gone_node(GoneNodeStep::Denied);
    if term.is_first_report(what) {
        warn!(
            node = %node.name, %error, what,
            "Sundown may not change the node of an instance that is gone. Allow `delete nodes` \
             (chart: rbac.deleteNode), let the policy or webhook admit it, or leave out \
             --delete-node and --out-of-service-taint."
        );
    }
    GoneWait::NotAllowed
}

/// The Nodes that wait for the end of their instances, for the log.
#[derive(Debug, Default)]
struct Waiting {
    /// By UID.
    waits: BTreeMap<String, Wait>,
    /// The UIDs of deleted Nodes that the index still shows.
    deleted: BTreeSet<String>,
}

#[derive(Debug)]
struct Wait {
    began: Moment,
    why: GoneWait,
    is_logged: bool,
    is_given_up: bool,
}

impl Waiting {
    fn keep(&mut self, awaited: &[(Arc<Node>, AwaitedTermination)]) {
        let uids: BTreeSet<&str> = awaited.iter().map(|(node, _)| node.uid.as_str()).collect();
        self.waits.retain(|uid, _| uids.contains(uid.as_str()));
        self.deleted.retain(|uid| uids.contains(uid.as_str()));
    }

    fn note(&mut self, node: &Node, awaited: &AwaitedTermination, check: Checked, now: Moment) {
        let why = match check {
            Checked::Waits(why) => why,
            Checked::Done => {
                self.waits.remove(&node.uid);
                return;
            }
            Checked::Deleted => {
                self.waits.remove(&node.uid);
                self.deleted.insert(node.uid.clone());
                return;
            }
        };
        let new = || Wait { began: now, why, is_logged: false, is_given_up: false };
        let wait = self.waits.entry(node.uid.clone()).or_insert_with(new);
        wait.why = why;
        if !wait.is_logged && now >= wait.began.plus(LOG_AFTER) {
            wait.is_logged = true;
            info!(
                node = %node.name, instance = %awaited.instance, why = %why,
                "The node of a drained instance is not tainted or deleted yet."
            );
        }
    }

    fn give_up(&mut self, term: &Term, node: &Node, awaited: &AwaitedTermination) {
        if let Some(wait) = self.waits.get_mut(&node.uid).filter(|wait| !wait.is_given_up) {
            wait.is_given_up = true;
            warn!(
                node = %node.name, instance = %awaited.instance, why = %wait.why,
                "The drain ended an hour ago, and Sundown has not tainted or deleted the node. It no \
                 longer tries: once the instance has ended, delete its node by hand."
            );
            let message = format!(
                "Sundown stopped waiting for the end of instance {}, an hour after its drain: {}.",
                awaited.instance, wait.why
            );
            note(term, node, Severity::Warning, EventReason::NodeKept, message);
        }
    }
}

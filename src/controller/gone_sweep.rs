//! Looks for drained instances that are gone, and taints or deletes their Nodes
//! (`--out-of-service-taint`, `--delete-node`). [`crate::record::awaited_end`] decides about which
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
    cluster::{ClusterError, Problem},
    domain::{GoneNodes, InstanceFacts, Moment, Node, seconds},
    observe::GoneNodeStep,
    record::{AwaitedEnd, EndStep, EndWait, awaited_end},
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
        let awaited: Vec<(Arc<Node>, AwaitedEnd)> =
            nodes.filter_map(|node| awaited_end(&node).map(|awaited| (node, awaited))).collect();
        waiting.keep(&awaited);
        let is_left = |node: &Node| !waiting.deleted.contains(&node.uid);
        let awaited: Vec<_> = awaited.into_iter().filter(|(node, _)| is_left(node)).collect();
        let now = term.aws_now();
        let (given_up, awaited): (Vec<_>, Vec<_>) =
            awaited.into_iter().partition(|(_, awaited)| awaited.is_given_up(now));
        for (node, awaited) in given_up {
            waiting.give_up(&node, &awaited);
        }
        let looks: Vec<_> = stream::iter(awaited)
            .map(|(node, awaited)| look_in_time(&term, node, awaited, wanted))
            .buffer_unordered(MAX_CONCURRENT)
            .collect()
            .await;
        for (node, awaited, wait) in looks {
            waiting.note(&node, &awaited, wait, now);
        }
    }
}

async fn look_in_time(
    term: &Term,
    node: Arc<Node>,
    awaited: AwaitedEnd,
    wanted: GoneNodes,
) -> (Arc<Node>, AwaitedEnd, Look) {
    let look = tokio::time::timeout(TIMEOUT, look(term, &node, &awaited, wanted));
    let wait = look.await.unwrap_or_else(|_| {
        debug!(node = %node.name, "No answer in time whether a drained instance is gone.");
        Look::Failed
    });
    (node, awaited, wait)
}

/// What a look at a Node has shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Look {
    /// The Node stays as it is for now, because of this.
    Waits(EndWait),
    /// EC2 or the API server did not answer, or refused.
    Failed,
    /// The API server has accepted the deletion. Finalizers may keep the Node for a while.
    Deleted,
    /// Nothing is left to do.
    Done,
}

/// Asks EC2, and does what follows.
async fn look(term: &Term, node: &Node, awaited: &AwaitedEnd, wanted: GoneNodes) -> Look {
    let asking =
        term.shared.lookups.instances.get_since(&awaited.instance, tokio::time::Instant::now());
    let found = match asking.await {
        Ok((_, found)) => found,
        Err(error) => {
            let first = "whether drained instances are gone";
            if error.is_denied() && term.is_first_report(first) {
                warn!(
                    %error,
                    "Sundown cannot ask EC2 whether drained instances are gone: it taints and \
                     deletes no nodes. Allow ec2:DescribeInstances in the role's policy."
                );
            } else {
                debug!(node = %node.name, %error, "No answer whether a drained instance is gone.");
            }
            return Look::Failed;
        }
    };
    match awaited.next(node, found.as_deref(), wanted, term.aws_now()) {
        EndStep::Wait(wait) => Look::Waits(wait),
        EndStep::Done => Look::Done,
        EndStep::Taint(_) | EndStep::Delete => {
            write(term, node, awaited, found.as_deref(), wanted).await
        }
    }
}

/// Decides again by the newest version of the Node while no other task writes it, and writes that.
async fn write(
    term: &Term,
    node: &Node,
    awaited: &AwaitedEnd,
    found: Option<&InstanceFacts>,
    wanted: GoneNodes,
) -> Look {
    // The slot first, as in `node_writer`.
    let _slot = term.node_write_slot().await;
    let _lock = term.lock_node(&node.name).await;
    let Some(node) = term.shared.nodes.get(&node.name).filter(|now| now.uid == node.uid) else {
        return Look::Done;
    };
    if awaited_end(&node).as_ref() != Some(awaited) || !term.manages(&node) {
        return Look::Done;
    }
    let (answer, what) = match awaited.next(&node, found, wanted, term.aws_now()) {
        EndStep::Taint(patch) => {
            let answer = term.shared.nodes.patch(&node.name, &patch).await;
            (answer.map(|_| GoneNodeStep::Tainted), "set the out-of-service taint of")
        }
        EndStep::Delete => {
            let answer = term.shared.nodes.delete(&node).await;
            (answer.map(|()| GoneNodeStep::Deleted), "delete")
        }
        EndStep::Wait(wait) => return Look::Waits(wait),
        EndStep::Done => return Look::Done,
    };
    match answer {
        Ok(step) => {
            term.shared.metrics.gone_node(step);
            let is_deleted = step == GoneNodeStep::Deleted;
            if is_deleted {
                info!(
                    node = %node.name, instance = %awaited.instance,
                    "The drained instance is gone: its node is deleted."
                );
            } else {
                info!(
                    node = %node.name, instance = %awaited.instance,
                    "The drained instance is gone: its node has the out-of-service taint."
                );
            }
            if is_deleted { Look::Deleted } else { Look::Done }
        }
        Err(error) => {
            failed(term, &node, &error, what);
            Look::Failed
        }
    }
}

fn failed(term: &Term, node: &Node, error: &ClusterError, what: &'static str) {
    let is_denied = matches!(error.problem, Problem::Forbidden | Problem::NotAdmitted);
    if is_denied {
        term.shared.metrics.gone_node(GoneNodeStep::Denied);
    }
    if is_denied && term.is_first_report(what) {
        warn!(
            node = %node.name, %error, what,
            "Sundown may not change the node of an instance that is gone. Allow `delete nodes` \
             (chart: rbac.deleteNode), let the policy or webhook admit it, or leave out \
             --delete-node and --out-of-service-taint."
        );
    } else {
        debug!(node = %node.name, %error, what, "Trying again in the next round.");
    }
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
    why: EndWait,
    is_logged: bool,
}

impl Waiting {
    fn keep(&mut self, awaited: &[(Arc<Node>, AwaitedEnd)]) {
        let uids: BTreeSet<&str> = awaited.iter().map(|(node, _)| node.uid.as_str()).collect();
        self.waits.retain(|uid, _| uids.contains(uid.as_str()));
        self.deleted.retain(|uid| uids.contains(uid.as_str()));
    }

    fn note(&mut self, node: &Node, awaited: &AwaitedEnd, look: Look, now: Moment) {
        let why = match look {
            Look::Waits(why) => why,
            Look::Done => {
                self.waits.remove(&node.uid);
                return;
            }
            Look::Deleted => {
                self.waits.remove(&node.uid);
                self.deleted.insert(node.uid.clone());
                return;
            }
            Look::Failed => return,
        };
        let new = || Wait { began: now, why, is_logged: false };
        let wait = self.waits.entry(node.uid.clone()).or_insert_with(new);
        wait.why = why;
        if !wait.is_logged && now >= wait.began.plus(LOG_AFTER) {
            wait.is_logged = true;
            info!(
                node = %node.name, instance = %awaited.instance, why = %why,
                "The node of a drained instance still waits for the end of the instance."
            );
        }
    }

    fn give_up(&mut self, node: &Node, awaited: &AwaitedEnd) {
        if let Some(wait) = self.waits.remove(&node.uid) {
            warn!(
                node = %node.name, instance = %awaited.instance, why = %wait.why,
                "The drain ended an hour ago, and the instance is not gone. Sundown no longer waits \
                 for that: if the instance ends, delete its node by hand."
            );
        }
    }
}

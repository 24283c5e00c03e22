//! `sundown pause`, `hold`, `resume`, `force` and `release`: write annotations that the leader
//! obeys.

use std::{fmt, process::ExitCode};

use anyhow::{Context as _, bail};
use clap::Args;
use serde_json::json;

use super::{
    people::{connect_kube, lease_search, print_line},
    status::read::named,
};
use crate::{
    cluster::{
        self, Cluster, KeepLabels, Priority, Target,
        lease::{LeaseError, find_lease, pauses_all, set_paused},
    },
    config::{KubeArgs, LeaseArgs},
    domain::{FORCE, Node, NodeName, PAUSE, RELEASE, with_causes},
    fleet::PausedBy,
    record::{self, RecordStatus},
    runtime::{Clock, Random, Spawner},
};

/// What to do if Kubernetes refuses the change.
const LOOK_AT: &str = "look at --kubeconfig, --context, the way to its API server, and your rights";

fn unchanged() -> String {
    format!("nothing was changed ({LOOK_AT})")
}

/// There is no drain that the order could be for, so nothing was changed.
#[derive(Debug, thiserror::Error)]
#[error("{node} is not being drained ({why}), so there is nothing to {order}; nothing was changed")]
pub(super) struct NoDrain {
    node: NodeName,
    why: String,
    order: Order,
}

/// What a person orders for one drain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    Release,
    Force,
}

impl Order {
    const fn annotation(self) -> &'static str {
        match self {
            Self::Release => RELEASE,
            Self::Force => FORCE,
        }
    }

    /// What follows. `paused_by`: what pauses the drain, as far as is known.
    fn result(self, node: &NodeName, paused_by: PausedBy) -> String {
        let ignores = format!("the drain of {node} ignores budgets, gates and other drains");
        match (self, paused_by) {
            (Self::Release, _) => {
                format!("The leader ends the drain of {node} and completes its lifecycle actions.")
            }
            (Self::Force, PausedBy::Node) => {
                format!("The drain of {node} is paused. After `sundown resume {node}`, {ignores}.")
            }
            (Self::Force, PausedBy::Lease) => {
                format!("All drains are paused. After `sundown resume`, {ignores}.")
            }
            (Self::Force, PausedBy::Both) => format!(
                "All drains are paused, and so is {node}. After `sundown resume` and `sundown \
                 resume {node}`, {ignores}."
            ),
            (Self::Force, PausedBy::Nothing) => format!(
                "The drain of {node} no longer waits for budgets, gates and other drains. Sundown \
                 evicts each pod first, and deletes it if the eviction is refused. `sundown status \
                 {node}` shows what is left."
            ),
        }
    }
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Release => "release",
            Self::Force => "force",
        })
    }
}

/// The flags of `sundown pause` and `sundown resume`.
#[derive(Debug, Clone, Args)]
pub(super) struct PauseArgs {
    /// One node instead of all, by its name or by the ID of its instance
    #[arg(value_name = "NODE|INSTANCE")]
    node: Option<String>,
    #[command(flatten)]
    lease: LeaseArgs,
    #[command(flatten)]
    kube: KubeArgs,
}

/// The flags of `sundown hold`.
#[derive(Debug, Clone, Args)]
pub(super) struct HoldArgs {
    /// The node whose drain is paused, by its name or by the ID of its instance. `sundown resume
    /// NODE` lets it go on
    #[arg(value_name = "NODE|INSTANCE")]
    node: String,
    #[command(flatten)]
    kube: KubeArgs,
}

/// The flags of `sundown force`.
#[derive(Debug, Clone, Args)]
pub(super) struct ForceArgs {
    /// The node whose drain is forced, by its name or by the ID of its instance. Sundown evicts
    /// each pod first. If the eviction is refused, Sundown deletes the pod with its grace period,
    /// or the time that is left if that is shorter. A pod whose eviction finds no slot within two
    /// seconds is deleted without one
    #[arg(value_name = "NODE|INSTANCE")]
    node: String,
    #[command(flatten)]
    lease: LeaseArgs,
    #[command(flatten)]
    kube: KubeArgs,
}

/// The flags of `sundown release`.
#[derive(Debug, Clone, Args)]
pub(super) struct ReleaseArgs {
    /// The node whose drain ends, by its name or by the ID of its instance. If a lifecycle hook
    /// waits it is completed now, and the instance goes
    #[arg(value_name = "NODE|INSTANCE")]
    node: String,
    #[command(flatten)]
    kube: KubeArgs,
}

pub(super) fn pause(args: PauseArgs, on: bool) -> anyhow::Result<ExitCode> {
    let word = if on { "paused" } else { "resumed" };
    block_on(async move {
        let client = connect_kube(&args.kube).await?;
        if let Some(node) = args.node {
            return pause_node(client, &node, on).await;
        }
        let unchanged = || format!("the drains are as they were ({LOOK_AT})");
        let search = lease_search(&args.lease);
        let found = find_lease(&client, &search).await.with_context(unchanged)?;
        let (place, _) =
            found.ok_or_else(|| LeaseError::missing(&search.place())).with_context(unchanged)?;
        let changed = set_paused(client, &place, on).await.with_context(unchanged)?;
        let already = if changed { "" } else { " already" };
        print_line(&format!(
            "All drains are {word}{already} (Lease {}/{}).",
            place.namespace, place.name
        ));
        Ok(())
    })
}

pub(super) fn hold(args: &HoldArgs) -> anyhow::Result<ExitCode> {
    block_on(async move { pause_node(connect_kube(&args.kube).await?, &args.node, true).await })
}

async fn pause_node(client: kube::Client, node: &str, on: bool) -> anyhow::Result<()> {
    let found = read(&client, &name(node)?).await?;
    annotate(client, &found.name, PAUSE, if on { Some("true") } else { None }).await?;
    print_line(&of_node(&found, on));
    Ok(())
}

/// The result for one node. `found`: the node before the command.
fn of_node(found: &Node, on: bool) -> String {
    let node = &found.name;
    match (on, refusal(found).is_some(), found.paused()) {
        (true, false, _) => format!("The drain of {node} is paused."),
        (true, true, _) => format!(
            "{node} is not being drained. Its next drain will wait until `sundown resume {node}`."
        ),
        (false, false, true) => format!("The drain of {node} is resumed."),
        (false, false, false) => format!(
            "The drain of {node} was not paused by itself. If all drains are paused, `sundown \
             resume` resumes them."
        ),
        (false, true, true) => {
            format!("{node} is not being drained. Its next drain will not wait.")
        }
        (false, true, false) => format!(
            "{node} is not being drained and was not paused, so there was nothing to resume."
        ),
    }
}

pub(super) fn release(args: &ReleaseArgs) -> anyhow::Result<ExitCode> {
    order(Order::Release, &args.node, &args.kube, None)
}

pub(super) fn force(args: &ForceArgs) -> anyhow::Result<ExitCode> {
    order(Order::Force, &args.node, &args.kube, Some(&args.lease))
}

/// Writes the annotation of an order. `lease`: where to look whether all drains are paused; `None`:
/// a pause does not change what follows.
fn order(
    order: Order,
    node: &str,
    kube: &KubeArgs,
    lease: Option<&LeaseArgs>,
) -> anyhow::Result<ExitCode> {
    block_on(async move {
        let client = connect_kube(kube).await?;
        let found = read(&client, &name(node)?).await?;
        let node = found.name.clone();
        // Without a drain the annotation would stay until the next accept, and do nothing.
        if let Some(why) = refusal(&found) {
            return Err(NoDrain { node, why, order }.into());
        }
        annotate(client.clone(), &node, order.annotation(), Some("true")).await?;
        let are_all_paused = match lease {
            Some(lease) => are_all_paused(&client, lease).await,
            None => Ok(false),
        };
        print_line(&ordered(order, &node, &are_all_paused, found.paused()));
        Ok(())
    })
}

/// The result of an order. If the Lease could not be read, the order holds all the same, but it may
/// have no effect yet.
fn ordered(
    order: Order,
    node: &NodeName,
    are_all_paused: &Result<bool, LeaseError>,
    is_paused: bool,
) -> String {
    let all = are_all_paused.as_ref().is_ok_and(|all| *all);
    let result = order.result(node, PausedBy::of(all, is_paused));
    match are_all_paused {
        Ok(_) => result,
        Err(error) => {
            let why = with_causes(error);
            format!("{result} It is not known whether all drains are paused: {why}.")
        }
    }
}

/// Whether all drains are paused. Without a Lease, they are not.
async fn are_all_paused(client: &kube::Client, lease: &LeaseArgs) -> Result<bool, LeaseError> {
    let found = find_lease(client, &lease_search(lease)).await?;
    Ok(found.is_some_and(|(_, lease)| pauses_all(&lease)))
}

/// Finds a node by its name, its instance ID, or the first label of its name.
async fn read(client: &kube::Client, node: &NodeName) -> anyhow::Result<Node> {
    let (cluster, keep) = (plain(client.clone()), KeepLabels::keys([]));
    if let Some(found) = cluster::read_node(&cluster, &keep, node).await.context(unchanged())? {
        return Ok(found);
    }
    if node.as_str().contains('.') {
        // It cannot be an instance ID or the first label of a name.
        bail!("there is no node `{node}`; nothing was changed");
    }
    let nodes = cluster::list_nodes(&cluster, &keep).await.context(unchanged())?;
    let name = named(&nodes, node.as_str())
        .map_err(|error| anyhow::anyhow!("{error}; nothing was changed"))?;
    let found = nodes.into_iter().find(|node| node.name == name);
    found.with_context(|| format!("there is no node `{node}`; nothing was changed"))
}

/// Why there is no drain of this node; `None`: there is one, or there may be.
fn refusal(node: &Node) -> Option<String> {
    match record::status(node, None) {
        RecordStatus::Open(_) => None,
        RecordStatus::Doubtful { record, .. } if record.released().is_none() => None,
        // The record was deleted or damaged, but the leader may still have it in memory.
        RecordStatus::None | RecordStatus::Damaged(_) if node.has_our_taint() => None,
        RecordStatus::None => Some("it has no record".to_owned()),
        RecordStatus::Released { .. } | RecordStatus::Doubtful { .. } => {
            Some("its record shows that it is released already".to_owned())
        }
        RecordStatus::Void { .. } => {
            Some("its record is of another instance or of an earlier boot".to_owned())
        }
        RecordStatus::Damaged(damage) => Some(damage.to_string()),
    }
}

/// Sets or removes an annotation of a Node.
async fn annotate(
    client: kube::Client,
    node: &NodeName,
    key: &str,
    value: Option<&str>,
) -> anyhow::Result<()> {
    let cluster = plain(client);
    let patch = json!({"metadata": {"annotations": {key: value}}});
    let request = http::Request::patch(format!("/api/v1/nodes/{node}"))
        .header(http::header::CONTENT_TYPE, "application/merge-patch+json")
        .body(serde_json::to_vec(&patch)?)?;
    cluster
        .call(Target::PatchNode, Priority::Ordinary, node.as_str(), request)
        .await
        .context(unchanged())?;
    Ok(())
}

fn plain(client: kube::Client) -> Cluster {
    Cluster::plain(client, Clock::system(), Random::from_entropy(), Spawner::new())
}

/// The name of a node; errs if no node can have it.
pub(super) fn name(text: &str) -> anyhow::Result<NodeName> {
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-.".contains(&b)) {
        bail!("`{text}` cannot be the name of a node");
    }
    Ok(NodeName::from(text))
}

fn block_on(work: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<ExitCode> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work)?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::lease::LeasePlace;

    fn node(annotations: &[(&str, &str)], is_tainted: bool) -> Node {
        let taint = crate::domain::Taint {
            key: crate::domain::TAINT.to_owned(),
            value: None,
            effect: "NoSchedule".to_owned(),
            time_added: None,
        };
        Node {
            unschedulable: is_tainted,
            taints: is_tainted.then_some(taint).into_iter().collect(),
            annotations: annotations
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect(),
            ..Node::for_test("n")
        }
    }

    #[test]
    fn pause_and_resume_report_what_they_changed_or_that_there_was_nothing_to_do() {
        for (is_drained, is_paused, on, words) in [
            (true, false, true, "The drain of n is paused."),
            (false, false, true, "n is not being drained. Its next drain will wait"),
            (true, true, false, "The drain of n is resumed."),
            (true, false, false, "was not paused by itself"),
            (false, true, false, "n is not being drained. Its next drain will not wait."),
            (false, false, false, "nothing to resume"),
        ] {
            let annotations: &[(&str, &str)] = if is_paused { &[(PAUSE, "true")] } else { &[] };
            let text = of_node(&node(annotations, is_drained), on);
            assert!(text.contains(words), "{text} instead of {words}");
        }
    }

    #[test]
    fn an_order_names_what_follows_and_a_paused_drain_is_forced_only_after_the_pause() {
        for (order, paused_by, words) in [
            (Order::Release, PausedBy::Node, "The leader ends the drain of n"),
            (
                Order::Force,
                PausedBy::Nothing,
                "The drain of n no longer waits for budgets, gates and other drains.",
            ),
            (
                Order::Force,
                PausedBy::Node,
                "paused. After `sundown resume n`, the drain of n ignores",
            ),
            (
                Order::Force,
                PausedBy::Lease,
                "All drains are paused. After `sundown resume`, the drain",
            ),
            (
                Order::Force,
                PausedBy::Both,
                "After `sundown resume` and `sundown resume n`, the drain",
            ),
        ] {
            let text = order.result(&"n".into(), paused_by);
            assert!(text.contains(words), "{text} instead of {words}");
        }
        let place = LeasePlace { namespace: "a".to_owned(), name: "b".to_owned() };
        let error = || Err(LeaseError::missing(&place));
        for (are_all_paused, is_unknown) in [(Ok(false), false), (Ok(true), false), (error(), true)]
        {
            let text = ordered(Order::Force, &"n".into(), &are_all_paused, false);
            let unknown = "It is not known whether all drains are paused: ";
            assert_eq!(text.contains(unknown), is_unknown, "{text}");
        }
        let refused = NoDrain { node: "n".into(), why: "why".to_owned(), order: Order::Force };
        assert!(refused.to_string().contains("so there is nothing to force"), "{refused}");
    }
}

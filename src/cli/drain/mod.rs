//! `sundown drain`: writes, removes and follows the annotations by which people ask for the drain
//! of nodes.

mod order;
mod progress;
mod result;
mod wait;

use std::{process::ExitCode, time::Duration};

use anyhow::Context as _;
use clap::{ArgAction, Args, builder::PossibleValuesParser};
use futures::{StreamExt as _, stream};

pub(super) use self::order::BadOrder;
use self::{order::EveryNode, progress::Asked};
use super::{
    people::{block_on, connect_kube, lease_search, print_line},
    print_error,
    status::read::named,
};
use crate::{
    cluster::{
        self, Cluster, KeepLabels, RequestedNode,
        lease::{find_lease, pauses_all},
    },
    config::{KubeArgs, LeaseArgs, parse_duration},
    domain::{DrainRequest, Moment, Node, NodeName, RequestStage, Selector, with_causes},
    fleet::PausedBy,
    runtime::{Clock, Random, Spawner},
};

/// How many Nodes are read or written at once.
const AT_ONCE: usize = 8;
/// What to do if Kubernetes refuses a call.
const LOOK_AT: &str = "nothing was changed (look at --kubeconfig, --context, and your rights)";

/// The flags of `sundown drain`.
#[derive(Debug, Clone, Args)]
pub(super) struct DrainArgs {
    /// The nodes to drain, by their names or by the IDs of their instances. At most 500
    #[arg(
        value_name = "NODE|INSTANCE",
        required_unless_present_any = ["selector", "all_nodes"],
        conflicts_with_all = ["selector", "all_nodes"],
    )]
    nodes: Vec<String>,
    /// The nodes with these labels instead, as for `kubectl -l`. At most 500
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    selector: Option<Selector>,
    /// Give it twice if you mean every node of the cluster. Otherwise a selector that matches every
    /// node is refused
    #[arg(long, action = ArgAction::Count)]
    all_nodes: u8,
    /// The name of the request, which shows who asks. Default: your user name ($USER), or else
    /// `cli`. A request replaces the one of the same name
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Why, in one line of at most 200 characters, without `;`. Logs, Events and `sundown status`
    /// show it
    #[arg(long, value_name = "TEXT", conflicts_with = "cancel")]
    reason: Option<String>,
    /// When the drain ends even if pods are left: an RFC 3339 time, or a duration from now such as
    /// 2h. Without it the drain ends when the node is empty
    #[arg(long, value_name = "TIME|DURATION", conflicts_with = "cancel")]
    deadline: Option<String>,
    /// `cordon`: the pods stay
    #[arg(
        long,
        value_name = "STAGE",
        default_value = RequestStage::Drain.as_str(),
        value_parser = PossibleValuesParser::new(RequestStage::ALL.map(RequestStage::as_str)),
    )]
    stage: String,
    /// Remove the request. Sundown restores a node when the last request is gone, unless AWS takes
    /// its instance
    #[arg(long, conflicts_with = "wait")]
    cancel: bool,
    /// Wait until each drain has ended, and print each change. Ctrl-C ends only the wait
    #[arg(long)]
    wait: bool,
    /// The longest wait. Without it there is no limit
    #[arg(long, value_name = "DURATION", requires = "wait", value_parser = parse_duration)]
    wait_timeout: Option<Duration>,
    #[command(flatten)]
    lease: LeaseArgs,
    #[command(flatten)]
    kube: KubeArgs,
}

impl DrainArgs {
    fn every_node(&self) -> EveryNode {
        if self.cancel || self.all_nodes > 1 { EveryNode::Allowed } else { EveryNode::Refused }
    }

    fn given(&self) -> order::Given<'_> {
        order::Given {
            stage: RequestStage::from_word(&self.stage).unwrap_or_default(),
            deadline: self.deadline.as_deref(),
            reason: self.reason.as_deref(),
        }
    }
}

pub(super) fn main(args: &DrainArgs) -> anyhow::Result<ExitCode> {
    block_on(run(args))
}

async fn run(args: &DrainArgs) -> anyhow::Result<ExitCode> {
    let name = order::requester(args.name.as_deref(), std::env::var("USER").ok().as_deref())?;
    order::at_most(args.nodes.len())?;
    let client = connect_kube(&args.kube).await?;
    let (clock, random) = (Clock::system(), Random::from_entropy());
    let cluster = Cluster::plain(client.clone(), clock, random, Spawner::new());
    let Found { nodes, failed } = find(&cluster, args, &name).await?;
    if nodes.is_empty() && failed == 0 {
        print_line(&format!("No node has a request {name}, so nothing was changed."));
        return Ok(ExitCode::SUCCESS);
    }
    let now = now(&cluster);
    let request = if args.cancel { None } else { Some(order::request(&name, args.given(), now)?) };
    let are_all_paused = show_leader(&client, &args.lease, now).await;

    let write = |before: RequestedNode| {
        let (cluster, request, name) = (&cluster, request.as_ref(), name.as_str());
        async move {
            let after = write(cluster, &before, name, request).await;
            (before, after)
        }
    };
    let mut written = stream::iter(nodes).map(write).buffered(AT_ONCE);
    let (mut asked, mut failed) = (Vec::new(), failed);
    while let Some((before, after)) = written.next().await {
        let after = match after {
            Ok(after) => after,
            Err(error) => {
                print_error(&format!("{}: {}", before.node.name, with_causes(&error)));
                failed += 1;
                continue;
            }
        };
        if let Some(request) = &request {
            let paused = PausedBy::of(are_all_paused, after.node.paused());
            print_line(&result::requested(&before, &after, request, paused));
            asked.push(Asked::new(&before, &after, request, now));
        } else {
            print_line(&result::cancelled(&before, &after, &name));
        }
    }
    let own = if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    if !args.wait || asked.is_empty() {
        return Ok(own);
    }
    let waited = wait::wait(&client, &cluster, asked, args.wait_timeout).await?;
    Ok(if waited == ExitCode::SUCCESS { own } else { waited })
}

/// The time by the API server's clock.
fn now(cluster: &Cluster) -> Moment {
    cluster.clock().now() + cluster.server_skew()
}

/// Writes `request` into its annotation; `None`: removes the annotation of the requester `name`.
/// Makes no call if the Node is as it should be. Returns the Node after that.
async fn write(
    cluster: &Cluster,
    before: &RequestedNode,
    name: &str,
    request: Option<&DrainRequest>,
) -> Result<RequestedNode, cluster::ClusterError> {
    let value = request.map(DrainRequest::value);
    if before.requests.get(name) == value.as_ref() {
        return Ok(before.clone());
    }
    let key = DrainRequest::key_of(name);
    cluster::write_drain_request(cluster, &before.node, &key, value.as_deref()).await
}

/// Warns if no replica leads. Returns whether the Lease pauses all drains; `false` if the Lease
/// cannot be read.
async fn show_leader(client: &kube::Client, lease: &LeaseArgs, now: Moment) -> bool {
    let found = find_lease(client, &lease_search(lease)).await.map_err(|e| with_causes(&e));
    let lease = match &found {
        Ok(found) => Ok(found.as_ref().map(|(_, lease)| lease)),
        Err(why) => Err(why.as_str()),
    };
    if let Some(warning) = result::leader_warning(lease, now) {
        print_error(&format!("warning: {warning}"));
    }
    lease.ok().flatten().is_some_and(pauses_all)
}

/// The nodes of the command line.
struct Found {
    nodes: Vec<RequestedNode>,
    /// For how many of the given names no node was found or read. Each was reported.
    failed: usize,
}

async fn find(cluster: &Cluster, args: &DrainArgs, name: &str) -> anyhow::Result<Found> {
    if args.nodes.is_empty() {
        let selector = args.selector.clone().unwrap_or_default();
        let keep = KeepLabels::of(&selector);
        let all = cluster::list_requested_nodes(cluster, &keep).await.context(LOOK_AT)?;
        let mut nodes = order::selected(all, &selector, args.every_node())?;
        if args.cancel {
            nodes.retain(|found| found.requests.contains_key(name));
        }
        return Ok(Found { nodes, failed: 0 });
    }
    let (mut found, mut failed, mut all) = (Vec::<RequestedNode>::new(), 0, None);
    for text in &args.nodes {
        match find_one(cluster, text, &mut all).await {
            // The name and the instance ID may name the same node.
            Ok(one) if found.iter().any(|other| other.node.name == one.node.name) => {}
            Ok(one) => found.push(one),
            Err(error) => {
                print_error(&super::words::on_one_line(&error));
                failed += 1;
            }
        }
    }
    Ok(Found { nodes: found, failed })
}

/// Finds a node by its name, its instance ID, or the first label of its name. `all`: the Nodes,
/// once they were listed.
async fn find_one(
    cluster: &Cluster,
    text: &str,
    all: &mut Option<Vec<RequestedNode>>,
) -> anyhow::Result<RequestedNode> {
    let name: NodeName = super::pause::name(text)?;
    if let Some(found) = cluster::read_requested_node(cluster, &name).await.context(LOOK_AT)? {
        return Ok(found);
    }
    if all.is_none() {
        let keep = KeepLabels::keys([]);
        *all = Some(cluster::list_requested_nodes(cluster, &keep).await.context(LOOK_AT)?);
    }
    let all = all.as_deref().unwrap_or_default();
    let nodes: Vec<Node> = all.iter().map(|found| found.node.clone()).collect();
    let name = named(&nodes, text)?;
    let found = all.iter().find(|found| found.node.name == name);
    found.cloned().with_context(|| format!("there is no node `{text}`"))
}

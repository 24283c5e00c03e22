//! `sundown pause`, `resume` and `release`: what a person decides, written where the leader looks.

use std::{io::Write as _, process::ExitCode};

use anyhow::{Context as _, bail};
use clap::Args;
use serde_json::json;

use crate::{
    cluster::{
        self, Cluster, KeepLabels, Lane, Target,
        lease::{LeasePlace, set_paused},
    },
    config::{KubeArgs, LeaseArgs},
    controller::{Clock, Random, Spawner},
    domain::{NodeName, PAUSE, RELEASE},
    record::{self, Standing},
};

/// No drain can be seen that could be ended, and nothing was changed.
#[derive(Debug, thiserror::Error)]
pub(super) enum NothingToRelease {
    /// There is none: what was asked makes no sense.
    #[error("{node} is not being drained ({why}), so there is nothing to release; nothing was changed")]
    NoDrain { node: NodeName, why: String },
    /// A leader goes on with a drain whose record was removed or damaged. Without one the order would end the next drain at its beginning,
    /// so a person must look first.
    #[error(
        "{node} carries our taint, but {why}: whether it is being drained cannot be told from it. Nothing was changed. If its Events or the \
         leader's log say that it is, `kubectl annotate node {node} {RELEASE}=true` ends the drain"
    )]
    Unsure { node: NodeName, why: String },
}

/// The flags of `sundown pause` and `sundown resume`.
#[derive(Debug, Clone, Args)]
pub(super) struct PauseArgs {
    /// One node instead of all
    #[arg(value_name = "NODE")]
    node: Option<String>,
    #[command(flatten)]
    lease: LeaseArgs,
    #[command(flatten)]
    kube: KubeArgs,
}

/// The flags of `sundown release`.
#[derive(Debug, Clone, Args)]
pub(super) struct ReleaseArgs {
    /// The node whose drain ends. If a lifecycle hook waits it is completed now, and the instance goes
    #[arg(value_name = "NODE")]
    node: String,
    #[command(flatten)]
    kube: KubeArgs,
}

pub(super) fn pause(args: PauseArgs, on: bool) -> anyhow::Result<ExitCode> {
    let word = if on { "paused" } else { "resumed" };
    block_on(async move {
        let client = connect(&args.kube).await?;
        if let Some(node) = args.node {
            annotate(client, &node, PAUSE, if on { Some("true") } else { None }).await?;
            let what = if on { "a drain that is under way waits, and so does one that begins" } else { "its drain goes on, if there is one" };
            say(&format!("{node} is {word}: {what}."));
            return Ok(());
        }
        let (namespace, name) = args.lease.place(&|name| std::env::var(name).ok());
        let place = LeasePlace { namespace, name };
        let changed = set_paused(client, &place, on).await.context("the drains are as they were")?;
        let already = if changed { "" } else { " already" };
        say(&format!("All drains are {word}{already} (Lease {}/{}).", place.namespace, place.name));
        Ok(())
    })
}

pub(super) fn release(args: &ReleaseArgs) -> anyhow::Result<ExitCode> {
    block_on(async move {
        let client = connect(&args.kube).await?;
        let node = name(&args.node)?;
        let cluster = plain(client.clone());
        let found = cluster::read_node(&cluster, &KeepLabels::keys([]), &node).await.context("nothing was changed")?;
        let Some(found) = found else { bail!("there is no node `{node}`; nothing was changed") };
        // Without a drain the order would lie there until one comes.
        let why = match record::standing(&found, None) {
            Standing::Open(_) => None,
            Standing::Doubtful { record, .. } if record.released().is_none() => None,
            Standing::None => Some("it has no record".to_owned()),
            Standing::Released { .. } | Standing::Doubtful { .. } => Some("its record says that it is released already".to_owned()),
            Standing::Void { .. } => Some("its record is of another instance or of an earlier boot".to_owned()),
            Standing::Damaged(damage) => Some(damage.to_string()),
        };
        if let Some(why) = why {
            let is_unsure = found.has_our_taint() && matches!(record::standing(&found, None), Standing::None | Standing::Damaged(_));
            return Err(if is_unsure { NothingToRelease::Unsure { node, why } } else { NothingToRelease::NoDrain { node, why } }.into());
        }
        annotate(client, &args.node, RELEASE, Some("true")).await?;
        say(&format!("The leader ends the drain of {} and completes what it owes.", args.node));
        Ok(())
    })
}

async fn connect(args: &KubeArgs) -> anyhow::Result<kube::Client> {
    let options = cluster::ConnectOptions { kubeconfig: args.kubeconfig.clone(), context: args.context.clone() };
    cluster::connect(&options).await.context("no API server to talk to (`--kubeconfig`)")
}

/// Sets or removes an annotation of a Node.
async fn annotate(client: kube::Client, node: &str, key: &str, value: Option<&str>) -> anyhow::Result<()> {
    let (cluster, node) = (plain(client), name(node)?);
    let patch = json!({"metadata": {"annotations": {key: value}}});
    let request = http::Request::patch(format!("/api/v1/nodes/{node}"))
        .header(http::header::CONTENT_TYPE, "application/merge-patch+json")
        .body(serde_json::to_vec(&patch)?)?;
    cluster.call(Target::PatchNode, Lane::Ordinary, node.as_str(), request).await.context("nothing was changed")?;
    Ok(())
}

fn plain(client: kube::Client) -> Cluster {
    Cluster::plain(client, Clock::system(), Random::from_entropy(), Spawner::new())
}

fn name(text: &str) -> anyhow::Result<NodeName> {
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-.".contains(&b)) {
        bail!("`{text}` cannot be the name of a node");
    }
    Ok(NodeName::from(text))
}

fn say(text: &str) {
    writeln!(std::io::stdout(), "{text}").ok();
}

fn block_on(work: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<ExitCode> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work)?;
    Ok(ExitCode::SUCCESS)
}

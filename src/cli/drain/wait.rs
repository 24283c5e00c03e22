//! Waits until requested drains have ended: reads the Nodes again and again.

use std::{collections::BTreeMap, process::ExitCode, time::Duration};

use futures::{StreamExt as _, stream};
use k8s_openapi::api::core::v1::Event;
use kube::{Api, Client, api::ListParams};
use tokio::{
    signal::unix::{SignalKind, signal},
    time::{Instant, sleep, sleep_until, timeout},
};

use super::{
    AT_ONCE,
    progress::{Asked, Progress, Verdict, Warned, refusal},
};
use crate::{
    cli::{people::print_line, print_error},
    cluster::{self, Cluster, ClusterError, KeepLabels, RequestedNode},
    domain::{NodeName, seconds},
};

/// The time between two reads.
const POLL: Duration = seconds(3);
/// How long a LIST of Events may take.
const LIMIT: Duration = seconds(10);
/// The most Events that are read at once.
const PAGE: u32 = 500;
/// The exit code when `--wait-timeout` has passed.
const TIMED_OUT: u8 = 3;
/// The exit code after Ctrl-C: 128 and the number of SIGINT.
const INTERRUPTED: u8 = 130;

/// Waits until each of these requests has a [`Verdict`], at most for `limit` (`None`: without a
/// limit), and prints each change. Returns the exit code.
pub(super) async fn wait(
    client: &Client,
    cluster: &Cluster,
    asked: Vec<Asked>,
    limit: Option<Duration>,
) -> anyhow::Result<ExitCode> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    // Without a limit: ten years, which an `Instant` can still hold.
    let end = Instant::now() + limit.unwrap_or(seconds(10 * 365 * 86_400));
    let mut follower = Follower { client, cluster, left: asked, shown: BTreeMap::new(), failed: 0 };
    let (name, nodes) = match follower.left.first() {
        Some(first) => (first.request.name.clone(), follower.left.len()),
        None => return Ok(ExitCode::SUCCESS),
    };
    let stays = format!(
        "the request {name} stays on {}: `sundown drain NODE --name {name} --cancel` removes it",
        if nodes == 1 { "the node" } else { "the nodes" }
    );
    tokio::select! {
        () = follower.follow() => {
            let failed = follower.failed > 0;
            Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
        }
        () = sleep_until(end) => {
            print_error(&format!("{} after --wait-timeout; {stays}", follower.unfinished()));
            Ok(ExitCode::from(TIMED_OUT))
        }
        _ = interrupt.recv() => {
            print_error(&format!("interrupted; {stays}"));
            Ok(ExitCode::from(INTERRUPTED))
        }
    }
}

struct Follower<'a> {
    client: &'a Client,
    cluster: &'a Cluster,
    /// The requests without a [`Verdict`] so far.
    left: Vec<Asked>,
    /// The progress that was printed last.
    shown: BTreeMap<NodeName, Progress>,
    /// How many have ended without what was asked for.
    failed: usize,
}

impl Follower<'_> {
    fn unfinished(&self) -> String {
        match self.left.as_slice() {
            [one] => format!("the drain of {} is not over", one.node),
            more => format!("the drains of {} nodes are not over", more.len()),
        }
    }

    async fn follow(&mut self) {
        let mut trouble = None;
        while !self.left.is_empty() {
            let now = match self.read().await {
                Ok(nodes) => {
                    trouble = None;
                    self.show(&nodes).await;
                    None
                }
                Err(error) => Some(error.to_string()),
            };
            if let Some(now) = now.filter(|now| trouble.as_ref() != Some(now)) {
                print_error(&format!("{now}; the wait goes on"));
                trouble = Some(now);
            }
            if !self.left.is_empty() {
                sleep(POLL).await;
            }
        }
    }

    /// The Nodes that are left, as they are now. Those that do not exist are not among them.
    async fn read(&self) -> Result<BTreeMap<NodeName, RequestedNode>, ClusterError> {
        let nodes = if self.left.len() > AT_ONCE {
            cluster::list_requested_nodes(self.cluster, &KeepLabels::keys([])).await?
        } else {
            let read = |asked: &Asked| {
                let name = asked.node.clone();
                async move { cluster::read_requested_node(self.cluster, &name).await }
            };
            let read: Vec<_> = self.left.iter().map(read).collect();
            let all: Vec<_> = stream::iter(read).buffered(AT_ONCE).collect().await;
            all.into_iter().filter_map(Result::transpose).collect::<Result<_, _>>()?
        };
        Ok(nodes.into_iter().map(|found| (found.node.name.clone(), found)).collect())
    }

    /// Prints what has changed, and forgets the requests that have a [`Verdict`] now.
    async fn show(&mut self, nodes: &BTreeMap<NodeName, RequestedNode>) {
        let progress = |asked: &Asked, warned: &[Warned]| {
            Progress::of(nodes.get(&asked.node), asked, refusal(warned, asked))
        };
        let waits = self.left.iter().any(|asked| progress(asked, &[]) == Progress::Waiting);
        // Only Events show a refusal. Without the right to list them the wait goes on.
        let warned = if waits { warnings(self.client).await } else { Vec::new() };
        let (shown, failed) = (&mut self.shown, &mut self.failed);
        self.left.retain(|asked| {
            let now = progress(asked, &warned);
            if shown.get(&asked.node) != Some(&now) {
                print_line(&now.line(&asked.node));
                shown.insert(asked.node.clone(), now.clone());
            }
            let verdict = now.verdict(asked.request.stage);
            *failed += usize::from(verdict == Some(Verdict::Failed));
            verdict.is_none()
        });
    }
}

/// The Warnings of Sundown about Nodes, at most [`PAGE`]. Empty if they cannot be listed.
async fn warnings(client: &Client) -> Vec<Warned> {
    let api: Api<Event> = Api::all(client.clone());
    let fields = "reportingComponent=sundown,type=Warning,involvedObject.kind=Node";
    let parameters = ListParams::default().fields(fields).limit(PAGE);
    match timeout(LIMIT, api.list(&parameters)).await {
        Ok(Ok(page)) => page.items.into_iter().filter_map(warned).collect(),
        Ok(Err(_)) | Err(_) => Vec::new(),
    }
}

fn warned(event: Event) -> Option<Warned> {
    Some(Warned {
        node: event.involved_object.name?.into(),
        reason: event.reason.unwrap_or_default(),
        message: event.message.unwrap_or_default(),
        last: event.last_timestamp.or(event.first_timestamp)?.0.into(),
    })
}

//! The Kubernetes edge: requests to the API server, and stores of Nodes, pods and budgets that
//! watches keep up to date.
//!
//! Nothing here decides what happens to a node. Every request goes through [`Cluster::call`]: one
//! deadline, one cap on requests in flight, one guard of writes, one place that counts. Only the
//! watches and the recorder of Events repeat a request; elsewhere the caller decides whether to try
//! again.

mod budgets;
mod client;
mod daemonsets;
mod error;
mod events;
mod evict;
pub mod lease;
mod namespaces;
mod node_lease;
mod nodes;
mod observer;
mod pods;
mod rights;
mod slim;
mod store;
mod volumes;
mod watch;

#[cfg(test)]
mod fake;
#[cfg(test)]
mod tests;

pub use budgets::{BudgetChanges, BudgetEvent, BudgetWatch, list_budgets};
pub use client::{
    Cluster, ClusterParts, ConnectError, ConnectOptions, Priority, Settings, connect,
};
pub use daemonsets::DaemonSets;
pub use error::{ClusterError, Problem};
pub use events::{
    About, EventNote, Recorder, RecorderCounts, RecorderSettings, Severity,
    reason::{self, EventReason},
};
pub use namespaces::list_namespaces;
pub use node_lease::node_lease_renewed;
pub use nodes::{
    NodeChange, NodeChanges, NodeIndex, RequestedNode, UnschedulableNodes, list_nodes,
    list_requested_nodes, read_node, read_requested_node, write_drain_request,
};
pub use observer::{ClusterEvent, Outcome, Target};
pub use pods::{PodEvent, PodEvents, PodFeed, PodFeedSettings, list_pods};
pub use rights::{LEASE_VERBS, Right, rights};
pub use slim::KeepLabels;
pub use store::{Change, Health};
pub use volumes::attached_volumes;

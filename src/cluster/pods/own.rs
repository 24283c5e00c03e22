//! The watch of one node's pods.

use tokio::sync::mpsc;

use super::{
    PodEvent, Pods, collection,
    table::{Envelope, Table},
};
use crate::{
    cluster::{
        Cluster,
        watch::{ListWatch, Signal},
    },
    domain::NodeName,
};

pub(super) async fn follow(cluster: Cluster, table: Table, events: mpsc::Sender<Envelope>, node: NodeName, epoch: u64) {
    let mut watch = ListWatch::new(&cluster, collection(Some(&node)), Pods::default());
    loop {
        let event = match watch.next().await {
            Signal::Listing => continue,
            Signal::Listed(listed) => PodEvent::Listed(listed.objects),
            Signal::Applied(_, pod) => PodEvent::Changed(pod),
            Signal::Deleted(meta, _) => PodEvent::Gone(meta.uid.into()),
            Signal::Watching => {
                table.well(&node, epoch);
                continue;
            }
            Signal::Failing(error) => {
                table.failing(&node, epoch, cluster.clock().now(), error);
                continue;
            }
        };
        if events.send(Envelope { node: node.clone(), epoch, event }).await.is_err() {
            return;
        }
    }
}

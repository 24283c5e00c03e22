//! The watch over the pods of a single node.

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

pub(super) async fn follow(
    cluster: Cluster,
    table: Table,
    events: mpsc::Sender<Envelope>,
    node: NodeName,
    epoch: u64,
) {
    let mut watch = ListWatch::new(&cluster, collection(Some(&node)), Pods::all(&cluster));
    // `None`: not reported yet. An earlier attachment of the node may have reported an open watch.
    let mut open = None;
    loop {
        let was_open = open;
        let events_of_it = match watch.next().await {
            Signal::Listing => [None, None],
            Signal::Listed(listed) => {
                open = Some(false);
                [Some(PodEvent::Listed(listed.objects)), Some(PodEvent::Blind)]
            }
            Signal::Applied(_, pod) => [Some(PodEvent::Changed(pod)), None],
            Signal::Deleted(meta, _) => [Some(PodEvent::Gone(meta.uid.into())), None],
            Signal::Watching => {
                table.recovered(&node, epoch);
                open = Some(true);
                [(was_open != open).then_some(PodEvent::Watching), None]
            }
            Signal::Failing(error) => {
                table.failing(&node, epoch, cluster.clock().now(), error);
                open = Some(false);
                [(was_open != open).then_some(PodEvent::Blind), None]
            }
        };
        for event in events_of_it.into_iter().flatten() {
            if events.send(Envelope { node: node.clone(), epoch, event }).await.is_err() {
                return;
            }
        }
    }
}

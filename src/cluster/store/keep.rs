//! Keeps a store up to date by a watch.

use std::sync::Arc;

use futures::FutureExt as _;
use tokio::sync::Notify;

use super::{Object, Store};
use crate::cluster::{
    Cluster, Problem,
    slim::Meta,
    watch::{Collection, Decode, ListWatch, Signal},
};

/// What a watch needs to know about the objects of its store.
pub(in crate::cluster) trait Watched: Object {
    /// The key of the object with this metadata.
    fn key_of(meta: &Meta) -> Self::Key;
    /// Whether this is the object with this metadata, and not an earlier or later object of the
    /// same name. (The key is already known to match.)
    fn is_meant(&self, meta: &Meta) -> bool;
}

/// The log lines about a watch.
pub(in crate::cluster) struct LogLines {
    pub(in crate::cluster) fails: &'static str,
    pub(in crate::cluster) recovered: &'static str,
}

/// Reopens a watch on request. All clones belong to the same watch.
#[derive(Clone, Default)]
pub(in crate::cluster) struct Restart(Arc<Notify>);

impl Restart {
    /// Reopens the watch from the version that it has seen last. A watch whose connection is dead
    /// stays open and shows nothing.
    pub(in crate::cluster) fn restart(&self) {
        self.0.notify_one();
    }

    /// A LIST was answered: a restart that was requested before that is no longer needed.
    fn settle(&self) {
        let _was_asked = self.0.notified().now_or_never().is_some();
    }
}

/// Keeps the store of a collection up to date. Never returns.
pub(in crate::cluster) async fn keep<D>(
    cluster: Cluster,
    collection: Collection,
    decode: D,
    store: Arc<Store<D::Object>>,
    log_lines: LogLines,
    restart: Restart,
) where
    D: Decode,
    D::Object: Watched,
{
    let mut watch = ListWatch::new(&cluster, collection, decode);
    loop {
        // A LIST that is under way is not restarted: it shows the present state anyway.
        let is_listing = watch.is_listing();
        let signal = tokio::select! {
            biased;
            () = restart.0.notified(), if !is_listing => {
                watch.restart();
                continue;
            }
            signal = watch.next() => signal,
        };
        match signal {
            Signal::Listing => store.listing(),
            Signal::Listed(listed) => {
                // An object that exists but cannot be read stays as it was last read: it must not
                // look deleted.
                store.replace(listed.objects, |key| {
                    listed.unreadable.iter().any(|bad| D::Object::key_of(bad) == *key)
                });
                restart.settle();
            }
            Signal::Watching => {
                if let Some(since) = store.recovered(cluster.clock().now()) {
                    tracing::info!(%since, "{}", log_lines.recovered);
                }
            }
            Signal::Applied(_, object) => store.apply(object),
            Signal::Deleted(meta, _) => {
                store.delete(&D::Object::key_of(&meta), |known| known.is_meant(&meta));
            }
            Signal::Failing(error) => {
                // A version that is too old is routine: the collection is listed again.
                if store.failing(cluster.clock().now()) && error.problem != Problem::Expired {
                    tracing::warn!(%error, "{}", log_lines.fails);
                }
            }
        }
    }
}

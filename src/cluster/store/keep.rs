//! Keeping a copy up to date by its watch.

use std::sync::Arc;

use futures::FutureExt as _;
use tokio::sync::Notify;

use super::{Object, Store};
use crate::cluster::{
    Cluster, Problem,
    slim::Meta,
    watch::{Collection, Decode, ListWatch, Signal},
};

/// What a watch needs to know of the objects that it keeps.
pub(in crate::cluster) trait Watched: Object {
    /// The key of the object with this metadata.
    fn key_of(meta: &Meta) -> Self::Key;
    /// The object with this metadata, which has its key, is this one, not an earlier or later one
    /// of its name.
    fn is_meant(&self, meta: &Meta) -> bool;
}

/// What the log says of a watch.
pub(in crate::cluster) struct Words {
    pub(in crate::cluster) fails: &'static str,
    pub(in crate::cluster) is_well_again: &'static str,
}

/// Has a watch opened anew. Clones ask for the same watch.
#[derive(Clone, Default)]
pub(in crate::cluster) struct Restart(Arc<Notify>);

impl Restart {
    /// Opens the watch anew from the version that it has seen last: one whose connection is dead
    /// stays open and silent.
    pub(in crate::cluster) fn restart(&self) {
        self.0.notify_one();
    }

    /// A LIST was answered: a restart that was asked for before it was has nothing left to show.
    fn settle(&self) {
        let _was_asked = self.0.notified().now_or_never().is_some();
    }
}

/// Keeps a copy of a collection up to date, for ever.
pub(in crate::cluster) async fn keep<D>(
    cluster: Cluster,
    collection: Collection,
    decode: D,
    store: Arc<Store<D::Object>>,
    words: Words,
    restart: Restart,
) where
    D: Decode,
    D::Object: Watched,
{
    let mut watch = ListWatch::new(&cluster, collection, decode);
    loop {
        // A LIST that is under way is not begun again: what it shows is new.
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
                // One that is there but cannot be read is kept as it was last: it must not look
                // deleted.
                store.replace(listed.objects, |key| {
                    listed.unreadable.iter().any(|bad| D::Object::key_of(bad) == *key)
                });
                restart.settle();
            }
            Signal::Watching => {
                if let Some(since) = store.well(cluster.clock().now()) {
                    tracing::info!(%since, "{}", words.is_well_again);
                }
            }
            Signal::Applied(_, object) => store.apply(object),
            Signal::Deleted(meta, _) => {
                store.delete(&D::Object::key_of(&meta), |known| known.is_meant(&meta));
            }
            Signal::Failing(error) => {
                // A version that is too old is routine: everything is listed again.
                if store.failing(cluster.clock().now()) && error.problem != Problem::Expired {
                    tracing::warn!(%error, "{}", words.fails);
                }
            }
        }
    }
}

//! Reading LISTs and single objects.

use std::collections::BTreeSet;

use kube::core::{Request, params::ListParams};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::cluster::{
    Cluster, ClusterError, Priority, Problem, Target,
    slim::{self, Meta},
};

/// How one object is read.
pub(in crate::cluster) trait Decode: Send + Sync {
    type Object: Send;
    /// `None`: it is none of ours.
    fn decode(&self, json: &str) -> Result<Decoded<Self::Object>, serde_json::Error>;
}

pub(in crate::cluster) enum Decoded<T> {
    Whole(T),
    /// The most needed of it; the rest is damaged.
    Part(T),
    Foreign,
}

/// What is read.
#[derive(Debug, Clone)]
pub(in crate::cluster) struct Collection {
    /// The path of the URL, without a slash at its end.
    pub(in crate::cluster) path: &'static str,
    /// A field selector.
    pub(in crate::cluster) fields: Option<String>,
    /// Whether the objects that are there are read, or only their version, to follow changes from
    /// there.
    pub(in crate::cluster) listed: bool,
    /// What the LIST counts as.
    pub(in crate::cluster) list: Target,
    /// What the watch counts as.
    pub(in crate::cluster) watch: Target,
    /// For people.
    pub(in crate::cluster) object: String,
}

/// A complete LIST.
#[derive(Debug)]
pub(in crate::cluster) struct Listed<T> {
    pub(in crate::cluster) objects: Vec<T>,
    /// Those that are there, but could not be read.
    pub(in crate::cluster) unreadable: Vec<Meta>,
    pub(in crate::cluster) version: String,
}

/// Reads LISTs and single objects; one that cannot be read is counted, told once, and stalls
/// nothing.
pub(in crate::cluster) struct Reader<D> {
    cluster: Cluster,
    decode: D,
    told: BTreeSet<String>,
}

#[derive(Deserialize)]
struct Page<'a> {
    #[serde(default)]
    metadata: PageMeta,
    #[serde(borrow)]
    items: Option<Vec<&'a RawValue>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PageMeta {
    #[serde(rename = "resourceVersion")]
    version: String,
    #[serde(rename = "continue")]
    more: Option<String>,
}

impl<D: Decode> Reader<D> {
    pub(in crate::cluster) fn new(cluster: &Cluster, decode: D) -> Self {
        Self { cluster: cluster.clone(), decode, told: BTreeSet::new() }
    }

    /// Everything that is in the collection now (a LIST without a version is never answered from an
    /// old cache), page by page.
    pub(in crate::cluster) async fn list(
        &mut self,
        collection: &Collection,
    ) -> Result<Listed<D::Object>, ClusterError> {
        let cluster = self.cluster.clone();
        // Those of pods may be a thousand at once, and wait for each other; there is one of
        // anything else, which must not wait for them.
        let _turn =
            if collection.list == Target::ListPods { cluster.list_turn().await } else { None };
        // What a request needs exists only from here on.
        Box::pin(self.list_pages(collection)).await
    }

    async fn list_pages(
        &mut self,
        collection: &Collection,
    ) -> Result<Listed<D::Object>, ClusterError> {
        let mut all =
            Listed { objects: Vec::new(), unreadable: Vec::new(), version: String::new() };
        let mut params = ListParams::default().limit(if collection.listed {
            self.cluster.settings().page
        } else {
            1
        });
        params.field_selector.clone_from(&collection.fields);
        loop {
            let broken = |e: &dyn std::fmt::Display, problem| {
                ClusterError::silent(
                    collection.list.action(),
                    &*collection.object,
                    problem,
                    e.to_string(),
                )
            };
            let request = Request::new(collection.path)
                .list(&params)
                .map_err(|e| broken(&e, Problem::Invalid))?;
            let body = self
                .cluster
                .call(collection.list, Priority::Ordinary, &collection.object, request)
                .await?;
            let page: Page<'_> =
                serde_json::from_slice(&body).map_err(|e| broken(&e, Problem::Unreadable))?;
            if collection.listed {
                self.read_page(collection.list, &page, &mut all);
            }
            all.version = page.metadata.version;
            match page.metadata.more.filter(|more| collection.listed && !more.is_empty()) {
                Some(more) => params.continue_token = Some(more),
                None => return Ok(all),
            }
        }
    }

    fn read_page(&mut self, target: Target, page: &Page<'_>, all: &mut Listed<D::Object>) {
        for item in page.items.iter().flatten() {
            let meta = slim::meta(item.get());
            match self.read(target, &meta, item.get()) {
                Ok(Some(object)) => all.objects.push(object),
                Ok(None) => {}
                Err(()) => all.unreadable.push(meta),
            }
        }
    }

    /// `None`: it is none of ours. Errs when it cannot be read, which is told and counted already.
    pub(in crate::cluster) fn read(
        &mut self,
        target: Target,
        meta: &Meta,
        json: &str,
    ) -> Result<Option<D::Object>, ()> {
        match self.decode.decode(json) {
            Ok(Decoded::Whole(object)) => Ok(Some(object)),
            Ok(Decoded::Foreign) => Ok(None),
            Ok(Decoded::Part(object)) => {
                self.tell(
                    target,
                    meta,
                    "only a part of an object can be read",
                    &"fields of the wrong type",
                );
                Ok(Some(object))
            }
            Err(error) => {
                self.tell(target, meta, "an object cannot be read and is passed over", &error);
                Err(())
            }
        }
    }

    fn tell(
        &mut self,
        target: Target,
        meta: &Meta,
        what: &'static str,
        why: &dyn std::fmt::Display,
    ) {
        self.cluster.observer().unreadable(target);
        let first =
            self.told.len() < 100 && self.told.insert(format!("{}/{}", meta.namespace, meta.name));
        if first {
            tracing::warn!(namespace = meta.namespace, name = meta.name, %why, what);
        }
    }
}

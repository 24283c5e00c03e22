//! Reads LISTs and single objects.

use std::collections::BTreeSet;

use kube::core::{Request, params::ListParams};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::cluster::{
    Cluster, ClusterError, ClusterEvent, Priority, Problem, Target,
    slim::{self, Meta},
};

/// Decodes one object.
pub(in crate::cluster) trait Decode: Send + Sync {
    type Object: Send;
    /// Errs when the JSON cannot be read as an object.
    fn decode(&self, json: &str) -> Result<Decoded<Self::Object>, serde_json::Error>;
}

pub(in crate::cluster) enum Decoded<T> {
    Whole(T),
    /// Only the most important fields; others have the wrong type.
    Part(T),
    /// An object that this watch does not follow.
    Foreign,
}

/// The collection to read, and how its requests are counted and named.
#[derive(Debug, Clone)]
pub(in crate::cluster) struct Collection {
    /// The path of the URL, without a slash at its end.
    pub(in crate::cluster) path: &'static str,
    /// The field selector; `None` selects all objects.
    pub(in crate::cluster) fields: Option<String>,
    /// Whether the LIST reads the objects, or only the version from which a watch can follow.
    pub(in crate::cluster) listed: bool,
    /// The kind under which the LIST is counted.
    pub(in crate::cluster) list: Target,
    /// The kind under which the watch is counted.
    pub(in crate::cluster) watch: Target,
    /// Names the collection in error messages.
    pub(in crate::cluster) object: String,
}

/// The result of a complete LIST.
#[derive(Debug)]
pub(in crate::cluster) struct Listed<T> {
    pub(in crate::cluster) objects: Vec<T>,
    /// Objects that exist but could not be read.
    pub(in crate::cluster) unreadable: Vec<Meta>,
    pub(in crate::cluster) version: String,
}

/// Reads LISTs and single objects. An object that cannot be read is counted, logged once and
/// skipped.
pub(in crate::cluster) struct Reader<D> {
    cluster: Cluster,
    decode: D,
    /// How many objects one page of a LIST has.
    page: u32,
    logged: BTreeSet<String>,
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
        let page = cluster.settings().page;
        Self { cluster: cluster.clone(), decode, page, logged: BTreeSet::new() }
    }

    /// With pages of this many objects, for objects that are small.
    pub(in crate::cluster) fn with_page(self, page: u32) -> Self {
        Self { page, ..self }
    }

    /// Lists all objects of the collection, page by page. The LIST names no version, so the API
    /// server does not answer it from an old cache.
    pub(in crate::cluster) async fn list(
        &mut self,
        collection: &Collection,
    ) -> Result<Listed<D::Object>, ClusterError> {
        let cluster = self.cluster.clone();
        // A thousand nodes may need a LIST of pods at once: these wait for each other. Other
        // collections have only one LIST at a time, which must not wait for those of pods.
        let _permit =
            if collection.list == Target::ListPods { cluster.list_permit().await } else { None };
        // Boxed here, so that a LIST that waits for its permit holds no memory for the request.
        Box::pin(self.list_pages(collection)).await
    }

    async fn list_pages(
        &mut self,
        collection: &Collection,
    ) -> Result<Listed<D::Object>, ClusterError> {
        let mut all =
            Listed { objects: Vec::new(), unreadable: Vec::new(), version: String::new() };
        let mut params = ListParams::default().limit(if collection.listed { self.page } else { 1 });
        params.field_selector.clone_from(&collection.fields);
        loop {
            let broken = |e: &dyn std::fmt::Display, problem| {
                ClusterError::without_answer(
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

    /// Reads one object. `None`: this watch does not follow it. Errs when it cannot be read, which
    /// is already logged and counted.
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
                self.unreadable(
                    target,
                    meta,
                    "only a part of an object can be read",
                    &"fields of the wrong type",
                );
                Ok(Some(object))
            }
            Err(error) => {
                self.unreadable(target, meta, "an object cannot be read and is skipped", &error);
                Err(())
            }
        }
    }

    fn unreadable(
        &mut self,
        target: Target,
        meta: &Meta,
        what: &'static str,
        why: &dyn std::fmt::Display,
    ) {
        self.cluster.observer().observe(ClusterEvent::Unreadable(target));
        let first = self.logged.len() < 100
            && self.logged.insert(format!("{}/{}", meta.namespace, meta.name));
        if first {
            tracing::warn!(namespace = meta.namespace, name = meta.name, %why, what);
        }
    }
}

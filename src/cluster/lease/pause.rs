//! `sundown pause` and `sundown resume`: an annotation of the Lease.

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::api::coordination::v1::Lease;
use kube::{
    Api, Client,
    api::{ObjectMeta, Patch, PatchParams, PostParams},
};
use serde_json::json;
use tokio::time::timeout;

use super::{LeasePlace, calls::outcome};
use crate::domain::{PAUSE, seconds};

/// How long a person waits for one call.
const LIMIT: Duration = seconds(10);

/// A call on the Lease failed.
#[derive(Debug, thiserror::Error)]
#[error("the Lease {namespace}/{name} could not be {action}: {why}")]
pub struct LeaseError {
    namespace: String,
    name: String,
    action: &'static str,
    why: String,
    #[source]
    source: Option<Box<kube::Error>>,
}

/// Writes or removes the annotation that pauses all drains; a missing Lease is created for it, held by nobody. Says whether that changed
/// anything.
pub async fn set_paused(client: Client, place: &LeasePlace, paused: bool) -> Result<bool, LeaseError> {
    let api: Api<Lease> = Api::namespaced(client, &place.namespace);
    // Twice: it may be created or deleted while we look.
    for _ in 0..2 {
        let lease = call(place, "read", api.get_opt(&place.name)).await?;
        let Some(lease) = lease else {
            if !paused {
                return Ok(false);
            }
            match call(place, "created", api.create(&PostParams::default(), &paused_lease(&place.name))).await {
                Err(error) if error.is("conflict") => continue,
                result => return result.map(|_| true),
            }
        };
        if lease.metadata.annotations.is_some_and(|a| a.get(PAUSE).is_some_and(|v| v == "true")) == paused {
            return Ok(false);
        }
        let value = paused.then_some("true");
        let body = Patch::Merge(json!({ "metadata": { "annotations": { PAUSE: value } } }));
        match call(place, "annotated", api.patch(&place.name, &PatchParams::default(), &body)).await {
            Err(error) if error.is("not_found") => {}
            result => return result.map(|_| true),
        }
    }
    Err(LeaseError::new(place, "annotated", "it is created and deleted again and again".to_owned(), None))
}

fn paused_lease(name: &str) -> Lease {
    let annotations = Some(BTreeMap::from([(PAUSE.to_owned(), "true".to_owned())]));
    Lease { metadata: ObjectMeta { name: Some(name.to_owned()), annotations, ..ObjectMeta::default() }, spec: None }
}

async fn call<T>(place: &LeasePlace, action: &'static str, call: impl Future<Output = kube::Result<T>>) -> Result<T, LeaseError> {
    match timeout(LIMIT, call).await {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(error)) => Err(LeaseError::new(place, action, error.to_string(), Some(Box::new(error)))),
        Err(_) => Err(LeaseError::new(place, action, format!("no answer within {} s", LIMIT.as_secs()), None)),
    }
}

impl LeaseError {
    fn new(place: &LeasePlace, action: &'static str, why: String, source: Option<Box<kube::Error>>) -> Self {
        Self { namespace: place.namespace.clone(), name: place.name.clone(), action, why, source }
    }

    fn is(&self, class: &str) -> bool {
        self.source.as_deref().is_some_and(|error| outcome(error) == class)
    }
}

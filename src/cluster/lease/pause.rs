//! `sundown pause` and `sundown resume`: an annotation of the Lease.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::{
    Api, Client,
    api::{Patch, PatchParams},
};
use serde_json::json;
use tokio::time::timeout;

use super::LeasePlace;
use crate::domain::{PAUSE, seconds};

/// How long an operator command waits for one call.
const LIMIT: Duration = seconds(10);

/// A call on the Lease that failed.
#[derive(Debug, thiserror::Error)]
#[error("the Lease {namespace}/{name} could not be {action}: {why}")]
pub struct LeaseError {
    namespace: String,
    name: String,
    action: &'static str,
    why: String,
    /// RBAC does not allow it.
    denied: bool,
    #[source]
    source: Option<Box<kube::Error>>,
}

/// Whether this Lease has the annotation that pauses all drains.
#[must_use]
pub fn pauses_all(lease: &Lease) -> bool {
    let annotations = lease.metadata.annotations.as_ref();
    annotations.and_then(|all| all.get(PAUSE)).is_some_and(|value| value == "true")
}

/// Writes or removes the annotation that pauses all drains. Returns whether that changed anything.
///
/// Errs when there is no such Lease. Every running replica keeps it in place, so the namespace or
/// the name is wrong, and the command must not report that anything is paused.
pub async fn set_paused(
    client: Client,
    place: &LeasePlace,
    paused: bool,
) -> Result<bool, LeaseError> {
    let api: Api<Lease> = Api::namespaced(client, &place.namespace);
    let lease = call(place, "read", api.get_opt(&place.name))
        .await?
        .ok_or_else(|| LeaseError::missing(place))?;
    if pauses_all(&lease) == paused {
        return Ok(false);
    }
    let value = paused.then_some("true");
    let body = Patch::Merge(json!({ "metadata": { "annotations": { PAUSE: value } } }));
    call(place, "annotated", api.patch(&place.name, &PatchParams::default(), &body))
        .await
        .map(|_| true)
}

pub(super) async fn call<T>(
    place: &LeasePlace,
    action: &'static str,
    call: impl Future<Output = kube::Result<T>>,
) -> Result<T, LeaseError> {
    match timeout(LIMIT, call).await {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(kube::Error::Api(status))) => {
            let error = LeaseError::new(
                place,
                action,
                format!("{} ({})", status.message, status.code),
                None,
            );
            Err(LeaseError { denied: status.code == 403, ..error })
        }
        Ok(Err(error)) => Err(LeaseError::new(
            place,
            action,
            "the API server did not answer".to_owned(),
            Some(Box::new(error)),
        )),
        Err(_) => Err(LeaseError::new(
            place,
            action,
            format!("no answer within {} s", LIMIT.as_secs()),
            None,
        )),
    }
}

impl LeaseError {
    /// RBAC does not allow the call.
    pub(super) const fn is_denied(&self) -> bool {
        self.denied
    }

    /// There is no such Lease.
    #[must_use]
    pub fn missing(place: &LeasePlace) -> Self {
        Self::new(
            place,
            "found",
            "check --lease-namespace, --lease-name, and that Sundown runs in this cluster"
                .to_owned(),
            None,
        )
    }

    pub(super) fn new(
        place: &LeasePlace,
        action: &'static str,
        why: String,
        source: Option<Box<kube::Error>>,
    ) -> Self {
        Self {
            namespace: place.namespace.clone(),
            name: place.name.clone(),
            action,
            why,
            denied: false,
            source,
        }
    }
}

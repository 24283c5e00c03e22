//! Finds the Lease for the operator commands: operators seldom know its namespace.

use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, Client, api::ListParams};

use super::{LeaseError, LeasePlace, pause::call};
use crate::domain::{LEASE_LABEL, LEASE_LABEL_VALUE};

/// What the operator gave to find the Lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseSearch {
    /// The namespace that the operator named; `None`: all namespaces are searched.
    pub namespace: Option<String>,
    /// The name that the operator gave; `None`: any Lease that carries the label.
    pub name: Option<String>,
    /// The place of the Lease in a default installation, used for what is not given.
    pub default: LeasePlace,
}

impl LeaseSearch {
    /// Where the Lease is expected, for error messages.
    #[must_use]
    pub fn place(&self) -> LeasePlace {
        let LeasePlace { namespace, name } = self.default.clone();
        LeasePlace {
            namespace: self.namespace.clone().unwrap_or(namespace),
            name: self.name.clone().unwrap_or(name),
        }
    }
}

/// Finds the Lease of Sundown. `None`: no Lease matches.
///
/// With a namespace, the Lease is read there. Without, the Leases of all namespaces are searched
/// for the label that a leader writes, then for the name (a Lease of version 0.1.0 has no label). A
/// person who may not list the Leases of all namespaces gets the default place.
///
/// Errs when several Leases match: the operator has to name one.
pub async fn find_lease(
    client: &Client,
    search: &LeaseSearch,
) -> Result<Option<(LeasePlace, Lease)>, LeaseError> {
    let name = search.name.as_deref().unwrap_or(&search.default.name);
    if let Some(namespace) = &search.namespace {
        return get(client, LeasePlace { namespace: namespace.clone(), name: name.to_owned() })
            .await;
    }
    let everywhere: Api<Lease> = Api::all(client.clone());
    let any = LeasePlace { namespace: "(any)".to_owned(), name: name.to_owned() };
    let labeled = ListParams::default().labels(&format!("{LEASE_LABEL}={LEASE_LABEL_VALUE}"));
    let named = ListParams::default().fields(&format!("metadata.name={name}"));
    for filter in [labeled, named] {
        let leases = match call(&any, "searched for in all namespaces", everywhere.list(&filter))
            .await
        {
            Ok(leases) => leases.items,
            Err(error) if error.is_denied() => return get(client, search.default.clone()).await,
            Err(error) => return Err(error),
        };
        let fits = |lease: &Lease| {
            search.name.as_deref().is_none_or(|name| lease.metadata.name.as_deref() == Some(name))
        };
        let mut found: Vec<_> =
            leases.into_iter().filter(fits).map(|lease| (place_of(&lease), lease)).collect();
        if found.len() > 1 {
            let all = found
                .iter()
                .map(|(place, _)| format!("{}/{}", place.namespace, place.name))
                .collect::<Vec<_>>()
                .join(", ");
            let why = format!(
                "there are several: {all}; choose one with --lease-namespace and --lease-name"
            );
            return Err(LeaseError::new(&any, "chosen", why, None));
        }
        if let Some(only) = found.pop() {
            return Ok(Some(only));
        }
    }
    Ok(None)
}

async fn get(
    client: &Client,
    place: LeasePlace,
) -> Result<Option<(LeasePlace, Lease)>, LeaseError> {
    let api: Api<Lease> = Api::namespaced(client.clone(), &place.namespace);
    let lease = call(&place, "read", api.get_opt(&place.name)).await?;
    Ok(lease.map(|lease| (place, lease)))
}

fn place_of(lease: &Lease) -> LeasePlace {
    LeasePlace {
        namespace: lease.metadata.namespace.clone().unwrap_or_default(),
        name: lease.metadata.name.clone().unwrap_or_default(),
    }
}

//! Reads when a kubelet last renewed the Lease of its Node.

use k8s_openapi::api::coordination::v1::Lease;
use kube::core::{Request, params::GetParams};

use super::{Cluster, ClusterError, Priority, Problem, Target};
use crate::domain::{Moment, NodeName};

/// Where kubelets keep their Leases, each with the name of its Node.
const PATH: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";

/// `spec.renewTime` of the Node's Lease, by the clock of its machine. A kubelet renews it every 10 s.
/// `None`: there is no such Lease, or it was never renewed.
pub async fn node_lease_renewed(
    cluster: &Cluster,
    node: &NodeName,
) -> Result<Option<Moment>, ClusterError> {
    let target = Target::GetNodeLease;
    let failed = |problem, why: String| {
        ClusterError::without_answer(target.action(), node.as_str(), problem, why)
    };
    let request = Request::new(PATH)
        .get(node.as_str(), &GetParams::default())
        .map_err(|error| failed(Problem::Invalid, error.to_string()))?;
    match cluster.call(target, Priority::Ordinary, node.as_str(), request).await {
        Ok(body) => {
            let lease: Lease = serde_json::from_slice(&body)
                .map_err(|error| failed(Problem::Unreadable, error.to_string()))?;
            let renewed = lease.spec.and_then(|spec| spec.renew_time);
            Ok(renewed.map(|time| Moment::from(time.0)))
        }
        Err(error) if error.problem == Problem::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

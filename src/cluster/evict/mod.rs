//! Evicting and deleting pods.

#[cfg(test)]
mod tests;

use k8s_openapi::{
    api::policy::v1::Eviction,
    apimachinery::pkg::apis::meta::v1::{DeleteOptions, ObjectMeta, Preconditions},
};
use kube::core::{
    Request,
    params::{DeleteParams, PostParams},
};

use super::{Cluster, ClusterError, Lane, Problem, Target};
use crate::domain::{ApiAnswer, PodKey, PodUid};

impl Cluster {
    /// Asks for the eviction of this very pod (its UID is a precondition). `grace` in seconds; `None`: its own.
    ///
    /// Not kube's `Api::evict`: that writes `delete_options`, which the API server drops, and with it the precondition and the
    /// grace period (kube-core `subresource.rs`).
    pub async fn evict(&self, pod: &PodKey, uid: &PodUid, grace: Option<u32>) -> ApiAnswer {
        let body = Eviction {
            metadata: ObjectMeta { name: Some(pod.name.clone()), namespace: Some(pod.namespace.clone()), ..ObjectMeta::default() },
            delete_options: Some(DeleteOptions {
                grace_period_seconds: grace.map(i64::from),
                preconditions: Some(Preconditions { uid: Some(uid.to_string()), resource_version: None }),
                ..DeleteOptions::default()
            }),
        };
        let request = serde_json::to_vec(&body)
            .map_err(|e| e.to_string())
            .and_then(|body| pods_of(pod).create_subresource("eviction", &pod.name, &PostParams::default(), body).map_err(|e| e.to_string()));
        self.answer(Target::Evict, pod, request, 201).await
    }

    /// Deletes this very pod (its UID is a precondition), past any disruption budget. `grace` in seconds; `None`: its own.
    pub async fn delete_pod(&self, pod: &PodKey, uid: &PodUid, grace: Option<u32>) -> ApiAnswer {
        let params = DeleteParams {
            grace_period_seconds: grace,
            preconditions: Some(kube::core::params::Preconditions { uid: Some(uid.to_string()), resource_version: None }),
            ..DeleteParams::default()
        };
        let request = pods_of(pod).delete(&pod.name, &params).map_err(|e| e.to_string());
        self.answer(Target::DeletePod, pod, request, 200).await
    }

    async fn answer(&self, target: Target, pod: &PodKey, request: Result<http::Request<Vec<u8>>, String>, success: u16) -> ApiAnswer {
        let object = pod.to_string();
        let result = match request {
            Ok(request) => self.call(target, Lane::Ordinary, &object, request).await,
            // The name is none that the API could have given out.
            Err(why) => Err(ClusterError::new(target.action(), object, ApiAnswer { code: 400, message: why, ..ApiAnswer::default() })),
        };
        match result {
            Ok(_) => ApiAnswer { code: success, ..ApiAnswer::default() },
            Err(error) => {
                tracing::debug!(%error, "an eviction or deletion was not accepted");
                let mut answer = *error.answer;
                if error.problem == Problem::HeldBack {
                    "HeldBack".clone_into(&mut answer.reason);
                }
                answer
            }
        }
    }
}

fn pods_of(pod: &PodKey) -> Request {
    Request::new(format!("/api/v1/namespaces/{}/pods", pod.namespace))
}

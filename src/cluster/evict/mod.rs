//! Evicts and deletes pods.

#[cfg(test)]
mod tests;

use std::time::Duration;

use k8s_openapi::{
    api::policy::v1::Eviction,
    apimachinery::pkg::apis::meta::v1::{DeleteOptions, ObjectMeta, Preconditions},
};
use kube::core::{
    Request,
    params::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::json;

use super::{Cluster, ClusterError, Priority, Problem, Target};
use crate::domain::{ApiAnswer, PodKey, PodUid};

/// The time limit for setting the condition of a pod, with the wait for a free slot. It is short,
/// because the DELETE of the pod waits for it.
const CONDITION: Duration = Duration::from_secs(1);

impl Cluster {
    /// Asks for the eviction of the pod with this UID (a precondition). Both we and the API server
    /// give up after `limit` or the deadline of all calls, whichever is shorter. `grace` in
    /// seconds; `None`: the grace period of the pod.
    ///
    /// This does not use kube's `Api::evict`: that writes `delete_options`, which the API server
    /// drops, and with it the precondition and the grace period (kube-core `subresource.rs`).
    pub async fn evict(
        &self,
        limit: Duration,
        pod: &PodKey,
        uid: &PodUid,
        grace: Option<u32>,
    ) -> ApiAnswer {
        let body = Eviction {
            metadata: ObjectMeta {
                name: Some(pod.name.clone()),
                namespace: Some(pod.namespace.to_string()),
                ..ObjectMeta::default()
            },
            delete_options: Some(DeleteOptions {
                grace_period_seconds: grace.map(i64::from),
                preconditions: Some(Preconditions {
                    uid: Some(uid.to_string()),
                    resource_version: None,
                }),
                ..DeleteOptions::default()
            }),
        };
        let request = serde_json::to_vec(&body).map_err(|e| e.to_string()).and_then(|body| {
            pods_of(pod)
                .create_subresource("eviction", &pod.name, &PostParams::default(), body)
                .map_err(|e| e.to_string())
        });
        self.answer(limit, Target::Evict, pod, request, 201).await
    }

    /// Deletes the pod with this UID (a precondition), regardless of disruption budgets. `grace` in
    /// seconds; `None`: the grace period of the pod.
    pub async fn delete_pod(&self, pod: &PodKey, uid: &PodUid, grace: Option<u32>) -> ApiAnswer {
        let params = DeleteParams {
            grace_period_seconds: grace,
            preconditions: Some(kube::core::params::Preconditions {
                uid: Some(uid.to_string()),
                resource_version: None,
            }),
            ..DeleteParams::default()
        };
        let request = pods_of(pod).delete(&pod.name, &params).map_err(|e| e.to_string());
        self.answer(Duration::MAX, Target::DeletePod, pod, request, 200).await
    }

    /// Sets the condition `DisruptionTarget` of the pod with this UID (a precondition). The
    /// Eviction API sets it, a DELETE does not. Without it, the pod failure policy of a Job counts
    /// the deletion of its pod as a failure.
    ///
    /// Errs after one second at the latest; by then the API server has given up too.
    pub async fn set_disruption_target(
        &self,
        pod: &PodKey,
        uid: &PodUid,
    ) -> Result<(), ClusterError> {
        let condition = json!({
            "type": "DisruptionTarget", "status": "True", "reason": "DeletionBySundown",
            "message": "Sundown deletes the pod because its node is about to go and its eviction \
                did not succeed",
            "lastTransitionTime": format!("{:.0}", self.clock().now()),
        });
        // A strategic merge patch replaces only the condition of this type; a merge patch would
        // replace the whole list.
        let patch = Patch::Strategic(json!({
            "metadata": { "uid": uid.to_string() }, "status": { "conditions": [condition] }
        }));
        let params =
            PatchParams { field_manager: Some("sundown".to_owned()), ..PatchParams::default() };
        let (target, object) = (Target::PatchPodStatus, pod.to_string());
        let failed = |problem, why: String| {
            ClusterError::without_answer(target.action(), object.as_str(), problem, why)
        };
        let request = pods_of(pod)
            .patch_subresource("status", &pod.name, &params, &patch)
            .map_err(|e| failed(Problem::Invalid, e.to_string()))?;
        self.call_within(CONDITION, target, Priority::Ordinary, &object, request).await.map(drop)
    }

    async fn answer(
        &self,
        limit: Duration,
        target: Target,
        pod: &PodKey,
        request: Result<http::Request<Vec<u8>>, String>,
        success: u16,
    ) -> ApiAnswer {
        let object = pod.to_string();
        let result = match request {
            Ok(request) => {
                self.call_within(limit, target, Priority::Ordinary, &object, request).await
            }
            // The request cannot be built: no pod can have this name.
            Err(why) => Err(ClusterError::new(
                target.action(),
                object,
                ApiAnswer { code: 400, message: why, ..ApiAnswer::default() },
            )),
        };
        match result {
            // A proxy may answer with its own page, whatever the API server answered. Such an
            // answer must not count as a successful eviction or deletion.
            Ok(body) if serde_json::from_slice::<serde::de::IgnoredAny>(&body).is_err() => {
                tracing::debug!(%pod, "The answer to an eviction or a delete cannot be read.");
                ApiAnswer {
                    message: "the answer cannot be read: it is not JSON".to_owned(),
                    ..ApiAnswer::default()
                }
            }
            Ok(_) => ApiAnswer { code: success, ..ApiAnswer::default() },
            Err(error) => {
                tracing::debug!(%error, "an eviction or deletion was not accepted");
                let mut answer = *error.answer;
                if error.problem == Problem::HeldBack {
                    ApiAnswer::HELD_BACK.clone_into(&mut answer.reason);
                }
                answer
            }
        }
    }
}

fn pods_of(pod: &PodKey) -> Request {
    Request::new(format!("/api/v1/namespaces/{}/pods", pod.namespace))
}

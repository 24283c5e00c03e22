//! Workloads and budgets as tests write them.

use serde_json::{Value, json};

use crate::{
    process::LIMIT,
    stage::{Stage, condition},
};

/// What the pods of a workload are like: labelled `app`, ready a second after they are bound,
/// stopped within their three seconds of grace.
#[derive(Clone)]
pub struct Pods {
    app: String,
    annotations: Value,
    grace: u64,
    /// The nodes that the scheduler may put them on; empty: any.
    nodes: Vec<String>,
}

impl Pods {
    pub fn of(app: &str) -> Self {
        let annotations =
            json!({ "test.sundown.dev/ready-after": "1s", "test.sundown.dev/stop-after": "1s" });
        Self { app: app.to_owned(), annotations, grace: 3, nodes: Vec::new() }
    }

    /// With this annotation of `stages.yaml`.
    pub fn with(mut self, annotation: &str, value: &str) -> Self {
        self.annotations[format!("test.sundown.dev/{annotation}")] = value.into();
        self
    }

    /// They stop exactly this long after they are asked to.
    pub fn stopping_after(self, time: &str) -> Self {
        self.with("stop-after", time).with("stop-within", time)
    }

    /// With so many seconds of grace.
    pub const fn grace(mut self, seconds: u64) -> Self {
        self.grace = seconds;
        self
    }

    /// On these nodes only.
    pub fn on(mut self, nodes: &[String], more: &[String]) -> Self {
        self.nodes = [nodes, more].concat();
        self
    }

    fn spec(&self) -> Value {
        let mut spec = json!({
            "containers": [{ "name": "main", "image": "none" }],
            "terminationGracePeriodSeconds": self.grace
        });
        if !self.nodes.is_empty() {
            let term = json!({
                "matchExpressions": [{
                    "key": "kubernetes.io/hostname", "operator": "In", "values": self.nodes
                }]
            });
            spec["affinity"] = json!({
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [term]
                    }
                }
            });
        }
        spec["topologySpreadConstraints"] = json!([{
            "maxSkew": 1, "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": { "matchLabels": { "app": self.app } },
        }]);
        spec
    }

    fn workload(&self, version: &str, kind: &str, spec: &Value) -> Value {
        let mut object = json!({
            "apiVersion": version, "kind": kind, "metadata": { "name": self.app }, "spec": spec
        });
        object["spec"]["template"] = json!({
            "metadata": { "labels": { "app": self.app }, "annotations": self.annotations },
            "spec": self.spec()
        });
        object
    }

    fn selected(&self, mut spec: Value) -> Value {
        spec["selector"] = json!({ "matchLabels": { "app": self.app } });
        spec
    }

    pub fn deployment(&self, replicas: usize) -> Value {
        self.workload("apps/v1", "Deployment", &self.selected(json!({ "replicas": replicas })))
    }

    pub fn stateful_set(&self, replicas: usize) -> Value {
        self.workload(
            "apps/v1",
            "StatefulSet",
            &self.selected(json!({ "replicas": replicas, "serviceName": self.app })),
        )
    }

    pub fn daemon_set(&self) -> Value {
        let mut set = self.workload("apps/v1", "DaemonSet", &self.selected(json!({})));
        set["spec"]["template"]["spec"]
            .as_object_mut()
            .unwrap()
            .remove("topologySpreadConstraints");
        set
    }

    pub fn job(&self) -> Value {
        let mut job = self.workload("batch/v1", "Job", &json!({ "backoffLimit": 10 }));
        job["spec"]["template"]["spec"]["restartPolicy"] = "Never".into();
        job
    }

    /// A pod of nobody, on this node from the start.
    pub fn pod(&self, name: &str, node: &str) -> Value {
        let mut spec = self.spec();
        spec["nodeName"] = node.into();
        let metadata =
            json!({ "name": name, "labels": { "app": self.app }, "annotations": self.annotations });
        json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec })
    }

    /// A budget of these pods: `bound` is `minAvailable` or `maxUnavailable`.
    pub fn budget(&self, bound: &str, value: &Value) -> Value {
        json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": { "name": self.app },
            "spec": { "selector": { "matchLabels": { "app": self.app } }, bound: value },
        })
    }
}

/// Where objects of this kind are in a namespace.
pub fn collection(namespace: &str, kind: &str) -> String {
    let (root, plural) = match kind {
        "Pod" => ("/api/v1", "pods"),
        "Deployment" => ("/apis/apps/v1", "deployments"),
        "StatefulSet" => ("/apis/apps/v1", "statefulsets"),
        "DaemonSet" => ("/apis/apps/v1", "daemonsets"),
        "Job" => ("/apis/batch/v1", "jobs"),
        "PodDisruptionBudget" => ("/apis/policy/v1", "poddisruptionbudgets"),
        "RoleBinding" => ("/apis/rbac.authorization.k8s.io/v1", "rolebindings"),
        other => panic!("no path is known for a {other}"),
    };
    format!("{root}/namespaces/{namespace}/{plural}")
}

impl Stage {
    /// Creates a namespaced object; its path.
    pub async fn put(&self, namespace: &str, object: &Value) -> String {
        let path = collection(namespace, object["kind"].as_str().unwrap());
        self.create(&path, object).await;
        format!("{path}/{}", object["metadata"]["name"].as_str().unwrap())
    }

    pub async fn add_namespace(&self, name: &str) {
        self.create(
            "/api/v1/namespaces",
            &json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } }),
        )
        .await;
    }

    /// Creates a Deployment or a StatefulSet and waits until all of it is ready.
    pub async fn ready(&self, namespace: &str, workload: &Value) -> String {
        let path = self.put(namespace, workload).await;
        self.is_whole(&path).await;
        path
    }

    /// Waits until a Deployment or a StatefulSet is all ready.
    pub async fn is_whole(&self, path: &str) {
        self.until("all of it is ready", path, |w| {
            w["status"]["readyReplicas"] == w["spec"]["replicas"]
        })
        .await;
    }

    /// Takes the pods of the applied Deployment away before there are nodes for them: they do
    /// nothing but stand on nodes that go, for up to thirty seconds.
    pub async fn alone(&self) {
        let deployment = "/apis/apps/v1/namespaces/sundown/deployments/sundown";
        self.patch(deployment, &json!({ "spec": { "replicas": 0 } })).await;
        // Not before its pods are made: its controller has seen it and has updated its ReplicaSet,
        // and the controller of that has seen it, too.
        let heard = |object: &Value| {
            object["status"]["observedGeneration"] == object["metadata"]["generation"]
        };
        self.until("it is heard", deployment, heard).await;
        let all_heard = |list: &Value| {
            list["items"].as_array().is_some_and(|sets| {
                sets.iter().all(|set| heard(set) && set["status"]["replicas"] == 0)
            })
        };
        self.until("it is passed on", "/apis/apps/v1/namespaces/sundown/replicasets", all_heard)
            .await;
        let none = |list: &Value| list["items"].as_array().is_some_and(Vec::is_empty);
        self.until("they are gone", "/api/v1/namespaces/sundown/pods", none).await;
    }

    /// Creates a pod and waits until it is ready.
    pub async fn ready_pod(&self, namespace: &str, pod: &Value) -> String {
        let path = self.put(namespace, pod).await;
        self.until("the pod is ready", &path, |p| condition(p, "Ready")).await;
        path
    }

    /// Creates a budget and waits until its status allows so many.
    pub async fn allowing(&self, namespace: &str, budget: &Value, allowed: i64) -> String {
        let path = self.put(namespace, budget).await;
        let counted = |b: &Value| {
            b["status"]["observedGeneration"] == b["metadata"]["generation"]
                && b["status"]["disruptionsAllowed"] == allowed
        };
        self.until(&format!("the budget allows {allowed}"), &path, counted).await;
        path
    }

    /// A merge patch of an object, or of its status.
    pub async fn patch(&self, path: &str, change: &Value) {
        self.send(http::Method::PATCH, path, change)
            .await
            .unwrap_or_else(|error| panic!("cannot patch {path}: {error}"));
    }

    /// What a kubelet reports about a pod's readiness.
    pub async fn report_ready(&self, pod: &str, ready: bool) {
        let status = if ready { "True" } else { "False" };
        let conditions = json!([
            { "type": "Ready", "status": status }, { "type": "ContainersReady", "status": status }
        ]);
        self.patch(&format!("{pod}/status"), &json!({ "status": { "conditions": conditions } }))
            .await;
        self.until("it is reported", pod, |p| condition(p, "Ready") == ready).await;
    }

    /// DELETEs an object.
    pub async fn delete(&self, path: &str, options: &Value) {
        self.send(http::Method::DELETE, path, options)
            .await
            .unwrap_or_else(|error| panic!("cannot delete {path}: {error}"));
    }

    /// Sends a request with everything allowed.
    pub async fn send(
        &self,
        method: http::Method,
        path: &str,
        body: &Value,
    ) -> Result<Value, kube::Error> {
        let kind = if method == http::Method::PATCH {
            "application/merge-patch+json"
        } else {
            "application/json"
        };
        let request = http::Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", kind)
            .body(serde_json::to_vec(body).unwrap())
            .unwrap();
        self.cluster.client(crate::cluster::ADMIN).request::<Value>(request).await
    }

    /// Waits until an object is gone.
    pub async fn gone(&self, path: &str) {
        self.holds(&format!("{path} is gone"), async || self.get(path).await.is_none()).await;
    }

    /// Waits until this can be seen.
    pub async fn holds(&self, what: &str, mut look: impl AsyncFnMut() -> bool) {
        let end = std::time::Instant::now() + LIMIT;
        while !look().await {
            assert!(std::time::Instant::now() < end, "it does not happen that {what}");
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    }
}

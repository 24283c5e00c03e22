//! Who saw it: the API server's audit log, its Events, and a watch of all pods.

use std::{
    collections::BTreeMap,
    pin::pin,
    sync::{Arc, Mutex},
};

use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api,
    runtime::watcher::{Config, Event, watcher},
};
use serde_json::Value;
use sundown::domain::Moment;

use crate::{
    audit::{self, Call},
    cluster::ADMIN,
    process::Process,
    stage::Stage,
};

impl Stage {
    /// All that Sundown called so far, in the order of the answers; without its watches.
    pub fn calls(&self) -> Vec<Call> {
        let mut calls = audit::calls(self);
        calls.retain(|c| c.is_by_sundown() && c.verb != "watch");
        calls.sort_by_key(|c| c.answered);
        calls
    }

    /// The answers to evictions of a pod, oldest first.
    pub fn evictions(&self, namespace: &str, pod: &str) -> Vec<Call> {
        let about = |c: &Call| {
            (c.verb.as_str(), c.resource.as_str(), c.namespace.as_str(), c.name.as_str())
                == ("create", "pods/eviction", namespace, pod)
        };
        self.calls().into_iter().filter(about).collect()
    }

    /// The answers to deletes of a pod, oldest first.
    pub fn deletes(&self, namespace: &str, pod: &str) -> Vec<Call> {
        let about = |c: &Call| {
            (c.verb.as_str(), c.resource.as_str(), c.namespace.as_str(), c.name.as_str())
                == ("delete", "pods", namespace, pod)
        };
        self.calls().into_iter().filter(about).collect()
    }

    /// Nothing was deleted past its budget, and no right was missing.
    pub fn assert_polite(&self) {
        let calls = self.calls();
        let forced: Vec<_> =
            calls.iter().filter(|c| c.verb == "delete" && c.resource == "pods").collect();
        assert!(forced.is_empty(), "{forced:?}");
        let denied: Vec<_> = calls.iter().filter(|c| [401, 403].contains(&c.code)).collect();
        assert!(denied.is_empty(), "{denied:?}");
    }

    /// The messages of Events with this reason about an object.
    pub async fn events(&self, namespace: &str, name: &str, reason: &str) -> Vec<String> {
        let fields = format!("involvedObject.name%3D{name}%2Creason%3D{reason}");
        let list = self
            .get(&format!("/api/v1/namespaces/{namespace}/events?fieldSelector={fields}"))
            .await
            .unwrap();
        list["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|e| e["message"].as_str().unwrap_or_default().to_owned())
            .collect()
    }

    /// Waits for an Event with these words in it.
    pub async fn wait_for_event(&self, namespace: &str, name: &str, reason: &str, words: &str) {
        let what = format!("an Event {reason} of {name} contains «{words}»");
        self.holds(&what, async || {
            self.events(namespace, name, reason).await.iter().any(|m| m.contains(words))
        })
        .await;
    }

    /// When the first interruption on an instance's Node was accepted, from its record.
    pub async fn accepted(&self, instance: &str) -> Moment {
        let path = format!("/api/v1/nodes/{}", crate::stage::node_name(instance));
        let node = self
            .until("it is accepted", &path, |n| {
                n["metadata"]["annotations"]["sundown.dev/record"].is_string()
            })
            .await;
        let record: Value = serde_json::from_str(
            node["metadata"]["annotations"]["sundown.dev/record"].as_str().unwrap(),
        )
        .unwrap();
        record["interruptions"][0]["accepted"]
            .as_str()
            .unwrap_or_else(|| panic!("{record}"))
            .parse()
            .unwrap()
    }
}

/// Waits until so many pods are shown as blocked for this reason.
pub async fn blocked(sundown: &mut Process, reason: &str, count: u32) {
    let line = format!("sundown_blocked_pods{{reason=\"{reason}\"}} {count}");
    sundown
        .answers("/metrics", &format!("{count} pods are blocked by {reason}"), |_, text| {
            text.lines().any(|l| l == line)
        })
        .await;
}

/// What a watch of all pods has seen since it began.
#[derive(Default)]
struct Seen {
    /// Pods by UID: their app, and whether they are healthy as budgets count.
    pods: BTreeMap<String, (String, bool)>,
    listed: bool,
    /// The fewest healthy pods that an app ever had.
    least: BTreeMap<String, usize>,
    /// The last grace period in seconds of a pod that was asked to stop, by namespace and name.
    graces: BTreeMap<String, i64>,
}

/// A watch of all pods: the events of one watch come in the order of the writes, so nothing between
/// two of them is missed.
pub struct PodWatch {
    seen: Arc<Mutex<Seen>>,
    task: tokio::task::JoinHandle<()>,
}

impl PodWatch {
    /// Begins one, and waits until it knows what there is.
    pub async fn start(stage: &Stage) -> Self {
        let api: Api<Pod> = Api::all(stage.cluster.client(ADMIN));
        let seen = Arc::new(Mutex::new(Seen::default()));
        let shared = seen.clone();
        let task = tokio::spawn(async move {
            let mut events = pin!(watcher(api, Config::default()));
            while let Some(event) = events.next().await {
                // A watch that fails begins anew by itself.
                if let Ok(event) = event {
                    shared.lock().unwrap().take(event);
                }
            }
        });
        stage.holds("all pods are listed", async || seen.lock().unwrap().listed).await;
        Self { seen, task }
    }

    /// The fewest healthy pods that this app has had since the watch began.
    pub fn least(&self, app: &str) -> usize {
        *self
            .seen
            .lock()
            .unwrap()
            .least
            .get(app)
            .unwrap_or_else(|| panic!("no pod of {app} was ever seen"))
    }

    /// How long a pod was given to stop.
    pub fn grace(&self, namespace: &str, name: &str) -> Option<i64> {
        self.seen.lock().unwrap().graces.get(&format!("{namespace}/{name}")).copied()
    }
}

impl Drop for PodWatch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Seen {
    fn take(&mut self, event: Event<Pod>) {
        match event {
            Event::Init => {
                self.pods.clear();
                self.listed = false;
            }
            Event::InitDone => self.listed = true,
            Event::InitApply(pod) | Event::Apply(pod) => self.note(pod),
            Event::Delete(pod) => drop(self.pods.remove(&pod.metadata.uid.unwrap_or_default())),
        }
        if self.listed {
            // An app whose last pod is gone counts too.
            let mut healthy: BTreeMap<String, usize> =
                self.least.keys().map(|app| (app.clone(), 0)).collect();
            for (app, well) in self.pods.values() {
                *healthy.entry(app.clone()).or_default() += usize::from(*well);
            }
            for (app, count) in healthy {
                let least = self.least.entry(app).or_insert(count);
                *least = count.min(*least);
            }
        }
    }

    fn note(&mut self, pod: Pod) {
        let (metadata, status) = (pod.metadata, pod.status.unwrap_or_default());
        let ready = status
            .conditions
            .into_iter()
            .flatten()
            .any(|c| c.type_ == "Ready" && c.status == "True");
        let going = metadata.deletion_timestamp.is_some();
        if going {
            let key = format!(
                "{}/{}",
                metadata.namespace.unwrap_or_default(),
                metadata.name.unwrap_or_default()
            );
            self.graces.insert(key, metadata.deletion_grace_period_seconds.unwrap_or(-1));
        }
        let app = metadata.labels.unwrap_or_default().remove("app").unwrap_or_default();
        self.pods.insert(metadata.uid.unwrap_or_default(), (app, ready && !going));
    }
}

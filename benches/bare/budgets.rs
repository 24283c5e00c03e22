//! A watch of disruption budgets that asks for each that frees, at once.

use std::{collections::BTreeMap, path::PathBuf};

use futures::{AsyncBufReadExt as _, FutureExt as _, TryStreamExt as _};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Job, Plain, Work, client};

/// The budgets of one namespace. It ends with the process.
#[derive(Debug, Serialize, Deserialize)]
pub struct Budgets {
    kubeconfig: PathBuf,
    namespace: String,
    answer: Answer,
}

/// What is asked for a budget that frees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// The budget itself.
    Get,
    /// The eviction of a pod of the workload that has the budget's name, as a dry run: a real one
    /// would change the budget.
    EvictDryRun,
}

impl Budgets {
    pub fn job(kubeconfig: PathBuf, namespace: &str, answer: Answer) -> Job {
        Job::Budgets(Self { kubeconfig, namespace: namespace.to_owned(), answer })
    }

    pub(super) async fn prepare(self) -> Work {
        let client = client(&self.kubeconfig).await;
        let pods = self.pods(&client).await;
        let budgets = format!("/apis/policy/v1/namespaces/{}/poddisruptionbudgets", self.namespace);
        let watch = Plain::new(
            &http::Method::GET,
            format!("{budgets}?watch=true&resourceVersion=0"),
            &Value::Null,
        );
        let mut lines = client.request_stream(watch.request()).await.unwrap().lines();
        async move {
            while let Ok(Some(line)) = lines.try_next().await {
                let event: Value = serde_json::from_str(&line).unwrap();
                let name = event.pointer("/object/metadata/name").and_then(Value::as_str);
                let Some(name) = name.filter(|_| frees(&event["object"])) else { continue };
                let request = match self.answer {
                    Answer::Get => {
                        Plain::new(&http::Method::GET, format!("{budgets}/{name}"), &Value::Null)
                    }
                    Answer::EvictDryRun => match pods.get(name) {
                        Some(pod) => self.eviction(pod),
                        None => continue,
                    },
                };
                let client = client.clone();
                tokio::spawn(async move { drop(client.request_text(request.request()).await) });
            }
        }
        .boxed()
    }

    /// A pod of each workload; pods of Deployments are called after them.
    async fn pods(&self, client: &kube::Client) -> BTreeMap<String, String> {
        if self.answer == Answer::Get {
            return BTreeMap::new();
        }
        let list = Plain::new(
            &http::Method::GET,
            format!("/api/v1/namespaces/{}/pods", self.namespace),
            &Value::Null,
        );
        let pods: Value = client.request(list.request()).await.unwrap();
        let names = pods["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|pod| pod["metadata"]["name"].as_str().unwrap());
        names.map(|name| (workload_of(name), name.to_owned())).collect()
    }

    fn eviction(&self, pod: &str) -> Plain {
        let eviction = json!({
            "apiVersion": "policy/v1", "kind": "Eviction", "metadata": { "name": pod },
            "deleteOptions": { "dryRun": ["All"] },
        });
        Plain::new(
            &http::Method::POST,
            format!("/api/v1/namespaces/{}/pods/{pod}/eviction?dryRun=All", self.namespace),
            &eviction,
        )
    }
}

/// A budget's status that lets a pod go.
pub fn frees(budget: &Value) -> bool {
    budget["status"]["disruptionsAllowed"].as_i64().is_some_and(|n| n > 0)
}

/// The Deployment (and budget) `service-N` of a pod.
pub fn workload_of(pod: &str) -> String {
    pod.split('-').take(2).collect::<Vec<_>>().join("-")
}

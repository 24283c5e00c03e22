//! Asks Kubernetes, and the leader about its queue.

use super::{
    Check,
    cluster::{self, Own},
    finding::{self, Finding},
    impaired, lease, network,
};
use crate::{
    cluster::{Cluster, ConnectOptions, KeepLabels, connect, list_nodes},
    domain::with_causes,
    runtime::{Clock, Spawner},
};

impl Check<'_> {
    /// Whether the Nodes let the drain of a sick instance begin, if `--on impaired` asks for that.
    async fn sick_nodes(&mut self, client: &kube::Client) {
        let Some(config) = self.config.drain.impaired else { return };
        let (clock, selector) = (Clock::system(), &self.config.ours.nodes);
        let cluster = Cluster::plain(client.clone(), clock, self.random.clone(), Spawner::new());
        // If this is denied, the points `rights` and `groups` report why.
        if let Ok(nodes) = list_nodes(&cluster, &KeepLabels::of(selector)).await {
            self.found.push(impaired::judge_nodes(nodes, selector, config, clock.now()));
        }
    }

    /// A client for the API server. `None`: it does not answer.
    pub(super) async fn reach_cluster(&mut self) -> Option<kube::Client> {
        let kube = &self.config.kube;
        let options =
            ConnectOptions { kubeconfig: kube.kubeconfig.clone(), context: kube.context.clone() };
        let client = match connect(&options).await {
            Ok(client) => client,
            Err(error) => {
                let remedy = "give --kubeconfig, or run it in a pod: kubectl exec deploy/sundown \
                    -- /usr/local/bin/sundown check";
                self.found.push(Finding::no("kubernetes", "", with_causes(&error), remedy));
                return None;
            }
        };
        let reached = cluster::reach(&client).await;
        let is_there = reached.answer == finding::Answer::Yes;
        self.found.push(reached);
        is_there.then_some(client)
    }

    pub(super) async fn cluster(&mut self, client: Option<kube::Client>) {
        let Some(client) = client else { return self.without_leader() };
        let answers = cluster::ask_rights(&client, cluster::needed(&self.config)).await;
        self.found.extend(cluster::judge_rights(&answers));
        self.sick_nodes(&client).await;
        let pods = cluster::list_pods(&client).await;
        let election = &self.config.election;
        let (namespace, lease) = (election.lease_namespace.as_str(), election.lease_name.as_str());
        match &pods {
            Ok(pods) => {
                let own = Own {
                    queues: self.config.queue.urls.iter().map(|u| u.url.as_str()).collect(),
                    lease: (namespace, lease),
                };
                self.found.extend(cluster::judge_pods(&own, pods));
            }
            Err(why) => self.found.push(
                Finding::cannot_tell(
                    "no-other-handler",
                    "",
                    format!("pods cannot be listed: {why}"),
                    "allow `list pods`",
                )
                .advice(),
            ),
        }
        let pods = pods.unwrap_or_default();
        if !self.config.dry_run {
            // A dry run needs no Lease.
            let answer = lease::ask(&client, namespace, lease).await;
            self.found.push(lease::judge(namespace, lease, answer));
        }
        let held = cluster::lease_state(&client, namespace, lease).await;
        if let Ok(held) = &held {
            self.found.push(cluster::judge_pause(held, namespace, lease));
        }
        self.leader(held.map(|held| held.leader), &pods).await;
    }

    /// Whether the leader receives, by its `/readyz`.
    async fn leader(
        &mut self,
        leader: Result<Option<String>, String>,
        pods: &[cluster::PodSummary],
    ) {
        const POINT: &str = "queue.receive";
        let (port, namespace) =
            (self.config.service.probes.map(|a| a.port()), &self.config.election.lease_namespace);
        if self.args.receive && self.args.readyz.is_none() {
            // `--receive` has asked the queue itself.
            return;
        }
        if let Some(url) = &self.args.readyz {
            let finding = network::judge_ready(url, &network::get(url).await);
            self.found.push(finding);
            return;
        }
        let ask_it = "name the leader's with --readyz URL, or ask the queue itself with --receive";
        let finding = match leader {
            Err(why) => {
                Finding::cannot_tell(POINT, "", format!("the Lease cannot be read: {why}"), ask_it)
            }
            Ok(None) => {
                let message = format!(
                    "no replica leads: the Lease in {namespace} has no holder, or does not exist"
                );
                Finding::cannot_tell(
                    POINT,
                    "",
                    message,
                    format!("see that Sundown runs there; else {ask_it}"),
                )
            }
            Ok(Some(leader)) => {
                let address = pods
                    .iter()
                    .find(|p| p.name == leader && p.namespace == *namespace)
                    .and_then(|p| p.address.clone());
                match (address, port) {
                    (Some(address), Some(port)) => {
                        let address =
                            if address.contains(':') { format!("[{address}]") } else { address };
                        network::judge_ready(
                            &leader,
                            &network::get(&format!("http://{address}:{port}/readyz")).await,
                        )
                    }
                    _ => Finding::cannot_tell(
                        POINT,
                        leader,
                        "it leads, but the address of its /readyz is not known",
                        ask_it,
                    ),
                }
            }
        };
        self.found.push(finding);
    }

    /// Reports that the leader cannot be found without Kubernetes.
    fn without_leader(&mut self) {
        if !self.args.receive {
            let message = "the leader is not known without Kubernetes";
            self.found.push(Finding::cannot_tell(
                "queue.receive",
                "",
                message,
                "ask the queue itself with --receive",
            ));
        }
    }
}

//! Asks AWS and Kubernetes the questions of the triage of one interruption.

use std::{collections::BTreeSet, future::pending, pin::Pin, sync::Arc};

use futures::{StreamExt, stream::FuturesUnordered};
use tracing::{debug, warn};

use super::{
    context::Term,
    hook_claims,
    hooks::{NamedBy, Proof},
};
use crate::{
    aws::LookupError,
    cluster::{list_pods, node_lease_renewed},
    domain::{
        DaemonSetName, InstanceFacts, InstanceId, Interruption, LifecycleAction, Moment, Node, Pod,
        seconds,
    },
    triage::{
        DaemonSetPodsAnswer, GroupAnswer, HeartbeatAnswer, HookAnswer, HooksAnswer, InstanceAnswer,
        Knowledge, LeaseAnswer, Question,
    },
};

/// An answer to a question.
pub(super) enum Answer {
    Instance(InstanceAnswer),
    /// All instances with that private DNS name.
    InstancesWithName(Vec<InstanceFacts>),
    Group(GroupAnswer),
    Hook(HookAnswer),
    Hooks(HooksAnswer),
    Heartbeat(HeartbeatAnswer),
    NodeLease(LeaseAnswer),
    DaemonSetPods(DaemonSetPodsAnswer),
    Listed(Moment, Vec<Arc<Node>>),
    /// The call failed. This answer comes 1 s after the failure, so that the question may be asked
    /// again at once.
    Failed,
}

impl Answer {
    /// Adds the answer to what is known about an interruption of this instance.
    pub(super) fn note(self, known: &mut Knowledge, instance: &InstanceId) {
        match self {
            Self::Instance(answer) => known.instance = Some(answer),
            Self::InstancesWithName(all) => known.namesakes = Some(all),
            Self::Group(answer) => known.group = Some(answer),
            Self::Hook(answer) => known.hook = Some(answer),
            Self::Hooks(answer) => known.hooks = Some(answer),
            Self::Heartbeat(answer) => known.heartbeat = Some(answer),
            Self::NodeLease(answer) => known.launch_answers().lease = Some(answer),
            Self::DaemonSetPods(answer) => known.launch_answers().daemon_set_pods = Some(answer),
            Self::Listed(at, nodes) => {
                let facts = known.instance.as_ref().and_then(|answer| answer.facts.as_ref());
                let is_named =
                    |node: &Node| facts.is_some_and(|facts| Knowledge::is_named_after(node, facts));
                let ours =
                    |node: &Arc<Node>| node.instance.as_ref() == Some(instance) || is_named(node);
                known.listed = Some((at, nodes.into_iter().filter(ours).collect()));
            }
            Self::Failed => {}
        }
    }
}

type Asking = Pin<Box<dyn Future<Output = (Question, Answer)> + Send>>;

/// The questions that wait for an answer. The same question never waits twice.
#[derive(Default)]
pub(super) struct Questions {
    asking: FuturesUnordered<Asking>,
    asked: BTreeSet<Question>,
}

impl Questions {
    /// Asks the question, unless it already waits for its answer. `event`: when the event happened.
    /// `dry`: nothing may be written.
    pub(super) fn ask(
        &mut self,
        term: &Term,
        interruption: &Interruption,
        event: Moment,
        question: Question,
        dry: bool,
    ) {
        if self.asked.insert(question.clone()) {
            self.asking.push(ask(term.clone(), interruption.clone(), event, question, dry));
        }
    }

    /// Whether no question waits for an answer.
    pub(super) fn is_empty(&self) -> bool {
        self.asking.is_empty()
    }

    /// Waits for the next answer, forever if no question waits. Dropping this future loses no
    /// answer.
    pub(super) async fn answer(&mut self) -> Answer {
        match self.asking.next().await {
            Some((question, answer)) => {
                self.asked.remove(&question);
                answer
            }
            None => pending().await,
        }
    }
}

/// Asks one question. The lookups limit their rate, batch and retry by themselves.
fn ask(
    term: Term,
    interruption: Interruption,
    event: Moment,
    question: Question,
    dry: bool,
) -> Asking {
    Box::pin(async move {
        let asked_at = term.shared.clock.now();
        let answer = match &question {
            Question::Instance { instance, not_before } => {
                let answer = term
                    .shared
                    .lookups
                    .instances
                    .get_since(instance, term.shared.clock.past_instant(*not_before))
                    .await;
                answered(answer.map(Some), |answer| match answer {
                    Some((asked, facts)) => Answer::Instance(InstanceAnswer {
                        at: term.shared.clock.moment(asked),
                        facts: facts.map(|f| InstanceFacts {
                            launched: f.launched.map(|at| term.skew().to_ours(at)),
                            ..(*f).clone()
                        }),
                    }),
                    None => Answer::Failed,
                })
            }
            Question::Name(name) => answered(term.shared.lookups.dns.get(name).await, |all| {
                Answer::InstancesWithName(all.map(|all| (*all).clone()).unwrap_or_default())
            }),
            Question::Group(group) => {
                answered(term.shared.lookups.groups.get(group).await, |facts| {
                    Answer::Group(facts.map_or(GroupAnswer::NoSuchGroup, |facts| {
                        GroupAnswer::Tags(facts.tags.clone())
                    }))
                })
            }
            Question::Hook(group, hook) => {
                answered(term.shared.lookups.hooks.get(group, hook).await, |d| {
                    Answer::Hook(d.map_or(HookAnswer::NoSuchHook, HookAnswer::Described))
                })
            }
            Question::Hooks(group) => {
                hook_claims::ask(&term, group).await.map_or(Answer::Failed, Answer::Hooks)
            }
            // A heartbeat is a write: a dry run sends none, as if AWS had not answered.
            Question::Heartbeat(_) if dry => Answer::Failed,
            Question::Heartbeat(key) => {
                let action = LifecycleAction {
                    key: key.clone(),
                    token: interruption.hook().and_then(|h| h.token.clone()),
                };
                match term.actions.prove(&action, event, NamedBy::Message).await {
                    Some(proof) => Answer::Heartbeat(HeartbeatAnswer {
                        at: term.shared.clock.now(),
                        accepted: proof == Proof::Open,
                    }),
                    None => Answer::Failed,
                }
            }
            Question::NodeLease(node) => {
                match node_lease_renewed(&term.shared.cluster, node).await {
                    Ok(renewed) => Answer::NodeLease(LeaseAnswer {
                        node: node.clone(),
                        at: asked_at,
                        // The kubelet writes the time by the clock of its machine, which follows
                        // AWS's clock.
                        renewed: renewed.map(|at| term.skew().to_ours(at)),
                    }),
                    Err(error) => {
                        if term.is_first_report("the Lease of a Node cannot be read") {
                            warn!(
                                %node, %error,
                                "Cannot read the Lease of a Node in kube-node-lease: launch hooks \
                                 wait until that works, or for --launch-timeout."
                            );
                        }
                        Answer::Failed
                    }
                }
            }
            Question::DaemonSetPods(node) => match list_pods(&term.shared.cluster, node).await {
                Ok(pods) => Answer::DaemonSetPods(DaemonSetPodsAnswer {
                    node: node.clone(),
                    at: asked_at,
                    ready: ready_daemon_sets(&pods, &term.shared.policy.launch.daemon_sets),
                }),
                Err(error) => {
                    if term.is_first_report("the pods of a launching Node cannot be listed") {
                        warn!(
                            %node, %error,
                            "Cannot list the pods of a node: launch hooks with --launch-daemonset \
                             wait until that works, or for --launch-timeout."
                        );
                    }
                    Answer::Failed
                }
            },
            Question::List { .. } => match term.shared.nodes.list_fresh().await {
                Ok(nodes) => Answer::Listed(asked_at, nodes),
                Err(error) => {
                    debug!(%error, "Cannot list the Nodes at the API server; Sundown does not \
                        complete the lifecycle action until that works.");
                    Answer::Failed
                }
            },
        };
        if matches!(answer, Answer::Failed) {
            tokio::time::sleep(seconds(1)).await;
        }
        (question, answer)
    })
}

/// Which of these DaemonSets own a Ready pod.
fn ready_daemon_sets(pods: &[Pod], wanted: &[DaemonSetName]) -> BTreeSet<DaemonSetName> {
    let has_ready_pod = |name: &&DaemonSetName| {
        pods.iter().any(|pod| {
            let owner = pod.owner.as_ref().filter(|owner| owner.is_daemon_set() && pod.ready);
            owner.is_some_and(|owner| owner.name == name.name)
                && *pod.key.namespace == *name.namespace
        })
    };
    wanted.iter().filter(has_ready_pod).cloned().collect()
}

fn answered<T>(
    found: Result<Option<T>, LookupError>,
    answer: impl FnOnce(Option<T>) -> Answer,
) -> Answer {
    match found {
        Ok(found) => answer(found),
        Err(error) => {
            debug!(%error, "A question to AWS failed; asking again.");
            Answer::Failed
        }
    }
}

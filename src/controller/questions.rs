//! The questions that the triage of one interruption asks of AWS and Kubernetes, and their answers.

use std::{collections::BTreeSet, future::pending, pin::Pin, sync::Arc};

use futures::{StreamExt, stream::FuturesUnordered};
use tracing::debug;

use super::{
    context::Term,
    hook_claims,
    hooks::{Proof, Source},
};
use crate::{
    aws::LookupError,
    domain::{InstanceFacts, Interruption, Moment, Node, OwedHook, seconds},
    triage::{BeatAnswer, GroupAnswer, HookAnswer, HooksAnswer, InstanceAnswer, Question},
};

/// What an answer contains.
pub(super) enum Learnt {
    Instance(InstanceAnswer),
    Namesakes(Vec<InstanceFacts>),
    Group(GroupAnswer),
    Hook(HookAnswer),
    Hooks(HooksAnswer),
    Beat(BeatAnswer),
    Listed(Moment, Vec<Arc<Node>>),
    /// Could not be asked; it is tried again after a pause.
    Nothing,
}

type Asking = Pin<Box<dyn Future<Output = (Question, Learnt)> + Send>>;

/// The questions that wait for an answer. Each is asked once at a time.
#[derive(Default)]
pub(super) struct Questions {
    asking: FuturesUnordered<Asking>,
    asked: BTreeSet<Question>,
}

impl Questions {
    /// Asks, unless the same question waits for its answer already. `event`: when the event happened.
    pub(super) fn ask(&mut self, term: &Term, interruption: &Interruption, event: Moment, question: Question, dry: bool) {
        if self.asked.insert(question.clone()) {
            self.asking.push(ask(term.clone(), interruption.clone(), event, question, dry));
        }
    }

    /// No question waits for an answer.
    pub(super) fn is_empty(&self) -> bool {
        self.asking.is_empty()
    }

    /// The next answer; while nothing was asked, none ever comes. Loses nothing when it is dropped.
    pub(super) async fn answer(&mut self) -> Learnt {
        match self.asking.next().await {
            Some((question, learnt)) => {
                self.asked.remove(&question);
                learnt
            }
            None => pending().await,
        }
    }
}

/// Asks one question. Lookups wait, batch and retry by themselves; what cannot be asked comes back as nothing after a pause.
fn ask(term: Term, interruption: Interruption, event: Moment, question: Question, dry: bool) -> Asking {
    Box::pin(async move {
        let asked_at = term.clock.now();
        let learnt = match &question {
            Question::Instance { instance, not_before } => {
                let answer = term.lookups.instances.get_since(instance, term.clock.past_instant(*not_before)).await;
                heard(answer.map(Some), |answer| match answer {
                    Some((asked, facts)) => Learnt::Instance(InstanceAnswer { at: term.clock.moment(asked), facts: facts.map(|f| (*f).clone()) }),
                    None => Learnt::Nothing,
                })
            }
            Question::Name(name) => {
                heard(term.lookups.dns.get(name).await, |all| Learnt::Namesakes(all.map(|all| (*all).clone()).unwrap_or_default()))
            }
            Question::Group(group) => heard(term.lookups.groups.get(group).await, |tags| {
                Learnt::Group(tags.map_or(GroupAnswer::NoSuchGroup, |t| GroupAnswer::Tags((*t).clone())))
            }),
            Question::Hook(group, hook) => {
                heard(term.lookups.hooks.get(group, hook).await, |d| Learnt::Hook(d.map_or(HookAnswer::NoSuchHook, HookAnswer::Described)))
            }
            Question::Hooks(group) => hook_claims::ask(&term, group).await.map_or(Learnt::Nothing, Learnt::Hooks),
            // A heartbeat is a write: a dry run sends none, and takes the answer for one that does not come.
            Question::Beat(_) if dry => Learnt::Nothing,
            Question::Beat(key) => {
                let owed = OwedHook { key: key.clone(), token: interruption.hook().and_then(|h| h.token.clone()) };
                match term.hooks.prove(&owed, event, Source::Message).await {
                    Some(proof) => Learnt::Beat(BeatAnswer { at: term.clock.now(), accepted: proof == Proof::Open }),
                    None => Learnt::Nothing,
                }
            }
            Question::List { .. } => match term.nodes.list_fresh().await {
                Ok(nodes) => Learnt::Listed(asked_at, nodes),
                Err(error) => {
                    debug!(%error, "Cannot list the nodes past the index; nothing is completed until that works.");
                    Learnt::Nothing
                }
            },
        };
        if matches!(learnt, Learnt::Nothing) {
            tokio::time::sleep(seconds(1)).await;
        }
        (question, learnt)
    })
}

fn heard<T>(answer: Result<Option<T>, LookupError>, learn: impl FnOnce(Option<T>) -> Learnt) -> Learnt {
    match answer {
        Ok(answer) => learn(answer),
        Err(error) => {
            debug!(%error, "AWS could not be asked; asking on.");
            Learnt::Nothing
        }
    }
}

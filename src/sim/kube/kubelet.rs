//! The kubelets: pods start, become ready, and stop.

use std::time::Duration;

use serde_json::Value;

use super::{
    agenda::Task,
    json::Look,
    machine::{Run, Stopping},
    object::{Key, PodFacts},
    pods::{self, Takes, takes},
    store::State,
};
use crate::domain::Moment;

const BY: &str = "<kubelet>";

impl State {
    /// What a kubelet does about one of its pods now.
    pub(super) fn kubelet(&mut self, key: &Key) {
        let now = self.now();
        let Some((object, facts)) =
            self.pod(key).map(|(o, f)| (std::sync::Arc::clone(o), f.clone()))
        else {
            return;
        };
        let Some(node) = facts.node.as_deref() else { return };
        if !self.machines.get(node).is_some_and(super::machine::Machine::acts) {
            return;
        }
        let known = self.machines.get(node).and_then(|m| m.runs.get(&facts.uid)).copied();
        let mut run = known.unwrap_or_else(|| self.first_sight(&object.value, &facts, now));
        if let Some(deletion_grace) = facts.deletion.map(|_| facts.deletion_grace) {
            run.stopping = Some(self.stopping(&object.value, &facts, run, deletion_grace, now));
        }
        if let Some(machine) = self.machines.get_mut(node) {
            machine.runs.insert(facts.uid.clone(), run);
        }
        match run.stopping {
            Some(stopping) => self.kubelet_stops(key, &facts, stopping, now),
            None => self.kubelet_runs(key, &facts, run, now),
        }
    }

    fn first_sight(&self, pod: &Value, facts: &PodFacts, now: Moment) -> Run {
        let timing = &self.options.timing;
        let after = |what: Takes, usual: Duration, from: Option<Moment>| match what {
            Takes::Time(d) => from.map(|f| f.plus(d)),
            Takes::Usual => from.map(|f| f.plus(usual)),
            Takes::Forever => None,
        };
        if facts.phase == "Running" {
            let ends = after(takes(pod, pods::RUNS_FOR), Duration::MAX, Some(now));
            return Run {
                runs: Some(now),
                ready: facts.ready.then_some(now),
                ends,
                stopping: None,
            };
        }
        let runs = after(takes(pod, pods::START), timing.start, Some(now));
        let ends = match takes(pod, pods::RUNS_FOR) {
            Takes::Time(d) => runs.map(|r| r.plus(d)),
            Takes::Forever | Takes::Usual => None,
        };
        Run {
            runs,
            ready: after(takes(pod, pods::READY), timing.ready, runs),
            ends,
            stopping: None,
        }
    }

    /// A shorter grace period counts anew from now, as the kubelet kills with it again.
    fn stopping(
        &self,
        pod: &Value,
        facts: &PodFacts,
        run: Run,
        grace: i64,
        now: Moment,
    ) -> Stopping {
        let limit = now.plus(Duration::from_secs(grace.unsigned_abs()));
        match run.stopping {
            Some(s) if grace < s.grace => {
                let earlier = s.stopped.is_some_and(|at| at > limit);
                Stopping {
                    grace,
                    stopped: s.stopped.map(|at| at.min(limit)),
                    killed: s.killed || earlier,
                }
            }
            Some(s) => s,
            None => {
                let stop = match takes(pod, pods::STOP) {
                    Takes::Time(d) => Some(d),
                    Takes::Usual => Some(self.options.timing.stop),
                    Takes::Forever => None,
                };
                let started = facts.phase == "Running";
                let natural = stop.map(|d| if started { now.plus(d) } else { now });
                let killed = natural.is_some_and(|at| at > limit);
                Stopping { grace, stopped: natural.map(|at| at.min(limit)), killed }
            }
        }
    }

    fn kubelet_stops(&mut self, key: &Key, facts: &PodFacts, stopping: Stopping, now: Moment) {
        let Some(stopped) = stopping.stopped else { return };
        if stopped > now {
            self.agenda.at(stopped, Task::Kubelet(key.clone()));
            return;
        }
        if !facts.is_finished() {
            self.change("pods", key, BY, |p| pods::set_finished(p, !stopping.killed, now));
        }
        let removed = stopped.plus(self.options.timing.removal);
        if removed > now {
            self.agenda.at(removed, Task::Kubelet(key.clone()));
            return;
        }
        let mirrored =
            facts.mirror.then(|| self.get("pods", key).map(|o| o.value.clone())).flatten();
        self.change("pods", key, BY, |p| p.put("metadata.deletionGracePeriodSeconds", 0));
        let held =
            self.get("pods", key).is_some_and(|o| !o.value.items("metadata.finalizers").is_empty());
        if !held && self.pod(key).is_some_and(|(_, p)| p.uid == facts.uid) {
            self.erase("pods", key, BY);
        }
        if let Some(node) =
            facts.node.as_deref().and_then(|n| self.machines.get_mut(n)).filter(|_| !held)
        {
            node.runs.remove(&facts.uid);
        }
        if let Some(mirror) = mirrored {
            self.show_static_pod_again(mirror, now);
        }
    }

    /// A static pod lives on whatever happens to its image.
    fn show_static_pod_again(&mut self, mut pod: Value, now: Moment) {
        for field in ["uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"]
        {
            pod.take_away(&format!("metadata.{field}"));
        }
        pods::set_running(&mut pod, true, now);
        self.add("pods", pod, BY);
    }

    fn kubelet_runs(&mut self, key: &Key, facts: &PodFacts, run: Run, now: Moment) {
        if facts.is_finished() {
            return;
        }
        let is_due = |at: Option<Moment>| at.is_some_and(|at| at <= now);
        if is_due(run.ends) {
            self.change("pods", key, BY, |p| pods::set_finished(p, true, now));
            return;
        }
        let (runs, ready) = (is_due(run.runs), is_due(run.ready));
        if runs && (facts.phase != "Running" || facts.ready != ready) {
            self.change("pods", key, BY, |p| pods::set_running(p, ready, now));
        }
        let next =
            [run.runs, run.ready, run.ends].into_iter().flatten().filter(|at| *at > now).min();
        if let Some(next) = next {
            self.agenda.at(next, Task::Kubelet(key.clone()));
        }
    }

    /// What is starting runs and is ready now, unless it never would be.
    pub(super) fn start_at_once(&mut self) {
        let now = self.now();
        for run in self
            .machines
            .values_mut()
            .flat_map(|m| m.runs.values_mut())
            .filter(|r| r.stopping.is_none())
        {
            run.runs = run.runs.map(|at| at.min(now));
            run.ready = run.ready.map(|at| at.min(now));
        }
        let nodes: Vec<String> = self.machines.keys().cloned().collect();
        for node in nodes {
            self.rouse_kubelet(&node);
        }
    }

    /// The pods of a node want their kubelet's attention.
    pub(super) fn rouse_kubelet(&mut self, node: &str) {
        let now = self.now();
        for (key, _) in self.pods_on(node) {
            self.agenda.at(now, Task::Kubelet(key));
        }
    }
}

//! One writer at a time: a process writes Nodes, pods and Events, and completes actions, only while
//! the Lease is its own. It sends nothing once the renew deadline is over, and nothing of it has an
//! effect once the Lease has expired.
//!
//! Who held the Lease when, the API server stored. Heartbeats are the documented exception: a
//! process that lost its Lease because it could not renew it goes on with them until it sees
//! another holder (docs/adr/0010-heartbeats-go-on-while-nobody-leads.md).

use std::time::Duration;
use sundown::domain::Moment;

use sundown::sim::{
    aws::Outcome,
    kube::{Entry, Fact, PodRef, Request},
};

use super::{
    Judge,
    excuses::{LEASE, Scope},
    is_us,
    leaders::Stage,
    promises::Promise,
};

/// After this long with the Lease in reach, a process knows that another one holds it.
const KNOWN: Duration = Duration::from_secs(15);

/// Resource, namespace and name of a pod.
fn of_pod(pod: &PodRef) -> (&str, &str, &str) {
    ("pods", &pod.namespace, &pod.name)
}

impl Judge<'_> {
    pub(super) fn writers(&mut self) {
        let evidence = self.evidence;
        // A dry run leads without a Lease, and writes nothing.
        for request in
            evidence.requests.iter().filter(|r| is_us(&r.client) && r.is_write() && !r.dry_run)
        {
            let is_ours = ["nodes", "pods", "events"].contains(&request.resource.as_str());
            if is_ours
                && !self.leaders.may_write(&request.client, request.at, Stage::Sent)
                && !self.could_not_see_the_loss(&request.client, request.at)
            {
                let what = format!(
                    "{} {}/{} {}",
                    request.verb, request.resource, request.subresource, request.name
                );
                self.broken(
                    request.at,
                    format!("{} sent `{what}` without the Lease", request.client),
                );
            }
        }
        for Entry { at, by, fact } in evidence.entries.iter().filter(|e| is_us(&e.by)) {
            let (what, object) = match fact {
                Fact::Evicted { pod, .. } => (format!("the eviction of {}", pod.name), of_pod(pod)),
                Fact::Deleted { pod, .. } => (format!("the deletion of {}", pod.name), of_pod(pod)),
                Fact::NodeChanged(node) => {
                    (format!("a write of {}", node.name), ("nodes", "", node.name.as_str()))
                }
                _ => continue,
            };
            let sent = self.write_sent(by, object, *at);
            if !self.leaders.may_write(by, *at, Stage::Done { sent })
                && !self.could_not_see_the_loss(by, sent)
            {
                self.broken(*at, format!("{what} by {by} took effect without the Lease"));
            }
        }
        for call in evidence.calls.iter().filter(|c| is_us(&c.by)) {
            match call.api.as_str() {
                "autoscaling:CompleteLifecycleAction"
                    if call.outcome != Outcome::LostBefore
                        && !self.leaders.may_write(
                            &call.by,
                            call.at,
                            Stage::Done { sent: call.at },
                        ) =>
                {
                    self.broken(
                        call.at,
                        format!("{} completed {} without the Lease", call.by, call.object),
                    );
                }
                "autoscaling:RecordLifecycleActionHeartbeat" => {
                    self.heartbeat(&call.by, call.at, &call.object);
                }
                _ => {}
            }
        }
    }

    /// A person took the Lease from this process, and from then until this moment the process could
    /// not read the Lease. It believes to hold it until its renew deadline, also if another process
    /// takes it meanwhile.
    fn could_not_see_the_loss(&self, process: &str, at: Moment) -> bool {
        let scope =
            Scope { needs: &[LEASE], of: None, process: Some(process), without_leader: None };
        let taken = self.leaders.taken_by_person(process, at);
        taken.is_some_and(|taken| {
            self.longest_clear(scope, taken, at) == Duration::ZERO
                && self.leaders.has_held(process, at)
        })
    }

    /// When the write came in that had its effect on this object (resource, namespace and name) at
    /// that moment: the last write of this process about it that was not answered before. A server
    /// may be slow. If there is none, it is that moment.
    fn write_sent(
        &self,
        process: &str,
        (resource, namespace, name): (&str, &str, &str),
        effect: Moment,
    ) -> Moment {
        let is_it = |r: &&Request| {
            r.client == process
                && (r.is_write() && !r.dry_run)
                && (r.resource == resource && r.namespace == namespace && r.name == name)
                && r.at <= effect
                && r.answered.is_none_or(|answered| answered >= effect)
        };
        self.evidence.requests.iter().filter(is_it).map(|r| r.at).max().unwrap_or(effect)
    }

    /// Only a process that has led sends heartbeats, and it stops when it can see that another one
    /// leads.
    fn heartbeat(&mut self, process: &str, at: Moment, object: &str) {
        if !self.leaders.has_held(process, at) {
            self.broken(at, format!("{process} sent a heartbeat for {object} and had never led"));
            return;
        }
        let Some(holder) = self.leaders.at(at) else { return };
        let is_another =
            holder.process.is_some_and(|holds| holds != process) && holder.at + KNOWN <= at;
        let scope =
            Scope { needs: &[LEASE], of: None, process: Some(process), without_leader: None };
        let excused = is_another && self.longest_clear(scope, holder.at, at) < KNOWN;
        self.count(Promise::OneWriter, excused);
        if is_another && !excused {
            self.broken(
                at,
                format!("{process} sent a heartbeat for {object} while another process led"),
            );
        }
    }
}

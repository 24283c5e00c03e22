//! Requests in flight: `--max-evictions` and `--max-evictions-per-budget`, with the exceptions that
//! docs/configuration.md names.
//!
//! Requests that wait for an admission webhook do not count. A request is such a one only if its
//! lane had no answer for a second. The judge does not know lanes. It takes the pods of one
//! workload for a lane, which is never more than a lane has: what it counts, counts.

use std::{collections::BTreeMap, time::Duration};

use sundown::{domain::Moment, sim::kube::Request};

use super::{Judge, budgets::workload, is_us};

/// A lane without an answer for this long does not count.
const SILENT: Duration = Duration::from_secs(1);

/// An eviction or a deletion that is under way.
#[derive(Clone, Copy)]
struct InFlight<'a> {
    request: &'a Request,
    is_deletion: bool,
}

type Lane<'a> = (bool, &'a str, &'a str);

impl<'a> InFlight<'a> {
    fn of(request: &'a Request) -> Option<Self> {
        let is_eviction = request.subresource == "eviction" && request.verb == "create";
        let is_deletion = request.subresource.is_empty() && request.verb == "delete";
        let is_one = request.resource == "pods" && (is_eviction || is_deletion) && !request.dry_run;
        is_one.then_some(Self { request, is_deletion })
    }

    fn lane(self) -> Lane<'a> {
        (self.is_deletion, &self.request.namespace, workload(&self.request.name))
    }
}

/// What one process may have in flight.
#[derive(Debug, Clone, Copy)]
struct Limits {
    evictions: usize,
    per_budget: usize,
}

impl Judge<'_> {
    /// Says the most that a process had in flight, so that a test can see that it looks.
    pub(super) fn limits(&mut self) -> usize {
        let evidence = self.evidence;
        let mut of_process: BTreeMap<&str, Vec<InFlight<'_>>> = BTreeMap::new();
        for request in evidence.requests.iter().filter(|r| is_us(&r.client)) {
            if let Some(one) = InFlight::of(request) {
                of_process.entry(&request.client).or_default().push(one);
            }
        }
        let mut most = 0;
        for (process, all) in of_process {
            let number = |name: &str, default: usize| {
                self.evidence.terms.flag(process, name).map_or(default, |v| v.parse().unwrap())
            };
            let limits = Limits {
                evictions: number("--max-evictions", 32).max(1),
                per_budget: number("--max-evictions-per-budget", 8).max(1),
            };
            most = most.max(self.in_flight(process, &all, limits));
        }
        most
    }

    fn in_flight(&mut self, process: &str, all: &[InFlight<'_>], limits: Limits) -> usize {
        let mut answers: BTreeMap<Lane<'_>, Vec<Moment>> = BTreeMap::new();
        for one in all {
            answers.entry(one.lane()).or_default().extend(one.request.answered);
        }
        let mut open: Vec<InFlight<'_>> = Vec::new();
        let mut most = 0;
        for one in all {
            let now = one.request.at;
            open.retain(|o| o.request.ended.is_none_or(|ended| ended > now));
            open.push(*one);
            most = most.max(open.len());
            for wrong in too_many(&open, &answers, now, limits) {
                self.broken(now, format!("{process} had {wrong}"));
            }
            if let Some(wrong) = self.over_budget(process, &open, one, limits) {
                self.broken(now, format!("{process} had {wrong}"));
            }
        }
        most
    }

    /// Evictions under one budget. A pod under several is evicted by nobody, so nobody counts its
    /// tries. A process that could not renew its Lease and leads again begins anew, as another
    /// leader would: what it sent before does not count.
    fn over_budget(
        &self,
        process: &str,
        open: &[InFlight<'_>],
        newest: &InFlight<'_>,
        limits: Limits,
    ) -> Option<String> {
        let (is_deletion, namespace, name) = newest.lane();
        let budgets = self
            .evidence
            .terms
            .budgets
            .iter()
            .filter(|(n, w)| (n.as_str(), w.as_str()) == (namespace, name))
            .count();
        if is_deletion || budgets != 1 {
            return None;
        }
        let since = self.leaders.leads_since(process, newest.request.at);
        let is_new = |o: &&InFlight<'_>| since.is_none_or(|since| o.request.at >= since);
        let under_it = open.iter().filter(|o| o.lane() == newest.lane()).filter(is_new).count();
        let too_many = under_it > limits.per_budget;
        too_many.then(|| {
            format!(
                "{under_it} evictions in flight under the budget of {name}: \
                 --max-evictions-per-budget is {}",
                limits.per_budget
            )
        })
    }
}

/// More than it may have.
fn too_many(
    open: &[InFlight<'_>],
    answers: &BTreeMap<Lane<'_>, Vec<Moment>>,
    now: Moment,
    limits: Limits,
) -> Vec<String> {
    let Limits { evictions: limit, .. } = limits;
    let mut wrong = Vec::new();
    if open.len() > 2 * limit {
        wrong.push(format!(
            "{} evictions and deletions in flight: --max-evictions is {limit}",
            open.len()
        ));
    }
    // While no request waits for long, each counts. Else those count whose lane had an answer just
    // now.
    let none_waits = open.iter().all(|o| now < o.request.at + SILENT);
    let answered = |lane: &Lane<'_>| {
        answers.get(lane).into_iter().flatten().any(|a| *a <= now && now < *a + SILENT)
    };
    let counted: Vec<_> = open.iter().filter(|o| none_waits || answered(&o.lane())).collect();
    let evictions = counted.iter().filter(|o| !o.is_deletion).count();
    if evictions > limit {
        wrong.push(format!(
            "{evictions} evictions in flight that are answered: --max-evictions is {limit}"
        ));
    }
    if counted.len() > limit + limit.div_ceil(4) {
        wrong.push(format!(
            "{} evictions and deletions in flight that are answered: --max-evictions is {limit}",
            counted.len()
        ));
    }
    wrong
}

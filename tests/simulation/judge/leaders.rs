//! Who led when, by what the API server stored: who held the Lease, and when it was renewed.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use sundown::{
    domain::Moment,
    sim::kube::{Entry, Fact, Request},
};

use super::{Evidence, Terms, is_us};

/// The Lease of the drains.
const LEASE: &str = "sundown";
/// `--lease-renew-deadline`, where it is not set.
const RENEW_DEADLINE: Duration = Duration::from_secs(10);
/// `--lease-duration`, where it is not set.
const LEASE_DURATION: Duration = Duration::from_secs(15);
/// A new leader reads the Nodes before it acts on them.
const TAKEOVER: Duration = Duration::from_secs(5);
/// The write that takes the Lease is answered within this time, unless its answer is lost.
const ANSWERED: Duration = Duration::from_secs(1);
/// A leader that gives the Lease up waits for its last writes for this long at most.
const LAST_WRITES: Duration = Duration::from_secs(12);

/// Who holds the Lease from `at` to the next change.
#[derive(Debug)]
pub struct Holder<'a> {
    pub at: Moment,
    /// The process; `None`: nobody, or nobody of ours.
    pub process: Option<&'a str>,
    /// A process of ours made this change; `false`: a person or another tool.
    by_us: bool,
}

/// Why nobody led for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// The process that led was ended, was stopped, or gave the Lease up; or somebody took it.
    Gone,
    /// The process that led could not renew the Lease, and lives.
    NotRenewed,
    /// The process that led gives the Lease up as soon as its last write is answered. It sends only
    /// heartbeats.
    HandsOver,
}

/// A time in which nobody led, or in which a new leader had only begun.
#[derive(Debug, Clone, Copy)]
pub struct Gap {
    pub from: Moment,
    pub to: Moment,
    pub why: Why,
    /// A process had led before.
    pub is_takeover: bool,
}

#[derive(Debug)]
pub struct Leaders<'a> {
    terms: &'a Terms,
    holders: Vec<Holder<'a>>,
    /// When which process wrote the Lease.
    renewals: BTreeMap<&'a str, Vec<Moment>>,
    /// Who led from when to when.
    led: Vec<Term<'a>>,
    pub gaps: Vec<Gap>,
}

/// How far a write of a process has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// The request came in. Its sender must be within its renew deadline.
    Sent,
    /// The request, which came in at this time, had its effect. The lease duration of its sender
    /// must not be over.
    Done { sent: Moment },
}

/// For how long after a renewal a process may send a write.
fn renew_deadline(terms: &Terms, process: &str) -> Duration {
    terms.time(process, "--lease-renew-deadline").unwrap_or(RENEW_DEADLINE)
}

/// For how long after a renewal nobody else may lead.
pub fn lease_duration(terms: &Terms, process: &str) -> Duration {
    terms.time(process, "--lease-duration").unwrap_or(LEASE_DURATION)
}

impl<'a> Leaders<'a> {
    pub fn of(evidence: &'a Evidence) -> Self {
        let holders = holders(evidence);
        let led = led(evidence, &holders);
        let mut gaps = gaps(evidence, &led);
        gaps.extend(hand_overs(evidence, &holders));
        gaps.extend(own_drains(evidence, &holders));
        let mut renewals: BTreeMap<&str, Vec<Moment>> = BTreeMap::new();
        for r in evidence
            .requests
            .iter()
            .filter(|r| r.resource == "leases" && r.is_write() && (200..300).contains(&r.status))
        {
            renewals.entry(&r.client).or_default().push(r.at);
        }
        Self { terms: &evidence.terms, holders, renewals, led, gaps }
    }

    /// Who holds the Lease at that moment.
    pub fn at(&self, at: Moment) -> Option<&Holder<'a>> {
        self.holders.iter().rev().find(|h| h.at <= at)
    }

    /// Whether a process may write at that moment: it holds the Lease (or somebody had just taken
    /// it away when the request came in), and has renewed it in time.
    pub fn may_write(&self, process: &str, at: Moment, stage: Stage) -> bool {
        let deadline = renew_deadline(self.terms, process);
        let (sent, lasts) = match stage {
            Stage::Sent => (at, deadline),
            Stage::Done { sent } => (sent, lease_duration(self.terms, process)),
        };
        if !self
            .renewals
            .get(process)
            .is_some_and(|all| all.iter().any(|r| *r <= at && at <= *r + lasts))
        {
            return false;
        }
        // Of several things at one moment the order is not known.
        let (before, now): (Vec<_>, Vec<_>) =
            self.holders.iter().filter(|h| h.at <= at).partition(|h| h.at < at);
        let may = |holders: &[&Holder<'_>]| {
            for holder in holders.iter().rev() {
                match holder.process {
                    Some(holds) => return holds == process,
                    // A person or another tool took it. Whoever held it before learns that at its
                    // next renewal. What it has sent by then may have its effect later.
                    None if !holder.by_us && sent <= holder.at + deadline => {}
                    None => return false,
                }
            }
            false
        };
        (0..=now.len()).any(|n| may(&[&before[..], &now[..n]].concat()))
    }

    /// When a person took the Lease from this process, which may have believed to hold it until this
    /// moment: until its next renewal. `None`: nobody did.
    pub fn taken_by_person(&self, process: &str, at: Moment) -> Option<Moment> {
        let deadline = renew_deadline(self.terms, process);
        let mut pairs = self.holders.windows(2).filter_map(|pair| {
            let [before, after] = pair else { return None };
            let is_taken = before.process == Some(process) && after.process.is_none();
            (is_taken && !after.by_us).then_some(after.at)
        });
        pairs.find(|taken| *taken <= at && at <= *taken + deadline)
    }

    /// Whether a process has held it before.
    pub fn has_held(&self, process: &str, at: Moment) -> bool {
        self.holders.iter().any(|h| h.at <= at && h.process == Some(process))
    }

    /// Since when this process has led without a break; `None`: it does not lead at that moment.
    pub fn leads_since(&self, process: &str, at: Moment) -> Option<Moment> {
        let mut terms = self.led.iter().rev();
        terms
            .find(|term| term.process == process && term.from <= at && at <= term.to)
            .map(|term| term.from)
    }

    /// Since when this process has led without a time in which it did not lead. If somebody deletes
    /// the Lease and the process makes it again at that moment, it goes on leading.
    pub fn goes_on_since(&self, process: &str, at: Moment) -> Option<Moment> {
        let before = |from: Moment| {
            let mut terms = self.led.iter();
            terms
                .find(|term| term.process == process && term.from < from && term.to >= from)
                .map(|term| term.from)
        };
        let mut since = self.leads_since(process, at)?;
        while let Some(earlier) = before(since) {
            since = earlier;
        }
        Some(since)
    }

    /// When another process first took the Lease between these moments. `None`: nobody did, or one
    /// of `processes` led: it took the Lease, or it held the Lease and renewed it after `from`.
    pub fn passed_over(
        &self,
        processes: &BTreeSet<&str>,
        from: Moment,
        to: Moment,
    ) -> Option<Moment> {
        let renewed = |process: &str| {
            self.renewals
                .get(process)
                .is_some_and(|all| all.iter().any(|at| *at > from && *at <= to))
        };
        let taken = || {
            self.holders
                .iter()
                .filter(|h| h.at > from && h.at <= to)
                .filter_map(|h| Some((h.at, h.process?)))
        };
        let held = self.at(from).and_then(|h| h.process).filter(|process| renewed(process));
        let led = held
            .into_iter()
            .chain(taken().map(|(_, process)| process))
            .any(|process| processes.contains(process));
        taken().map(|(at, _)| at).min().filter(|_| !led)
    }

    /// When another process took the Lease after the last of `processes` had led between these
    /// moments. `None`: none of them led, or no other process led after them.
    pub fn succeeded(
        &self,
        processes: &BTreeSet<&str>,
        from: Moment,
        to: Moment,
    ) -> Option<Moment> {
        let led = self
            .led
            .iter()
            .filter(|term| processes.contains(term.process) && term.to >= from && term.from <= to);
        let last = led.map(|term| term.to.min(to)).max()?;
        let taken = self.holders.iter().filter(|h| h.at >= last && h.at <= to);
        taken.filter(|h| h.process.is_some_and(|p| !processes.contains(p))).map(|h| h.at).min()
    }

    /// When a process leads for the first time from that moment on: at that moment, or later. One
    /// that could not renew the Lease does not lead, even if nobody else holds the Lease yet.
    pub fn leads_from(&self, process: &str, from: Moment) -> Option<Moment> {
        let terms = self.led.iter().filter(|term| term.process == process && term.to >= from);
        terms.map(|term| term.from.max(from)).min()
    }

    /// How often another process began to lead between these moments, or the same one anew.
    pub fn changes(&self, from: Moment, to: Moment) -> usize {
        self.holders.iter().filter(|h| h.process.is_some() && h.at > from && h.at <= to).count()
    }

    /// Whether a process began to lead between these moments, for the first time or again.
    pub fn begins_to_lead(&self, process: &str, from: Moment, to: Moment) -> bool {
        self.led.iter().any(|term| term.process == process && term.from > from && term.from <= to)
    }

    /// How often a process could not renew the Lease between these moments. It may lead again.
    pub fn not_renewed(&self, from: Moment, to: Moment) -> usize {
        self.gaps
            .iter()
            .filter(|gap| gap.why == Why::NotRenewed && gap.from > from && gap.from <= to)
            .count()
    }
}

fn holders(evidence: &Evidence) -> Vec<Holder<'_>> {
    let mut processes: BTreeMap<&str, &str> = BTreeMap::new();
    let mut all = Vec::new();
    for Entry { at, by, fact } in &evidence.entries {
        let Fact::LeaseHeld { lease, holder } = fact else { continue };
        if lease != LEASE {
            continue;
        }
        let by_us = is_us(by);
        if by_us && !holder.is_empty() {
            processes.entry(holder).or_insert(by);
        }
        all.push(Holder { at: *at, process: processes.get(holder.as_str()).copied(), by_us });
    }
    all
}

/// A process, and from when to when it led.
#[derive(Debug)]
struct Term<'a> {
    process: &'a str,
    from: Moment,
    to: Moment,
    why: Why,
}

fn led<'a>(evidence: &'a Evidence, holders: &[Holder<'a>]) -> Vec<Term<'a>> {
    let mut terms: Vec<Term<'a>> = Vec::new();
    for (i, holder) in holders.iter().enumerate() {
        let Some(process) = holder.process else { continue };
        let next = holders.get(i + 1).map_or(evidence.ended, |next| next.at);
        let ended =
            evidence.ends.iter().filter(|(name, _)| name == process).map(|(_, at)| *at).min();
        let until = ended.map_or(next, |ended| ended.min(next));
        terms.extend(renewed(evidence, process, holder.at, until));
    }
    terms
}

fn gaps(evidence: &Evidence, terms: &[Term<'_>]) -> Vec<Gap> {
    let mut gaps = Vec::new();
    let (mut free, mut why, mut last) = (evidence.begun, Why::Gone, "");
    // A process that goes on without the Lease may be ended meanwhile.
    let ended = |process: &str, from: Moment, to: Moment| {
        let ended =
            evidence.ends.iter().find(|(name, at)| name == process && *at >= from && *at <= to);
        ended.map(|(_, at)| Gap { from: *at, to, why: Why::Gone, is_takeover: true })
    };
    // It ends its heartbeats when it sees that a person, another tool, or another process has taken
    // the Lease meanwhile. That process does not know that if it got no answer.
    let stolen = |last: &str, from: Moment, to: Moment| {
        let leads = |e: &Entry| {
            let at_once = |term: &&Term<'_>| term.from >= e.at && term.from <= e.at + ANSWERED;
            terms.iter().filter(at_once).any(|term| term.process == e.by)
        };
        let is_stolen = |e: &&Entry| {
            matches!(
                &e.fact, Fact::LeaseHeld { lease, holder } if lease == LEASE && !holder.is_empty()
            ) && (!is_us(&e.by) || (e.by != last && !leads(e)))
        };
        let stolen = evidence
            .entries
            .iter()
            .filter(is_stolen)
            .map(|e| e.at)
            .find(|at| *at >= from && *at <= to);
        stolen.map(|at| Gap { from: at, to, why: Why::Gone, is_takeover: true })
    };
    for term in terms {
        if free < term.from || last != term.process {
            let is_takeover = !last.is_empty();
            let to = if is_takeover { term.from + TAKEOVER } else { term.from };
            gaps.extend(ended(last, free, to));
            gaps.extend(stolen(last, free, to).filter(|_| why == Why::NotRenewed));
            gaps.push(Gap { from: free, to, why, is_takeover });
        }
        (free, why, last) = (term.to, term.why, term.process);
    }
    if free < evidence.ended {
        gaps.extend(ended(last, free, evidence.ended));
        gaps.extend(stolen(last, free, evidence.ended).filter(|_| why == Why::NotRenewed));
        gaps.push(Gap { from: free, to: evidence.ended, why, is_takeover: true });
    }
    gaps
}

/// A process that gives the Lease up by itself begins no further write, and holds the Lease until
/// its last one is answered: it led no more from its last write on at the earliest. Where no write
/// was under way when it gave the Lease up, it waited for none. Where the API server did not take
/// the write that gives the Lease up, it led no more from its first try on.
fn hand_overs(evidence: &Evidence, holders: &[Holder<'_>]) -> Vec<Gap> {
    let gap = |pair: &[Holder<'_>]| {
        let [holder, next] = pair else { return None };
        let process = holder.process.filter(|_| next.by_us && next.process.is_none())?;
        let of_it = |r: &&Request| {
            r.client == process && r.is_write() && r.at >= holder.at && r.at <= next.at
        };
        let tries = evidence.requests.iter().filter(of_it).filter(|r| r.resource == "leases");
        let mut tries: Vec<_> = tries.map(|r| (r.at, (200..300).contains(&r.status))).collect();
        tries.sort();
        let (given_up, _) = tries.pop()?;
        let is_before =
            |r: &&Request| ["nodes", "pods"].contains(&r.resource.as_str()) && r.at < given_up;
        let writes = || evidence.requests.iter().filter(of_it).filter(is_before);
        let last = writes().map(|r| r.at).max()?;
        let is_under_way = writes().any(|r| r.answered.is_none_or(|answered| answered >= given_up));
        let waits = is_under_way.then(|| last.max(given_up - LAST_WRITES));
        let failed = tries.iter().rev().take_while(|(at, is_done)| *at >= last && !is_done);
        let from = waits.into_iter().chain(failed.map(|(at, _)| *at)).min()?;
        Some(Gap { from, to: next.at, why: Why::HandsOver, is_takeover: false })
    };
    holders.windows(2).filter_map(gap).collect()
}

/// A leader gives the Lease up when its own node drains. It begins no other write, and waits for
/// its last ones. It may end or lose the Lease before it could write that it gives it up.
fn own_drains(evidence: &Evidence, holders: &[Holder<'_>]) -> Vec<Gap> {
    let begins = |node: &str| {
        let records = evidence.entries.iter().filter_map(move |e| match &e.fact {
            Fact::Annotated { node: of, annotations, .. } if of == node => {
                let record = annotations.get("sundown.dev/record");
                Some((e.at, record.is_some_and(|text| !text.contains("\"released\":{"))))
            }
            _ => None,
        });
        let mut was_open = false;
        let begins =
            |(_, is_open): &(Moment, bool)| !std::mem::replace(&mut was_open, *is_open) && *is_open;
        records.filter(begins).map(|(at, _)| at).collect::<Vec<_>>()
    };
    let gaps = holders.iter().enumerate().flat_map(|(i, holder)| {
        let until = holders.get(i + 1).map_or(evidence.ended, |next| next.at);
        let own = holder.process.and_then(|process| evidence.own_nodes.get(process));
        let drains = own.map(|node| begins(node)).unwrap_or_default();
        let gap = move |from: Moment| Gap {
            from,
            to: until.min(from + LAST_WRITES),
            why: Why::HandsOver,
            is_takeover: false,
        };
        let from = holder.at;
        drains.into_iter().filter(move |at| *at >= from && *at < until).map(gap)
    });
    gaps.collect()
}

/// The parts of a process's time with the Lease in which it had renewed it in time: a renewal counts
/// from its answer on, and lasts from when it was sent.
fn renewed<'a>(
    evidence: &Evidence,
    process: &'a str,
    from: Moment,
    until: Moment,
) -> Vec<Term<'a>> {
    let deadline = renew_deadline(&evidence.terms, process);
    let mine = evidence
        .requests
        .iter()
        .filter(|r| r.client == process && r.resource == "leases" && r.is_write());
    let mut terms: Vec<Term<'a>> = Vec::new();
    for (sent, at) in mine
        .filter(|r| (200..300).contains(&r.status))
        .filter_map(|r| Some((r.at, r.answered?)))
        .filter(|(_, at)| *at >= from && *at <= until)
    {
        let to = at.max(sent + deadline);
        match terms.last_mut().filter(|last| at < last.to) {
            Some(last) => last.to = last.to.max(to),
            None => terms.push(Term { process, from: at, to, why: Why::NotRenewed }),
        }
    }
    for term in &mut terms {
        if term.to >= until {
            (term.to, term.why) = (until, Why::Gone);
        }
    }
    terms
}

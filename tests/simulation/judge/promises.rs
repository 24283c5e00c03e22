//! The promises, and how often each was judged and excused.

use std::{collections::BTreeMap, fmt};

use serde_json::{Value, json};

/// A promise that something may excuse. Those that nothing excuses (no pod without a record,
/// nothing that is not ours) have no row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Promise {
    HookKeptOpen,
    NotTooEarly,
    NotTooLate,
    AskedBeforeGivenUp,
    AskedInTime,
    MessageKept,
    AcceptedInTime,
    FreshOrProved,
    TrueTimes,
    Grace,
    PauseKept,
    Budget,
    OneWriter,
    LabelWithAccept,
    ExclusionLimit,
    PutBack,
    TrueEvents,
    EachHasItsEvent,
    OrderKept,
    WaitKept,
    GateKept,
    PaceKept,
    VolumesAwaited,
    ConditionsShown,
    ForceObeyed,
}

impl Promise {
    pub const ALL: [Self; 25] = [
        Self::HookKeptOpen,
        Self::NotTooEarly,
        Self::NotTooLate,
        Self::AskedBeforeGivenUp,
        Self::AskedInTime,
        Self::MessageKept,
        Self::AcceptedInTime,
        Self::FreshOrProved,
        Self::TrueTimes,
        Self::Grace,
        Self::PauseKept,
        Self::Budget,
        Self::OneWriter,
        Self::LabelWithAccept,
        Self::ExclusionLimit,
        Self::PutBack,
        Self::TrueEvents,
        Self::EachHasItsEvent,
        Self::OrderKept,
        Self::WaitKept,
        Self::GateKept,
        Self::PaceKept,
        Self::VolumesAwaited,
        Self::ConditionsShown,
        Self::ForceObeyed,
    ];

    /// It is judged only in worlds of the newest stream, because no other one draws what it is about.
    const fn is_of_newest_stream(self) -> bool {
        matches!(
            self,
            Self::OrderKept
                | Self::WaitKept
                | Self::GateKept
                | Self::PaceKept
                | Self::VolumesAwaited
                | Self::ConditionsShown
                | Self::ForceObeyed
        )
    }

    /// What it says, and which percentage must be judged at least of the seeds that every run
    /// plays, but for those that once failed: a little less than was measured.
    pub const fn row(self) -> (&'static str, u64) {
        match self {
            Self::HookKeptOpen => ("a hook is kept open until it is completed", 88),
            Self::NotTooEarly => ("a hook is not completed before its node is empty", 74),
            Self::NotTooLate => ("a hook is completed as soon as its node is empty", 60),
            Self::AskedBeforeGivenUp => ("each pod of a node that is given up was asked to go", 95),
            Self::AskedInTime => ("each pod is asked to go while there is time", 22),
            Self::MessageKept => ("no message is deleted before its intent is durable", 99),
            Self::AcceptedInTime => ("an interruption is accepted in time", 83),
            Self::FreshOrProved => ("the cause of a drain is fresh, or proved", 99),
            Self::TrueTimes => ("a record says truly when it was accepted and released", 99),
            Self::Grace => ("a pod gets its own grace period, or what is left", 94),
            Self::PauseKept => ("no pod is touched in a pause", 0),
            Self::Budget => ("no eviction overruns a budget", 98),
            Self::OneWriter => ("a heartbeat comes from the process that leads", 98),
            Self::LabelWithAccept => {
                ("a node leaves load balancers with its accept, where it must", 78)
            }
            Self::ExclusionLimit => ("at most half of the Ready nodes leave load balancers", 78),
            Self::PutBack => ("a node that is put back is as it was", 50),
            Self::TrueEvents => ("each Event is true", 99),
            Self::EachHasItsEvent => ("each thing that happens has its Event", 60),
            Self::OrderKept => ("pods leave in the order of their groups", 90),
            Self::WaitKept => ("a pod that asks to wait is left alone until its time", 90),
            Self::GateKept => ("gates hold evictions and completions", 90),
            Self::PaceKept => ("no more nodes are drained at once than may be", 90),
            Self::VolumesAwaited => ("a hook is not completed while volumes are attached", 80),
            Self::ConditionsShown => ("conditions show the drain of their node", 40),
            Self::ForceObeyed => ("a drain that a person forces asks all its pods", 10),
        }
    }
}

/// How often a promise was judged, and how often it was excused instead.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Count {
    pub judged: u64,
    pub excused: u64,
}

/// Of each promise.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally(BTreeMap<Promise, Count>);

impl Tally {
    pub fn count(&mut self, promise: Promise, is_excused: bool) {
        let count = self.0.entry(promise).or_default();
        if is_excused { count.excused += 1 } else { count.judged += 1 }
    }

    pub fn add(&mut self, other: &Self) {
        for (promise, Count { judged, excused }) in &other.0 {
            let count = self.0.entry(*promise).or_default();
            (count.judged, count.excused) = (count.judged + judged, count.excused + excused);
        }
    }

    pub fn of(&self, promise: Promise) -> Count {
        self.0.get(&promise).copied().unwrap_or_default()
    }

    /// The promises of which a smaller share was judged than must be.
    pub fn below_the_floor(&self) -> Vec<String> {
        self.below(|promise| !promise.is_of_newest_stream())
    }

    /// The same of the promises that only worlds of the newest stream are judged by.
    pub fn below_the_floor_of_newest_stream(&self) -> Vec<String> {
        self.below(Promise::is_of_newest_stream)
    }

    fn below(&self, is_meant: fn(Promise) -> bool) -> Vec<String> {
        let share = |promise: &Promise| {
            let Count { judged, excused } = self.of(*promise);
            let (name, floor) = promise.row();
            let is_below = (judged == 0 && floor > 0) || judged * 100 < floor * (judged + excused);
            is_below.then(|| {
                format!(
                    "`{name}` was judged {judged} times and excused {excused} times: at least \
                     {floor} % must be judged"
                )
            })
        };
        Promise::ALL.iter().filter(|promise| is_meant(**promise)).filter_map(share).collect()
    }

    pub fn json(&self) -> Value {
        let row = |p: &Promise| {
            json!({
                "promise": p.row().0, "judged": self.of(*p).judged, "excused": self.of(*p).excused
            })
        };
        Promise::ALL.iter().map(row).collect()
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = Promise::ALL.iter().map(|p| p.row().0.len()).max().unwrap_or(0);
        writeln!(f, "| {:width$} | judged | excused | share | floor |", "promise")?;
        writeln!(f, "| {:-<width$} | -----: | ------: | ----: | ----: |", "")?;
        for promise in Promise::ALL {
            let (Count { judged, excused }, (name, floor)) = (self.of(promise), promise.row());
            let share = judged * 100 / (judged + excused).max(1);
            writeln!(
                f,
                "| {name:width$} | {judged:>6} | {excused:>7} | {share:>3} % | {floor:>3} % |"
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_promise_that_is_excused_too_often_or_never_judged_is_below_its_floor() {
        let mut tally = Tally::default();
        Promise::ALL.iter().for_each(|promise| tally.count(*promise, false));
        assert_eq!(tally.below_the_floor(), Vec::<String>::new());
        for _ in 0..10_000 {
            tally.count(Promise::NotTooEarly, true);
        }
        let below = tally.below_the_floor();
        assert!(
            matches!(
                &below[..], [one] if one.contains("was judged 1 times and excused 10000 times")
            ),
            "{below:?}"
        );
        assert_eq!(
            Tally::default().below_the_floor().len()
                + Tally::default().below_the_floor_of_newest_stream().len(),
            Promise::ALL.iter().filter(|p| p.row().1 > 0).count()
        );
    }
}

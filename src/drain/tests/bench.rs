//! A dispatcher on the bench, with what it let go.

use super::*;

/// A dispatcher with what it let go, in order.
pub(super) struct Bench {
    pub(super) d: Dispatcher,
    pub(super) gone: Vec<String>,
}

impl Bench {
    /// One whose lanes have all been answered often.
    pub(super) fn new() -> Self {
        Self::with(DispatchSettings { first: 32, ..DispatchSettings::default() })
    }

    pub(super) fn with(settings: DispatchSettings) -> Self {
        Self { d: Dispatcher::new(settings), gone: Vec::new() }
    }

    /// What this input lets go.
    pub(super) fn step(&mut self, now: Moment, input: DispatchInput) -> Vec<String> {
        let gone: Vec<_> = self
            .d
            .step(now, input)
            .into_iter()
            .map(|DispatchEffect::Go { uid, .. }| uid.to_string())
            .collect();
        self.gone.extend(gone.iter().cloned());
        gone
    }

    pub(super) fn want(&mut self, now: Moment, node: &str, pod: Pod) -> Vec<String> {
        self.step(
            now,
            DispatchInput::Want { node: node.into(), pod: Arc::new(pod), by: By::Eviction },
        )
    }

    pub(super) fn delete(&mut self, now: Moment, node: &str, pod: Pod) -> Vec<String> {
        self.step(
            now,
            DispatchInput::Want { node: node.into(), pod: Arc::new(pod), by: By::Delete },
        )
    }

    pub(super) fn answer(&mut self, now: Moment, name: &str, class: Class) -> Vec<String> {
        self.step(now, DispatchInput::Answer { uid: name.into(), class })
    }

    pub(super) fn turn(&mut self, node: &str, relaxed: bool, deadline: u64, left: usize) {
        self.step(
            at(0),
            DispatchInput::Turn {
                node: node.into(),
                turn: Turn { relaxed, deadline: at(deadline), left },
            },
        );
    }

    pub(super) fn budget(&mut self, now: Moment, allowed: i64) -> Vec<String> {
        self.step(now, DispatchInput::Budget(budget("pdb", allowed)))
    }
}

pub(super) fn other(name: &str) -> Pod {
    Pod { labels: [("app".to_owned(), "other".to_owned())].into(), ..pod(name) }
}

pub(super) fn names(prefix: &str, n: usize) -> Vec<String> {
    (0..n).map(|i| format!("{prefix}{i:03}")).collect()
}

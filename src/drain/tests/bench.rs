//! A dispatcher under test, and the requests that it sent.

use super::*;

/// A dispatcher, and the pods for which it sent a request, in order.
pub(super) struct Bench {
    pub(super) d: Dispatcher,
    pub(super) sent: Vec<String>,
}

impl Bench {
    /// A dispatcher whose request queues begin with a large window, as after many answers.
    pub(super) fn new() -> Self {
        Self::with(DispatchSettings { initial_window: 32, ..DispatchSettings::default() })
    }

    pub(super) fn with(settings: DispatchSettings) -> Self {
        Self { d: Dispatcher::new(settings), sent: Vec::new() }
    }

    /// Returns the pods for which this input makes the dispatcher send a request.
    pub(super) fn step(&mut self, now: Moment, input: DispatchInput) -> Vec<String> {
        let sent: Vec<_> = self
            .d
            .step(now, input)
            .into_iter()
            .map(|DispatchEffect::Send { uid, .. }| uid.to_string())
            .collect();
        self.sent.extend(sent.iter().cloned());
        sent
    }

    pub(super) fn request(&mut self, now: Moment, node: &str, pod: Pod) -> Vec<String> {
        self.step(
            now,
            DispatchInput::Request {
                node: node.into(),
                pod: Arc::new(pod),
                method: Method::Eviction,
            },
        )
    }

    pub(super) fn delete(&mut self, now: Moment, node: &str, pod: Pod) -> Vec<String> {
        self.step(
            now,
            DispatchInput::Request {
                node: node.into(),
                pod: Arc::new(pod),
                method: Method::Delete,
            },
        )
    }

    pub(super) fn answer(&mut self, now: Moment, name: &str, class: Class) -> Vec<String> {
        self.step(now, DispatchInput::Answer { uid: name.into(), class })
    }

    pub(super) fn prioritize(&mut self, node: &str, relaxed: bool, deadline: u64, left: usize) {
        self.step(
            at(0),
            DispatchInput::Priority {
                node: node.into(),
                priority: NodePriority { relaxed, deadline: at(deadline), left },
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

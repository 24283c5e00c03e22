//! With `--evict-after`, no pod is asked to go before the delay is over.

use std::time::Duration;

use sundown::sim::kube::{Entry, Fact};

use super::{
    Judge, SLACK,
    excuses::{HEARTBEATS, Scope},
    is_us,
};

/// The shortest drain whose half is longer than the longest delay that is judged here, whatever the
/// margins are.
const LONG: u64 = 600;
/// A delay is judged up to here: a drain waits for half of its time at most.
const LONGEST: Duration = Duration::from_secs(240);

impl Judge<'_> {
    /// Drains that only terminate hooks ask for, and that have ten minutes. What presses more lets
    /// no eviction wait.
    pub(super) fn waits(&mut self) {
        let terms = &self.evidence.terms;
        let given = terms.each("--evict-after");
        let mut delays = given.iter().filter_map(|text| text.strip_prefix("terminate-hook="));
        let delay = delays.find_map(|delay| delay.parse::<jiff::SignedDuration>().ok());
        let Some(delay) = delay.and_then(|delay| Duration::try_from(delay).ok()) else { return };
        if terms.drain_timeout < LONG || !terms.each("--force-after").is_empty() {
            return;
        }
        for Entry { at, fact, by } in self.evidence.entries.iter().filter(|e| is_us(&e.by)) {
            let (Fact::Evicted { pod, .. } | Fact::Deleted { pod, .. }) = fact else { continue };
            let Some(instance) = self.instance_of(&pod.node) else { continue };
            let recorded = self.story.recorded(instance, *at);
            let waits = recorded.iter().all(|one| {
                one.kind == "terminate-hook" && !one.is_made_up && one.settings.is_empty()
            });
            // The Node may set a shorter time.
            let least = Duration::from_secs(LONG);
            if recorded.iter().any(|one| self.story.drain_timeout(instance, one, *at) < least) {
                continue;
            }
            let Some(accepted) = recorded.iter().map(|one| one.accepted).min() else { continue };
            // Without heartbeats the hook ends soon, so nothing waits.
            let scope = Scope::of_leader(&[HEARTBEATS]).about(instance, &pod.node);
            if self.is_forced_by_hand(&pod.node, *at) {
                continue;
            }
            let has_time = || !self.is_excused(scope, accepted, *at);
            if waits && *at + SLACK < accepted + delay.min(LONGEST) && has_time() {
                let what = format!("before --evict-after ({delay:?}) was over");
                self.broken(*at, format!("{by} asked {} to go {what}", pod.name));
            }
        }
    }
}

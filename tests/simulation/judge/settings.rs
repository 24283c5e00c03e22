//! Settings of a drain that its Node or its hooks give.

use std::time::Duration;

use sundown::domain::Moment;

use super::{Judge, sent::duration};

/// After an annotation changes, the value before it may still apply for this long.
const KNOWN: Duration = Duration::from_secs(3);

impl Judge<'_> {
    /// The values of a setting that may apply to the drain of an instance: the annotation of its
    /// Node, otherwise the metadata of its hooks, otherwise the flag. There are several because a
    /// change of an annotation is not known at once, and because a longest grace period of a hook
    /// does not count before AWS has confirmed its action. The flag does not count while the record
    /// names a hook that gives the setting, and has named it for some seconds. `allowed` returns
    /// `None` for a text that gives no value, or one that the flags do not allow.
    fn applying<T: Clone>(
        &self,
        instance: &str,
        key: &str,
        at: Moment,
        flag: T,
        allowed: impl Fn(&str) -> Option<T>,
    ) -> Vec<T> {
        let recorded = self.story.told_last(instance, at);
        let of_hooks = recorded.iter().filter_map(|one| allowed(one.settings.get(key)?));
        let before = self.story.told_last(instance, at - KNOWN);
        let is_given = before
            .iter()
            .filter(|one| one.settings.get(key).is_some_and(|text| allowed(text).is_some()))
            .any(|one| self.story.is_still_told(instance, one, at));
        let flag = (!is_given || key == "max-grace-period").then_some(flag);
        let otherwise: Vec<T> = of_hooks.chain(flag).collect();
        let Some(node) = self.evidence.nodes.get(instance) else { return otherwise };
        let mut all = Vec::new();
        for (page, _) in self.story.pages_between(node, at - KNOWN, at) {
            match page.settings.get(key).and_then(|text| allowed(text)) {
                Some(own) => all.push(own),
                None => all.extend(otherwise.iter().cloned()),
            }
        }
        if all.is_empty() { otherwise } else { all }
    }

    /// How long a completion may wait after the end of a drain.
    pub(super) fn complete_delays(&self, instance: &str, at: Moment) -> Vec<Duration> {
        const LONGEST: Duration = Duration::from_hours(1);
        let flag = Duration::from_secs(self.evidence.terms.complete_delay);
        let allowed = |text: &str| duration(text).filter(|delay| *delay <= LONGEST);
        self.applying(instance, "complete-delay", at, flag, allowed)
    }

    /// The longest that a completion may wait after the end of a drain.
    pub(super) fn longest_delay(&self, instance: &str, at: Moment) -> Duration {
        self.complete_delays(instance, at).into_iter().max().unwrap_or_default()
    }

    /// The longest grace period in seconds that a pod of an instance's node may get.
    pub(super) fn longest_graces(&self, instance: &str, at: Moment) -> Vec<u64> {
        const RANGE: [Duration; 2] = [Duration::from_secs(30), Duration::from_hours(48)];
        let is_allowed = |longest: &Duration| RANGE[0] <= *longest && *longest <= RANGE[1];
        let allowed = |text: &str| duration(text).filter(is_allowed).map(|cap| cap.as_secs());
        self.applying(instance, "max-grace-period", at, u64::MAX, allowed)
    }

    /// The shares of the time of a drain after which a pod may be deleted. Infinite: never.
    pub(super) fn force_shares(&self, by: &str, instance: &str, at: Moment) -> Vec<f64> {
        let share = |text: &str| match text {
            "never" => Some(f64::INFINITY),
            "deadline" => Some(1.0),
            share => share.parse::<f64>().ok().filter(|share| (0.0..=1.0).contains(share)),
        };
        let flag = self.evidence.terms.flag(by, "--force-after");
        let flag = flag.map_or(0.5, |text| share(text).unwrap());
        let allowed = |text: &str| share(text).filter(|share| *share >= flag);
        self.applying(instance, "force-after", at, flag, allowed)
    }
}

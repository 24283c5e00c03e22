//! Settings of a drain that its Node or its hooks give.

use std::{collections::BTreeMap, rc::Rc, time::Duration};

use sundown::{
    domain::Moment,
    sim::aws::{Call, Outcome},
};

use super::{
    Judge, SLACK,
    excuses::HEARTBEATS,
    sent::duration,
    story::{Deadline, RecordedInterruption},
};

/// After an annotation changes, the value before it may still apply for this long.
const KNOWN: Duration = Duration::from_secs(3);
/// The longest time that a setting may give.
const LONGEST: Duration = Duration::from_hours(48);
/// The shortest drain timeout and the shortest longest grace period.
const SHORTEST: Duration = Duration::from_secs(30);
/// The longest delay of a completion.
const LONGEST_DELAY: Duration = Duration::from_hours(1);
/// The annotations of a Node that are settings, and the order to force, without their prefix.
const KEYS: [&str; 5] =
    ["drain-timeout", "force-after", "max-grace-period", "complete-delay", "force"];

/// The share of the time of a drain after which a pod may be deleted. Infinite: never. `None`: the
/// text gives none.
pub(super) fn share(text: &str) -> Option<f64> {
    match text {
        "never" => Some(f64::INFINITY),
        "deadline" => Some(1.0),
        share => share.parse::<f64>().ok().filter(|share| (0.0..=1.0).contains(share)),
    }
}

impl Judge<'_> {
    /// The values of a setting that may apply to the drain of an instance: the annotation of its
    /// Node, otherwise the metadata of its hooks, otherwise the flag. There are several because a
    /// change of an annotation is not known at once, and neither is that the record names another
    /// hook. What the record has named for some seconds counts, if `counts` says so: of several
    /// hooks, the one that gives the pods more time, and the flag only if there is none. `allowed`
    /// returns `None` for a text that gives no value, or one that the flags do not allow.
    fn applying<T: Clone + PartialOrd>(
        &self,
        (instance, key, at): (&str, &str, Moment),
        flag: T,
        allowed: impl Fn(&str) -> Option<T>,
        counts: impl Fn(&RecordedInterruption) -> bool,
    ) -> Vec<T> {
        let of_hook = |one: &Rc<RecordedInterruption>| allowed(one.settings.get(key)?);
        let recorded = self.story.told_last(instance, at);
        let before = self.story.told_last(instance, at - KNOWN);
        let known = before
            .iter()
            .filter(|one| counts(one) && self.story.is_still_told(instance, one, at))
            .filter_map(of_hook)
            .reduce(|one, other| if other > one { other } else { one });
        let of_hooks = recorded
            .iter()
            .filter_map(of_hook)
            .filter(|value| known.as_ref().is_none_or(|known| value >= known));
        let flag = known.is_none().then_some(flag);
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
        let flag = Duration::from_secs(self.evidence.terms.complete_delay);
        let allowed = |text: &str| duration(text).filter(|delay| *delay <= LONGEST_DELAY);
        self.applying((instance, "complete-delay", at), flag, allowed, |_| true)
    }

    /// The longest that a completion may wait after the end of a drain.
    pub(super) fn longest_delay(&self, instance: &str, at: Moment) -> Duration {
        self.complete_delays(instance, at).into_iter().max().unwrap_or_default()
    }

    /// The longest grace period in seconds that a pod of an instance's node may get from this
    /// process. That of a hook does not count before AWS has confirmed its action.
    pub(super) fn longest_graces(&self, by: &str, instance: &str, at: Moment) -> Vec<u64> {
        let is_allowed = |longest: &Duration| (SHORTEST..=LONGEST).contains(longest);
        let allowed = |text: &str| duration(text).filter(is_allowed).map(|cap| cap.as_secs());
        let counts = |one: &RecordedInterruption| self.is_confirmed(by, instance, one, at);
        self.applying((instance, "max-grace-period", at), u64::MAX, allowed, counts)
    }

    /// The shares of the time of a drain after which a pod may be deleted. Infinite: never.
    pub(super) fn force_shares(&self, by: &str, instance: &str, at: Moment) -> Vec<f64> {
        let flag = self.earliest_force(by);
        let allowed = |text: &str| share(text).filter(|share| *share >= flag);
        self.applying((instance, "force-after", at), flag, allowed, |_| true)
    }

    /// `--force-after` of this process.
    fn earliest_force(&self, by: &str) -> f64 {
        self.evidence.terms.flag(by, "--force-after").map_or(0.5, |text| share(text).unwrap())
    }

    /// Some seconds before, AWS had accepted a heartbeat of this process for the action of this
    /// interruption. If the record names several actions of its hook, no call shows which one that
    /// was.
    fn is_confirmed(
        &self,
        by: &str,
        instance: &str,
        one: &RecordedInterruption,
        at: Moment,
    ) -> bool {
        let recorded = self.story.told_last(instance, at);
        let is_only = recorded.iter().filter(|other| other.hook == one.hook).count() == 1;
        let confirmed = self.confirmed_at(by, instance, one, at);
        is_only
            && !self.story.names_no_action(one)
            && confirmed.is_some_and(|confirmed| confirmed + KNOWN <= at)
    }

    /// When AWS accepted the first heartbeat of this process for the hook of this interruption, since
    /// the process leads.
    fn confirmed_at(
        &self,
        by: &str,
        instance: &str,
        one: &RecordedInterruption,
        at: Moment,
    ) -> Option<Moment> {
        let (group, hook) = one.hook.as_ref()?;
        let since = self.leaders.leads_since(by, at)?.max(one.time.min(one.accepted));
        let object = format!("{group}/{hook}/{instance}");
        let is_accepted = |call: &&Call| {
            HEARTBEATS.contains(&call.api.as_str())
                && call.object == object
                && call.by == by
                && call.outcome == Outcome::Ok
                && (since..=at).contains(&call.at)
        };
        self.evidence.calls.iter().filter(is_accepted).map(|call| call.at).min()
    }

    /// The further deadlines of a drain whose hooks give a shorter drain timeout than the flag. It
    /// counts only once AWS has accepted a heartbeat of this process: until then, that of the flag
    /// counts. A timeout that has passed by then counts from that heartbeat.
    pub(super) fn deadlines_by_confirmation(
        &self,
        by: &str,
        instance: &str,
        at: Moment,
    ) -> Vec<Deadline> {
        let margin = self.evidence.terms.margin("");
        let from =
            |start: Moment, timeout: Duration| Deadline::of(start, start + timeout, margin, start);
        let mut all = Vec::new();
        for one in self.story.told_last(instance, at) {
            let without = RecordedInterruption { settings: BTreeMap::new(), ..(*one).clone() };
            let longer = self.story.drain_timeout(instance, &without, at);
            let own = self.story.drain_timeout(instance, &one, at);
            if one.hook.is_none() || own >= longer {
                continue;
            }
            let confirmed = self.confirmed_at(by, instance, &one, at);
            if confirmed.is_none_or(|confirmed| at <= confirmed + SLACK) {
                all.push(from(one.accepted, longer));
            }
            let has_passed = |confirmed: &Moment| from(one.accepted, own).at <= *confirmed + SLACK;
            all.extend(confirmed.filter(has_passed).map(|confirmed| from(confirmed, own)));
        }
        all
    }

    /// The Node or one of its hooks gave a setting that a process may ignore. The call that writes
    /// the Event may be tried again for a while.
    pub(super) fn was_given_bad_settings(&self, node: &str, from: Moment, to: Moment) -> bool {
        self.story.pages_between(node, from, to).any(|(page, _)| {
            let mut of_node = KEYS.iter().filter_map(|key| Some((*key, page.settings.get(*key)?)));
            let mut of_hooks = page.recorded.iter().flat_map(|one| &one.settings);
            // A drain timeout of the Node that has passed already is refused.
            let timeout = page.settings.get("drain-timeout").and_then(|text| duration(text));
            let has_passed =
                |timeout: Duration| page.recorded.iter().any(|one| one.accepted + timeout <= to);
            of_node.any(|(key, text)| self.may_ignore(key, text))
                || of_hooks.any(|(key, text)| self.may_ignore(key, text))
                || timeout.is_some_and(has_passed)
        })
    }

    /// There is no such setting, the text is no value of it, or the flags of a process do not allow
    /// the value.
    fn may_ignore(&self, key: &str, text: &str) -> bool {
        let terms = &self.evidence.terms;
        let is_within = |least: Duration, most: Duration| {
            duration(text).is_some_and(|given| (least..=most).contains(&given))
        };
        let most = |process: &str| {
            let limits = ["--max-drain-timeout", "--drain-timeout"];
            limits.into_iter().find_map(|flag| terms.time(process, flag)).unwrap_or(LONGEST)
        };
        let mut processes = terms.flags.iter().map(|(process, _)| process.as_str());
        let is_used = match key {
            "drain-timeout" => is_within(SHORTEST, processes.map(most).fold(LONGEST, Ord::min)),
            "force-after" => share(text)
                .is_some_and(|given| processes.all(|by| given >= self.earliest_force(by))),
            "max-grace-period" => is_within(SHORTEST, LONGEST),
            "force" => ["true", "false"].contains(&text),
            "complete-delay" => is_within(Duration::ZERO, LONGEST_DELAY),
            _ => false,
        };
        !is_used
    }
}

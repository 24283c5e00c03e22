//! The administrator's rules about pods (`--rules-file`).

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use wildmatch::WildMatch;

use super::{DrainSettings, ForceAfter, Labels, Limits, MAX_POD_GROUPS, Pod, Selector};

/// The most rules in a file: each is compared with each pod of a draining node.
pub const MAX_POD_RULES: usize = 64;
/// The order of pods that no rule gives one.
const NO_ORDER: i32 = 0;

/// The rules of a file. The first one that matches a pod counts.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PodRules {
    rules: Vec<PodRule>,
    /// All values of `order`, with 0 for pods without one, lowest first. Empty: no rule gives one.
    orders: Vec<i32>,
}

/// Which rules count on a node: those whose `nodeLabels` match its labels. One bit for each rule,
/// the lowest for the first one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct RulesOnNode(u64);

/// Where a rule is in its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RulePlace {
    /// Its number, from 1 on.
    pub number: usize,
    /// The line on which it begins, from 1 on.
    pub line: u64,
}

/// A rule about some pods.
#[derive(Debug, Clone, PartialEq)]
pub struct PodRule {
    /// Where the rule is.
    pub place: RulePlace,
    /// The pods to which it applies.
    pub matches: PodMatch,
    /// What Sundown does with them, unless they ask for something themselves.
    pub behavior: PodBehavior,
    /// The longest grace period that they get. `None`: as without the rule.
    pub max_grace_period: Option<Duration>,
    /// When they are deleted if their eviction is refused. `None`: as without the rule.
    pub force_after: Option<ForceAfter>,
}

/// Which pods a rule matches: all that fulfill each of these.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PodMatch {
    /// Globs. One of them must match the namespace. Empty: any namespace.
    pub namespaces: Vec<WildMatch>,
    /// Selects the labels.
    pub labels: Selector,
    /// Kinds, such as `Job`. One of them must be that of the owner. Empty: any owner, or none.
    pub owner_kinds: Vec<String>,
    /// Selects the labels of the Node that is drained.
    pub node_labels: Selector,
    /// Selects the labels of the pod's namespace.
    pub namespace_labels: Selector,
}

/// The labels of each namespace, only those whose keys rules read. Of a namespace that is missing
/// here, the labels are not known.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NamespaceLabels(BTreeMap<String, Labels>);

impl FromIterator<(String, Labels)> for NamespaceLabels {
    fn from_iter<T: IntoIterator<Item = (String, Labels)>>(all: T) -> Self {
        Self(all.into_iter().collect())
    }
}

/// Which rule counts for a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuleMatch {
    /// No rule matches it.
    None,
    /// The rule at this position.
    Rule(usize),
    /// That depends on the labels of its namespace, which are not known.
    Unknown,
}

/// What Sundown does with the pods of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PodBehavior {
    /// It evicts them together with other pods of this order. `None`: 0, as without a rule.
    Evict(Option<i32>),
    /// It leaves them alone.
    Skip,
    /// It waits until they have finished. Their order is 0.
    WaitCompleted,
}

impl PodRules {
    /// `None` if there are more than [`MAX_POD_GROUPS`] different orders, with that of pods without
    /// a rule, or more than [`MAX_POD_RULES`] rules.
    #[must_use]
    pub fn new(rules: Vec<PodRule>) -> Option<Self> {
        let order = |rule: &PodRule| match rule.behavior {
            PodBehavior::Evict(order) => order,
            PodBehavior::Skip | PodBehavior::WaitCompleted => None,
        };
        let mut orders: BTreeSet<i32> = rules.iter().filter_map(order).collect();
        if !orders.is_empty() {
            orders.insert(NO_ORDER);
        }
        let fits = orders.len() <= MAX_POD_GROUPS && rules.len() <= MAX_POD_RULES;
        fits.then(|| Self { rules, orders: orders.into_iter().collect() })
    }

    /// The keys of the labels of Nodes that the rules read.
    pub fn node_label_keys(&self) -> impl Iterator<Item = &str> {
        self.rules.iter().flat_map(|rule| rule.matches.node_labels.keys())
    }

    /// Which rules count on a node with these labels.
    #[must_use]
    pub fn on_node(&self, labels: &BTreeMap<String, String>) -> RulesOnNode {
        let bits = self.rules.iter().zip(0..u64::BITS).filter_map(|(rule, bit)| {
            rule.matches.node_labels.matches(labels).then_some(1_u64 << bit)
        });
        RulesOnNode(bits.fold(0, |all, bit| all | bit))
    }

    /// Only these rules, as if the others did not exist.
    #[must_use]
    pub fn only(&self, on_node: RulesOnNode) -> Self {
        let rules = self.rules.iter().zip(0..u64::BITS);
        let rules = rules.filter(|(_, bit)| on_node.0 & (1_u64 << bit) != 0);
        // Some of the rules have no more orders than all of them, so they are within the limits.
        Self::new(rules.map(|(rule, _)| rule.clone()).collect()).unwrap_or_default()
    }

    /// The keys of the labels of namespaces that the rules read.
    pub fn namespace_label_keys(&self) -> impl Iterator<Item = &str> {
        self.rules.iter().flat_map(|rule| rule.matches.namespace_labels.keys())
    }

    /// The first rule that matches this pod, on a node on which all rules count ([`Self::only`]).
    #[must_use]
    pub fn find(&self, pod: &Pod, namespaces: &NamespaceLabels) -> RuleMatch {
        for (position, rule) in self.rules.iter().enumerate() {
            match rule.matches.matches(pod, namespaces) {
                Some(true) => return RuleMatch::Rule(position),
                Some(false) => {}
                None => return RuleMatch::Unknown,
            }
        }
        RuleMatch::None
    }

    /// The rule at this position.
    #[must_use]
    pub fn get(&self, position: usize) -> Option<&PodRule> {
        self.rules.get(position)
    }

    /// A rule lets pods be deleted whose eviction is refused, whatever `--force-after` is.
    #[must_use]
    pub fn may_force(&self) -> bool {
        let of_rules = self.rules.iter().filter_map(|rule| rule.force_after);
        of_rules.into_iter().any(|force| force != ForceAfter::Never)
    }

    /// How many rules there are.
    #[must_use]
    pub const fn count(&self) -> usize {
        self.rules.len()
    }

    /// The number of groups by order, 2 to [`MAX_POD_GROUPS`]. `None`: no rule gives an order, and
    /// `--pod-order` counts.
    #[must_use]
    pub fn groups(&self) -> Option<usize> {
        Some(self.orders.len()).filter(|groups| *groups > 1)
    }

    /// The group of the pods of this rule (`None`: of no rule), from 0 (evicted first).
    #[must_use]
    pub fn group(&self, rule: Option<&PodRule>) -> usize {
        let order = match rule.map(|rule| rule.behavior) {
            Some(PodBehavior::Evict(Some(order))) => order,
            _ => NO_ORDER,
        };
        self.orders.partition_point(|first| *first < order)
    }
}

impl PodRule {
    /// The limits of a drain for the pods of this rule.
    #[must_use]
    pub fn apply(&self, limits: Limits) -> Limits {
        let of_drain = limits.settings;
        let graces = [of_drain.max_grace_period, self.max_grace_period];
        let settings = DrainSettings {
            max_grace_period: graces.into_iter().flatten().min(),
            force_after: self.force_after.or(of_drain.force_after),
            ..of_drain
        };
        Limits { settings, ..limits }
    }
}

impl PodMatch {
    /// `None`: that depends on the labels of its namespace, which are not known.
    fn matches(&self, pod: &Pod, namespaces: &NamespaceLabels) -> Option<bool> {
        let in_namespace = || self.namespaces.iter().any(|glob| glob.matches(&pod.key.namespace));
        let has_owner = || {
            let owner = pod.owner.as_ref();
            owner.is_some_and(|owner| self.owner_kinds.contains(&owner.kind))
        };
        let matches = (self.namespaces.is_empty() || in_namespace())
            && (self.owner_kinds.is_empty() || has_owner())
            && self.labels.selects(&pod.labels);
        if !matches || self.namespace_labels.is_empty() {
            return Some(matches);
        }
        let of_namespace = namespaces.0.get(&*pod.key.namespace)?;
        Some(self.namespace_labels.selects(of_namespace))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        domain::{Moment, seconds},
        drain::tests::pod,
    };

    fn rule(matches: PodMatch, behavior: PodBehavior) -> PodRule {
        PodRule {
            place: RulePlace::default(),
            matches,
            behavior,
            max_grace_period: None,
            force_after: None,
        }
    }

    #[test]
    fn a_rule_matches_what_fulfills_all_its_conditions() {
        let namespaces = |globs: &[&str]| PodMatch {
            namespaces: globs.iter().map(|glob| WildMatch::new(glob)).collect(),
            ..PodMatch::default()
        };
        let labels = |text: &str| PodMatch { labels: text.parse().unwrap(), ..PodMatch::default() };
        let owners = |kinds: &[&str]| PodMatch {
            owner_kinds: kinds.iter().map(|kind| (*kind).to_owned()).collect(),
            ..PodMatch::default()
        };
        let unknown = NamespaceLabels::default();
        for (name, matches, expected) in [
            ("all", PodMatch::default(), true),
            ("namespace", namespaces(&["default"]), true),
            ("glob", namespaces(&["team-*", "def?ult"]), true),
            ("other namespace", namespaces(&["team-*"]), false),
            ("label", labels("app in (web,db)"), true),
            ("other label", labels("app=db"), false),
            ("owner", owners(&["Job", "ReplicaSet"]), true),
            ("other owner", owners(&["Job"]), false),
            (
                "one fails",
                PodMatch { namespaces: vec![WildMatch::new("*")], ..labels("!app") },
                false,
            ),
        ] {
            assert_eq!(matches.matches(&pod("a"), &unknown), Some(expected), "{name}");
        }
        let naked = Pod { owner: None, ..pod("a") };
        assert_eq!(owners(&["Job"]).matches(&naked, &unknown), Some(false));
        assert_eq!(PodMatch::default().matches(&naked, &unknown), Some(true));
    }

    #[test]
    fn a_rule_about_labels_of_namespaces_is_undecided_until_they_are_known() {
        let of = |text: &str, app: &str| {
            let (namespace_labels, labels) = (text.parse().unwrap(), app.parse().unwrap());
            let matches = PodMatch { labels, namespace_labels, ..PodMatch::default() };
            rule(matches, PodBehavior::Skip)
        };
        let rules = PodRules::new(vec![of("team=web", "app=db"), of("team=web", ""), of("", "")]);
        let rules = rules.unwrap();
        assert_eq!(rules.namespace_label_keys().collect::<Vec<_>>(), ["team", "team"]);
        let known = |namespace: &str, team: &str| {
            let labels = [("team".to_owned(), team.to_owned())].into();
            [(namespace.to_owned(), labels)].into_iter().collect::<NamespaceLabels>()
        };
        for (namespaces, expected) in [
            (NamespaceLabels::default(), RuleMatch::Unknown),
            (known("other", "web"), RuleMatch::Unknown),
            (known("default", "web"), RuleMatch::Rule(1)),
            (known("default", "db"), RuleMatch::Rule(2)),
        ] {
            assert_eq!(rules.find(&pod("a"), &namespaces), expected, "{namespaces:?}");
        }
        // What another condition rules out needs no labels.
        let never = PodRules::new(vec![of("team=web", "app=db")]).unwrap();
        assert_eq!(never.find(&pod("a"), &NamespaceLabels::default()), RuleMatch::None);
    }

    #[test]
    fn the_first_rule_that_matches_counts() {
        let other = PodMatch { owner_kinds: vec!["Job".to_owned()], ..PodMatch::default() };
        let rules = PodRules::new(vec![
            rule(other, PodBehavior::WaitCompleted),
            rule(PodMatch::default(), PodBehavior::Skip),
            rule(PodMatch::default(), PodBehavior::Evict(None)),
        ])
        .unwrap();
        let unknown = NamespaceLabels::default();
        assert_eq!(rules.find(&pod("a"), &unknown), RuleMatch::Rule(1));
        assert_eq!(PodRules::default().find(&pod("a"), &unknown), RuleMatch::None);
    }

    #[test]
    fn a_rule_counts_only_on_nodes_whose_labels_it_selects() {
        let of = |text: &str, behavior| {
            let node_labels = text.parse().unwrap();
            rule(PodMatch { node_labels, ..PodMatch::default() }, behavior)
        };
        let rules = PodRules::new(vec![
            of("pool=gpu", PodBehavior::Evict(Some(7))),
            of("!pool", PodBehavior::Skip),
            of("", PodBehavior::WaitCompleted),
        ])
        .unwrap();
        assert_eq!(rules.node_label_keys().collect::<Vec<_>>(), ["pool", "pool"]);
        for (labels, first, count, groups) in [
            (vec![("pool", "gpu")], PodBehavior::Evict(Some(7)), 2, Some(2)),
            (vec![("pool", "web")], PodBehavior::WaitCompleted, 1, None),
            (vec![], PodBehavior::Skip, 2, None),
        ] {
            let labels: BTreeMap<String, String> =
                labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
            let here = rules.only(rules.on_node(&labels));
            let RuleMatch::Rule(found) = here.find(&pod("a"), &NamespaceLabels::default()) else {
                panic!("{labels:?}")
            };
            let found = here.get(found).unwrap();
            assert_eq!((found.behavior, here.count(), here.groups()), (first, count, groups));
        }
        let most = PodRules::new(vec![of("pool", PodBehavior::Skip); MAX_POD_RULES]).unwrap();
        let pool = [("pool".to_owned(), String::new())].into();
        assert_eq!(most.only(most.on_node(&pool)), most);
        assert_eq!(most.only(most.on_node(&BTreeMap::new())), PodRules::default());
    }

    #[test]
    fn pods_without_an_order_are_in_the_group_of_order_0() {
        use PodBehavior::{Evict, Skip, WaitCompleted};
        let all = |behaviors: &[PodBehavior]| {
            let rules = behaviors.iter().map(|it| rule(PodMatch::default(), *it)).collect();
            let rules = PodRules::new(rules)?;
            let groups = rules.rules.iter().map(|rule| rules.group(Some(rule))).collect::<Vec<_>>();
            Some((rules.groups(), rules.group(None), groups))
        };
        assert_eq!(all(&[Evict(None), Skip]), Some((None, 0, vec![0, 0])));
        assert_eq!(
            all(&[Evict(Some(11)), Evict(Some(-5)), WaitCompleted, Evict(None)]),
            Some((Some(3), 1, vec![2, 0, 1, 1]))
        );
        assert_eq!(all(&[Evict(Some(0))]), Some((None, 0, vec![0])));
        let numbered = |most| (1..=most).map(|n| Evict(Some(n))).collect::<Vec<_>>();
        assert!(all(&numbered(7)).is_some() && all(&numbered(8)).is_none());
        assert!(all(&[Skip; MAX_POD_RULES]).is_some() && all(&[Skip; 65]).is_none());
    }

    #[test]
    fn a_rule_may_force_pods_if_its_own_force_after_is_not_never() {
        for (force_after, expected) in [
            (None, false),
            (Some(ForceAfter::Never), false),
            (Some(ForceAfter::Deadline), true),
            (Some(ForceAfter::Share(0.5)), true),
        ] {
            let first = rule(PodMatch::default(), PodBehavior::Skip);
            let rule = PodRule { force_after, ..rule(PodMatch::default(), PodBehavior::Skip) };
            let rules = PodRules::new(vec![first, rule]).unwrap();
            assert_eq!(rules.may_force(), expected, "{force_after:?}");
        }
    }

    #[test]
    fn the_shorter_grace_period_and_the_rules_own_force_after_count() {
        let limits = |max: Option<u64>| Limits {
            settings: DrainSettings {
                max_grace_period: max.map(seconds),
                force_after: Some(ForceAfter::Never),
                ..DrainSettings::NONE
            },
            ..Limits::without_deadline(Moment::UNIX_EPOCH, false)
        };
        for (of_drain, of_rule, expected) in [
            (None, None, None),
            (Some(60), None, Some(60)),
            (None, Some(90), Some(90)),
            (Some(60), Some(90), Some(60)),
        ] {
            let rule = PodRule {
                max_grace_period: of_rule.map(seconds),
                force_after: of_rule.map(|_| ForceAfter::Deadline),
                ..rule(PodMatch::default(), PodBehavior::Evict(None))
            };
            let settings = rule.apply(limits(of_drain)).settings;
            assert_eq!(settings.max_grace_period, expected.map(seconds));
            let force = of_rule.map_or(ForceAfter::Never, |_| ForceAfter::Deadline);
            assert_eq!(settings.force_after, Some(force));
        }
    }
}

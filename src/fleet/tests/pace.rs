//! Which drains may begin: a table of cases, and properties.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::super::pace::{Cause, Group, Limits, PacedDrain, Stage, Verdict, verdicts};
use crate::{
    domain::{GroupName, NodeName, PaceHold},
    record::tests::at,
};

/// One drain of a case: name, group, cause and stage, and when it was accepted.
#[derive(Debug, Clone)]
struct Case {
    name: NodeName,
    group: Option<GroupName>,
    is_control_plane: bool,
    cause: Cause,
    stage: Stage,
    accepted: i64,
    is_terminating: bool,
}

impl Case {
    /// Ready since `accepted`, and it can wait until 1000.
    fn ready(name: &str, accepted: i64) -> Self {
        Self {
            name: name.into(),
            group: Some("asg".into()),
            is_control_plane: false,
            cause: Cause::CanWait(at(1000)),
            stage: Stage::Ready,
            accepted,
            is_terminating: false,
        }
    }

    fn begun(name: &str) -> Self {
        Self { stage: Stage::Begun, ..Self::ready(name, 0) }
    }

    fn of(self, group: &str) -> Self {
        Self { group: Some(group.into()), ..self }
    }

    fn control_plane(self) -> Self {
        Self { is_control_plane: true, ..self }
    }

    fn pressing(self) -> Self {
        Self { cause: Cause::Presses, ..self }
    }

    fn at_stage(self, stage: Stage) -> Self {
        Self { stage, ..self }
    }

    fn paced(&self) -> PacedDrain<'_> {
        PacedDrain {
            node: &self.name,
            group: self.group.as_ref().map_or(Group::Unknown, Group::Named),
            is_control_plane: self.is_control_plane,
            cause: self.cause,
            stage: self.stage,
            accepted: at(self.accepted),
            is_terminating: self.is_terminating,
        }
    }
}

fn decide(limits: Limits, cases: &[Case], now: i64) -> BTreeMap<NodeName, Verdict> {
    let drains: Vec<PacedDrain<'_>> = cases.iter().map(Case::paced).collect();
    verdicts(limits, &drains, at(now))
}

fn text(verdicts: &BTreeMap<NodeName, Verdict>) -> String {
    let one = |(name, verdict): (&NodeName, &Verdict)| match verdict {
        Verdict::Begins => format!("{name}"),
        Verdict::Held(hold) => format!("{name}:{hold:?}"),
    };
    verdicts.iter().map(one).collect::<Vec<_>>().join(" ")
}

const NONE: Limits = Limits { per_group: None, in_all: None };
const ONE_IN_ALL: Limits = Limits { per_group: None, in_all: Some(1) };
const ONE_A_GROUP: Limits = Limits { per_group: Some(1), in_all: None };

#[test]
fn who_may_begin_follows_from_the_limits_and_from_the_drains_that_go_on() {
    use Case as C;
    let rows: Vec<(&str, Limits, Vec<Case>, &str)> = vec![
        ("no limit", NONE, vec![C::ready("a", 1), C::ready("b", 2)], "a b"),
        (
            "the first accept goes first",
            ONE_IN_ALL,
            vec![C::ready("a", 2), C::ready("b", 1)],
            "a:InAll b",
        ),
        ("then the name", ONE_IN_ALL, vec![C::ready("b", 1), C::ready("a", 1)], "a b:InAll"),
        ("one that has begun counts", ONE_IN_ALL, vec![C::begun("z"), C::ready("a", 1)], "a:InAll"),
        (
            "another group has its own number",
            ONE_A_GROUP,
            vec![C::begun("z"), C::ready("a", 1), C::ready("b", 1).of("other")],
            "a:Group b",
        ),
        (
            "both limits hold",
            Limits { per_group: Some(1), in_all: Some(2) },
            vec![
                C::begun("z"),
                C::ready("a", 1).of("b"),
                C::ready("b", 2).of("c"),
                C::ready("c", 3),
            ],
            "a b:InAll c:Group",
        ),
        (
            "what presses begins and does not count",
            ONE_IN_ALL,
            vec![C::begun("y").pressing(), C::ready("z", 0).pressing(), C::ready("a", 1)],
            "a z",
        ),
        (
            "one that has waited long enough begins, and counts",
            ONE_IN_ALL,
            vec![
                C::begun("z"),
                Case { cause: Cause::CanWait(at(100)), ..C::ready("a", 5) },
                C::ready("b", 1),
            ],
            "a b:InAll",
        ),
        (
            "one that waits for something else takes no turn",
            ONE_IN_ALL,
            vec![C::ready("a", 1).at_stage(Stage::NotReady), C::ready("b", 2)],
            "a:Undecided b",
        ),
        (
            "one that the last leader may have begun counts",
            ONE_IN_ALL,
            vec![C::ready("a", 2).at_stage(Stage::MayHaveBegun), C::ready("b", 1)],
            "a:Undecided b:Undecided",
        ),
        (
            "with those that are known to be drained, the reason is known",
            ONE_IN_ALL,
            vec![C::ready("a", 2).at_stage(Stage::MayHaveBegun), C::ready("b", 1), C::begun("z")],
            "a:Undecided b:InAll",
        ),
        (
            "a control-plane node that the last leader may have begun holds the next one",
            NONE,
            vec![
                C::ready("a", 2).control_plane().at_stage(Stage::MayHaveBegun),
                C::ready("b", 1).control_plane(),
            ],
            "a:Undecided b:Undecided",
        ),
        (
            "one whose group is unknown may be of any group if the last leader may have begun it",
            ONE_A_GROUP,
            vec![
                Case { group: None, ..C::ready("a", 2).at_stage(Stage::MayHaveBegun) },
                C::ready("b", 1),
            ],
            "a:Undecided b:Undecided",
        ),
        (
            "but not one that this leader has begun",
            ONE_A_GROUP,
            vec![Case { group: None, ..C::begun("z") }, C::ready("b", 1)],
            "b",
        ),
        (
            "terminating pods go before an earlier accept",
            ONE_IN_ALL,
            vec![C::ready("a", 1), Case { is_terminating: true, ..C::ready("b", 2) }],
            "a:InAll b",
        ),
        (
            "an unknown group waits where groups count",
            ONE_A_GROUP,
            vec![Case { group: None, ..C::ready("a", 1) }],
            "a:GroupUnknown",
        ),
        ("and only there", ONE_IN_ALL, vec![Case { group: None, ..C::ready("a", 1) }], "a"),
        (
            "control-plane nodes go one at a time, without a flag",
            NONE,
            vec![
                C::ready("a", 1).control_plane(),
                C::ready("b", 2).control_plane(),
                C::ready("c", 3).control_plane(),
                C::ready("d", 4),
            ],
            "a b:ControlPlane c:ControlPlane d",
        ),
        (
            "a control-plane node that presses is not held back",
            NONE,
            vec![C::begun("z").control_plane(), C::ready("a", 1).control_plane().pressing()],
            "a",
        ),
        (
            "the next one is decided with the first gone",
            NONE,
            vec![C::ready("b", 2).control_plane(), C::ready("c", 3).control_plane()],
            "b c:ControlPlane",
        ),
    ];
    for (what, limits, cases, expected) in rows {
        assert_eq!(text(&decide(limits, &cases, 100)), expected, "{what}");
    }
}

fn any_case() -> impl Strategy<Value = Case> {
    let stage = prop_oneof![
        1 => Just(Stage::Begun),
        1 => Just(Stage::MayHaveBegun),
        1 => Just(Stage::NotReady),
        4 => Just(Stage::Ready),
    ];
    let cause = prop_oneof![1 => Just(None), 6 => (50..400_i64).prop_map(Some)];
    let flags = (any::<bool>(), prop::bool::weighted(0.2), prop::option::weighted(0.9, 0..3_u8));
    (stage, cause, 0..50_i64, flags).prop_map(|(stage, cause, accepted, flags)| {
        let (is_terminating, is_control_plane, group) = flags;
        Case {
            name: NodeName::from(""),
            group: group.map(|group| format!("asg-{group}").as_str().into()),
            is_control_plane,
            cause: cause.map_or(Cause::Presses, |until| Cause::CanWait(at(until))),
            stage,
            accepted,
            is_terminating,
        }
    })
}

fn named(mut cases: Vec<Case>) -> Vec<Case> {
    for (i, case) in cases.iter_mut().enumerate() {
        case.name = format!("n{i:02}").as_str().into();
    }
    cases
}

fn limits() -> impl Strategy<Value = Limits> {
    let most = || prop::option::of(1..4_usize);
    (most(), most()).prop_map(|(per_group, in_all)| Limits { per_group, in_all })
}

/// A drain that counts against the limits: it can wait, and has begun or begins.
fn counted<'a>(
    cases: &'a [Case],
    verdicts: &BTreeMap<NodeName, Verdict>,
    with_begun: bool,
) -> Vec<&'a Case> {
    let begins = |case: &Case| verdicts.get(&case.name) == Some(&Verdict::Begins);
    let has_begun =
        |case: &Case| matches!(case.stage, Stage::Begun | Stage::MayHaveBegun) && with_begun;
    cases
        .iter()
        .filter(|case| case.cause != Cause::Presses && (begins(case) || has_begun(case)))
        .collect()
}

proptest! {
    #[test]
    fn a_drain_begins_only_within_the_limits_unless_it_presses_or_has_waited_long_enough(
        cases in prop::collection::vec(any_case(), 1..20), limits in limits()
    ) {
        const NOW: i64 = 100;
        let cases = named(cases);
        let decided = decide(limits, &cases, NOW);
        let is_late = |case: &Case| {
            case.stage != Stage::NotReady
                && matches!(case.cause, Cause::CanWait(until) if until <= at(NOW))
        };
        let all = counted(&cases, &decided, true);
        for case in counted(&cases, &decided, false) {
            if is_late(case) || case.stage == Stage::Begun {
                continue;
            }
            prop_assert!(limits.in_all.is_none_or(|most| all.len() <= most), "{:?}", decided);
            let of_group = all.iter().filter(|other| other.group == case.group).count();
            prop_assert!(
                case.group.is_none() && limits.per_group.is_none()
                    || limits.per_group.is_none_or(|most| of_group <= most)
            );
            let masters = all.iter().filter(|other| other.is_control_plane).count();
            prop_assert!(!case.is_control_plane || masters == 1);
        }
        for case in &cases {
            let verdict = decided.get(&case.name);
            let is_free = case.cause == Cause::Presses || is_late(case);
            let expected = (case.stage != Stage::Begun && is_free).then_some(&Verdict::Begins);
            prop_assert!(expected.is_none() || verdict == expected);
            prop_assert_eq!(verdict.is_none(), case.stage == Stage::Begun);
        }
    }

    #[test]
    fn every_drain_begins_in_the_end_in_the_order_of_accepts(
        cases in prop::collection::vec(any_case(), 1..15), limits in limits()
    ) {
        let mut cases = named(cases);
        for case in &mut cases {
            case.is_terminating = false;
            if case.stage != Stage::Begun {
                case.stage = Stage::Ready;
            }
        }
        let mut begun: BTreeSet<NodeName> = BTreeSet::new();
        // A drain ends in each round, the one that began first by name.
        for round in 0..60 {
            let decided = decide(limits, &cases, 10 * round);
            for case in &mut cases {
                if decided.get(&case.name) == Some(&Verdict::Begins) {
                    case.stage = Stage::Begun;
                    begun.insert(case.name.clone());
                }
            }
            for (earlier, later) in cases.iter().flat_map(|a| cases.iter().map(move |b| (a, b))) {
                let alike = earlier.group == later.group
                    && earlier.is_control_plane == later.is_control_plane
                    && later.cause != Cause::Presses
                    && (earlier.accepted, &earlier.name) < (later.accepted, &later.name);
                let Cause::CanWait(until) = later.cause else { continue };
                let overtaken = alike && until > at(10 * round)
                    && decided.get(&later.name) == Some(&Verdict::Begins)
                    && matches!(decided.get(&earlier.name), Some(Verdict::Held(_)));
                prop_assert!(!overtaken, "{later:?} overtook {earlier:?}");
            }
            if let Some(ended) = cases.iter().position(|case| case.stage == Stage::Begun) {
                begun.insert(cases.remove(ended).name);
            }
        }
        prop_assert!(cases.is_empty(), "{cases:?} are left, {begun:?} have begun");
    }

    #[test]
    fn another_order_of_the_same_drains_decides_the_same(
        cases in prop::collection::vec(any_case(), 1..15), limits in limits()
    ) {
        let cases = named(cases);
        let mut reversed = cases.clone();
        reversed.reverse();
        prop_assert_eq!(decide(limits, &cases, 100), decide(limits, &reversed, 100));
    }
}

#[test]
fn each_reason_has_its_own_text() {
    let all = [
        PaceHold::Undecided,
        PaceHold::ControlPlane,
        PaceHold::GroupUnknown,
        PaceHold::Group,
        PaceHold::InAll,
    ];
    let texts: BTreeSet<&str> = all.into_iter().map(PaceHold::as_str).collect();
    assert_eq!(texts.len(), all.len());
}

//! CONTINUE or ABANDON at the end of a drain.

use super::*;

fn with_hook(kind: Kind, hook: &str) -> InterruptionFacts {
    let instance: InstanceId = "i-00000000000000001".parse().unwrap();
    let key = HookKey { instance, group: "asg".into(), hook: hook.into() };
    InterruptionFacts {
        kind: Some(kind),
        event_id: String::new(),
        time: at(0),
        accepted: at(1),
        hook: Some(LifecycleAction { key, token: None }),
        ends: None,
        state: None,
        stale: false,
        response: Response::Drain,
        settings: DrainSettings::NONE,
        reason: None,
    }
}

#[test]
fn abandon_is_the_result_only_of_a_failed_drain_whose_group_retains_the_instance() {
    use AbandonPolicy::{Retain, RetainEnded, Terminate, Unknown};
    use HookResult::{Abandon, Continue};
    let terminate = || with_hook(Kind::TerminateHook, "drain");
    let root_volume = || with_hook(Kind::RootVolume, "drain");
    let spot = || InterruptionFacts { hook: None, ..with_hook(Kind::Spot, "") };
    let unknown_kind = || InterruptionFacts { kind: None, ..terminate() };
    for (on_failure, has_failed, interruptions, group, expected) in [
        (Continue, true, vec![terminate()], Some(Retain), Continue),
        (Abandon, false, vec![terminate()], Some(Retain), Continue),
        (Abandon, true, vec![terminate()], Some(Retain), Abandon),
        (Abandon, true, vec![terminate()], Some(RetainEnded), Continue),
        (Abandon, true, vec![terminate()], Some(Terminate), Continue),
        (Abandon, true, vec![terminate()], Some(Unknown), Continue),
        (Abandon, true, vec![root_volume()], Some(Retain), Continue),
        (Abandon, true, vec![unknown_kind()], Some(Retain), Continue),
        (Abandon, true, vec![terminate(), spot()], Some(Retain), Continue),
        (Abandon, true, vec![with_hook(Kind::TerminateHook, "other")], Some(Retain), Continue),
        (Abandon, true, vec![terminate(), root_volume()], Some(Retain), Abandon),
        (Abandon, true, vec![], Some(Retain), Continue),
    ] {
        let drain = EndedDrainFacts { on_failure, has_failed, interruptions: &interruptions };
        let action = terminate().hook.unwrap();
        let depends = drain.depends_on_group(&action);
        let result = group.filter(|_| depends).map_or(Continue, AbandonPolicy::result);
        assert_eq!(result, expected, "{on_failure:?} {has_failed} {interruptions:?} {group:?}");
        // Whoever gets CONTINUE in any case makes no call.
        assert!(depends || expected == Continue);
    }
}

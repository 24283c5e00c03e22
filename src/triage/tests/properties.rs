//! What holds whatever is known.

use proptest::{option, prelude::*, sample::select};

use super::*;

fn moments() -> impl Strategy<Value = Moment> {
    (-4000..4000_i64).prop_map(|s| Moment::from_second(now().as_second() + s).unwrap())
}

fn tag_sets() -> impl Strategy<Value = BTreeMap<String, String>> {
    select(vec![ours(), theirs(), BTreeMap::new(), tags(&[("managed", "")]), tags(&[("managed", ""), ("eks:cluster-name", CLUSTER)])])
}

fn nodes() -> impl Strategy<Value = Vec<Arc<Node>>> {
    let one = (select(vec![Some(INSTANCE), Some(OTHER), None]), any::<bool>(), any::<bool>(), option::of(moments())).prop_map(
        |(instance, ignored, karpenter, created)| {
            let mut n = Node { created, ..node(DNS, instance) };
            if ignored {
                n.annotations.insert(IGNORE.to_owned(), "true".to_owned());
            }
            if karpenter {
                std::sync::Arc::make_mut(&mut n.labels).insert("karpenter.sh/nodepool".to_owned(), "x".to_owned());
            }
            Arc::new(n)
        },
    );
    proptest::collection::vec(one, 0..3)
}

fn instance_answers() -> impl Strategy<Value = InstanceAnswer> {
    let states = select(vec!["pending", "running", "stopping", "stopped", "shutting-down", "terminated"]);
    let dns = option::of(Just(DNS.to_owned()));
    let facts = (states, option::of(moments()), dns, tag_sets()).prop_map(|(state, launched, private_dns, tags)| InstanceFacts {
        id: id(INSTANCE),
        state: state.parse().unwrap(),
        launched,
        private_dns,
        private_address: None,
        tags,
    });
    (moments(), option::of(facts)).prop_map(|(at, facts)| InstanceAnswer { at, facts })
}

prop_compose! {
    fn knowledge()(
        (received, happened, asked) in (moments(), moments(), option::of(moments())),
        index_trusted in any::<bool>(),
        nodes in nodes(),
        instance in option::of(instance_answers()),
        namesakes in option::of(option::of(instance_answers()).prop_map(|a| a.and_then(|a| a.facts).into_iter().collect())),
        group in option::of(prop_oneof![tag_sets().prop_map(GroupAnswer::Tags), Just(GroupAnswer::NoSuchGroup)]),
        hook in option::of(Just(HookAnswer::NoSuchHook)),
        hooks in option::of(select(vec![described().unwrap(), HooksAnswer::Denied, hook_claims::of(&["my-hook", "sundown"])])),
        beat in option::of((moments(), any::<bool>()).prop_map(|(at, accepted)| BeatAnswer { at, accepted })),
        listed in option::of((moments(), self::nodes())),
    ) -> Knowledge {
        Knowledge { received, happened, index_trusted, nodes, asked, instance, namesakes, group, hook, hooks, beat, listed }
    }
}

prop_compose! {
    fn policies()(
        cluster in any::<bool>(),
        tag in any::<bool>(),
        shared_queue in any::<bool>(),
        globs in select(vec![vec![], vec!["my-*"], vec!["other"]]),
    ) -> Policy {
        let hooks = HookGlobs::new(&globs).unwrap();
        Policy { cluster_name: cluster.then(|| CLUSTER.to_owned()), managed_tag: tag.then(|| "managed".to_owned()), shared_queue, hooks, ..policy() }
    }
}

fn interruptions() -> impl Strategy<Value = Interruption> {
    let [a, b, c, d] = draining();
    select(vec![a, b, c, d, launch(), interruption(What::Rebalance), state_change(InstanceState::Running)])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn whatever_is_known_the_verdict_touches_only_what_is_ours(i in interruptions(), known in knowledge(), policy in policies(), now in moments()) {
        let tag_allows = |known: &Knowledge| policy.managed_tag.is_none() || known.instance.is_some();
        match triage(&i, &known, &policy, now) {
            Verdict::Accept(a) => {
                prop_assert!(a.node.instance.is_none() || a.node.instance.as_ref() == Some(&i.instance));
                prop_assert!(!a.node.ignored() && policy.nodes.matches(&a.node.labels));
                prop_assert!(a.claim == hook_claims::claim(&i, &known, &policy) && a.claim != HookClaim::Foreign);
                prop_assert!(tag_allows(&known));
                prop_assert!(a.standing != Standing::Proved || disproved(&i, &known) == Some(false));
                prop_assert!(a.standing != Standing::Unproved || disproved(&i, &known).is_none());
            }
            Verdict::Complete(owed) => {
                prop_assert!(i.hook().is_some_and(|h| h.hook == owed.key.hook) && hook_claims::may_complete(&i, &known, &policy));
                prop_assert!(policy.cluster_name.is_some() && known.index_trusted && tag_allows(&known));
                prop_assert!(beats(&i, &known, &policy), "what is completed was beaten");
                prop_assert!(!known.nodes.iter().any(|n| n.instance.as_ref() == Some(&i.instance)));
                prop_assert!(known.listed.as_ref().is_some_and(|(at, nodes)| *at >= known.received && !nodes.iter().any(|n| n.instance.as_ref() == Some(&i.instance))));
            }
            Verdict::AnswerLaunch(owed) => {
                prop_assert!(matches!(i.what, What::Launch(_)) && hook_claims::may_complete(&i, &known, &policy) && tag_allows(&known));
                prop_assert!(policy.cluster_name.is_some() || policy.hooks.names(&owed.key.hook));
            }
            Verdict::Wait(wait) => {
                prop_assert!(!known.index_trusted || !wait.ask.is_empty() || wait.until.is_some(), "nothing would ever wake it");
                prop_assert!(wait.until.is_none_or(|until| until > now));
            }
            Verdict::Delete(reason) => prop_assert!(!policy.shared_queue || !reason.may_concern_others()),
            Verdict::Leave(_) => prop_assert!(policy.shared_queue),
        }
        if beats(&i, &known, &policy) {
            prop_assert!(matches!(i.what, What::Terminate(_)) && hook_claims::claim(&i, &known, &policy) != HookClaim::Foreign && tag_allows(&known));
            prop_assert!(policy.cluster_name.is_some() || !known.nodes.is_empty() || known.listed.is_some());
        }
    }
}

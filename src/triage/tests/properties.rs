//! Properties of the verdict for any knowledge.

use proptest::{option, prelude::*, sample::select};

use super::{
    model::{Expected, Flags, Model, may_touch},
    *,
};

fn moments() -> impl Strategy<Value = Moment> {
    (-4000..4000_i64).prop_map(|s| Moment::from_second(now().as_second() + s).unwrap())
}

fn tag_sets() -> impl Strategy<Value = BTreeMap<String, String>> {
    select(vec![
        ours(),
        theirs(),
        BTreeMap::new(),
        tags(&[("managed", "")]),
        tags(&[("managed", ""), ("eks:cluster-name", CLUSTER)]),
    ])
}

fn nodes() -> impl Strategy<Value = Vec<Arc<Node>>> {
    let one = (
        select(vec![Some(INSTANCE), Some(OTHER), None]),
        any::<bool>(),
        any::<bool>(),
        option::of(moments()),
    )
        .prop_map(|(instance, ignored, karpenter, created)| {
            let mut n = Node { created, ..node(DNS, instance) };
            if ignored {
                n.annotations.insert(IGNORE, "true");
            }
            if karpenter {
                std::sync::Arc::make_mut(&mut n.labels)
                    .insert("karpenter.sh/nodepool".to_owned(), "x".to_owned());
            }
            Arc::new(n)
        });
    proptest::collection::vec(one, 0..3)
}

/// No Node, or one that has the instance's id.
fn at_most_one_node() -> impl Strategy<Value = Vec<Arc<Node>>> {
    let one = nodes().prop_map(|all| {
        all.into_iter()
            .take(1)
            .map(|n| Arc::new(Node { instance: Some(id(INSTANCE)), ..(*n).clone() }))
            .collect()
    });
    prop_oneof![Just(Vec::new()), one]
}

/// The cases of a group's hooks: none of ours, one of ours beside another, one of ours for
/// launches.
fn hooks_answers() -> impl Strategy<Value = HooksAnswer> {
    let for_launches = HooksAnswer::Described(
        [("my-hook".into(), Transition::Terminating), ("sundown-x".into(), Transition::Launching)]
            .into(),
    );
    select(vec![
        described().unwrap(),
        HooksAnswer::Denied,
        hook_claims::of(&["my-hook", "sundown"]),
        hook_claims::of(&[]),
        for_launches,
    ])
}

fn hook_answers() -> impl Strategy<Value = HookAnswer> {
    let description = |heartbeat: u64| HookDescription {
        hook: "my-hook".into(),
        heartbeat_timeout: seconds(heartbeat),
        global_timeout: seconds(heartbeat * 100),
    };
    prop_oneof![
        Just(HookAnswer::NoSuchHook),
        (30..4000_u64).prop_map(move |heartbeat| HookAnswer::Described(description(heartbeat)))
    ]
}

fn instance_answers() -> impl Strategy<Value = InstanceAnswer> {
    let states =
        select(vec!["pending", "running", "stopping", "stopped", "shutting-down", "terminated"]);
    let dns = option::of(Just(DNS.to_owned()));
    let facts = (states, option::of(moments()), dns, tag_sets()).prop_map(
        |(state, launched, private_dns, tags)| InstanceFacts {
            id: id(INSTANCE),
            state: state.parse().unwrap(),
            launched,
            private_dns,
            private_address: None,
            tags,
        },
    );
    (moments(), option::of(facts)).prop_map(|(at, facts)| InstanceAnswer { at, facts })
}

prop_compose! {
    fn knowledge()(
        (received, happened, proof_asked_at) in (moments(), moments(), option::of(moments())),
        index_trusted in any::<bool>(),
        nodes in nodes(),
        instance in option::of(instance_answers()),
        namesakes in option::of(
            option::of(instance_answers()).prop_map(|a| a.and_then(|a| a.facts).into_iter().collect())
        ),
        group in option::of(
            prop_oneof![tag_sets().prop_map(GroupAnswer::Tags), Just(GroupAnswer::NoSuchGroup)]
        ),
        hook in option::of(hook_answers()),
        (
            hooks, hooks_before, hooks_asked_at
        ) in (option::of(hooks_answers()), option::of(hooks_answers()), option::of(moments())),
        heartbeat in option::of((moments(), any::<bool>()).prop_map(|(at, accepted)| HeartbeatAnswer { at, accepted })),
        listed in option::of((moments(), self::nodes())),
        action_end in prop_oneof![
            8 => Just(ActionEndSeen::NotKnown),
            1 => Just(ActionEndSeen::Over),
            1 => Just(ActionEndSeen::Completed),
        ],
        launch in option::of((moments(), option::of(moments())).prop_map(|(at, renewed)| {
            let lease = Some(LeaseAnswer { node: "n".into(), at, renewed });
            Box::new(LaunchAnswers { lease, ..LaunchAnswers::default() })
        })),
    ) -> Knowledge {
        Knowledge {
            received, happened, is_found_by_sweep: false,
            is_before_last_drain: false, index_trusted, nodes, proof_asked_at, instance,
            namesakes, group, hook, hooks, hooks_asked_at, hooks_before, heartbeat, listed,
            action_end, return_check: ReturnCheck::Never, launch
        }
    }
}

prop_compose! {
    fn all_flags()(
        cluster in any::<bool>(),
        tag in any::<bool>(),
        shared_queue in any::<bool>(),
        globs in select(
            vec![
                vec![], vec![], vec!["my-*"], vec!["other"], vec!["*"],
                vec!["*-x", "Terminate-LC-Hook"]
            ]
        ),
    ) -> Flags {
        let hooks = HookGlobs::new(&globs).unwrap();
        let policy = Policy {
            cluster_name: cluster.then(|| CLUSTER.to_owned()),
            managed_tag: tag.then(|| "managed".to_owned()), shared_queue, hooks, ..policy()
        };
        Flags { globs, policy }
    }
}

fn interruptions() -> impl Strategy<Value = Interruption> {
    let [_, b, c, d, e] = draining();
    let others = select(vec![
        b,
        c,
        d,
        e,
        interruption(Cause::Rebalance),
        state_change(InstanceState::Running),
        state_change(InstanceState::Stopped),
    ]);
    let hook = select(vec!["my-hook", "my-hook", "sundown-x", "Terminate-LC-Hook"]);
    let hooks = (hook, any::<bool>()).prop_map(|(hook, launch)| {
        interruption(if launch {
            Cause::Launch(action(hook))
        } else {
            Cause::Terminate(action(hook))
        })
    });
    prop_oneof![others, hooks]
}

/// Its providerID is the instance's.
fn is_of_the_instance(node: &Arc<Node>) -> bool {
    node.instance == Some(id(INSTANCE))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn a_verdict_touches_only_what_is_ours(
        i in interruptions(), known in knowledge(), flags in all_flags(), now in moments()
    ) {
        let model = Model { i: &i, known: &known, flags: &flags, now };
        let policy = &flags.policy;
        let may_complete = matches!(model.claim(), HookClaim::Ours | HookClaim::Unchecked);
        match triage(&i, &known, policy, now) {
            Verdict::Accept(a) => {
                prop_assert!(a.node.instance.is_none() || is_of_the_instance(&a.node));
                prop_assert!(may_touch(&a.node));
                prop_assert!(a.claim == model.claim() && a.claim != HookClaim::Foreign);
                prop_assert_eq!(model.is_managed(), Some(true));
                let certainty = if !model.is_late() { Certainty::Timely } else if model.holds() == Some(true) { Certainty::Proved } else { Certainty::Unproved };
                prop_assert_eq!(a.certainty, certainty);
                prop_assert!(certainty != Certainty::Unproved || model.holds().is_none());
            }
            Verdict::Complete(open_action) => {
                prop_assert!(
                    may_complete && matches!(
                        &i.cause, Cause::Terminate(action) if action.hook == open_action.key.hook
                    )
                );
                prop_assert!(
                    policy.cluster_name.is_some() && model.is_ours() == Some(true) && known.index_trusted
                );
                prop_assert_eq!(model.is_managed(), Some(true));
                prop_assert!(heartbeats(&i, &known, policy), "a hook that is completed got heartbeats before");
                prop_assert!(!known.nodes.iter().any(is_of_the_instance));
                prop_assert!(
                    known.listed.as_ref().is_some_and(|(at, nodes)| *at >= known.received && !nodes.iter().any(is_of_the_instance))
                );
            }
            Verdict::AnswerLaunch(answer) => {
                prop_assert!(
                    may_complete && matches!(
                        &i.cause, Cause::Launch(action) if action.hook == answer.action.key.hook
                    )
                );
                prop_assert_eq!(model.is_managed(), Some(true));
                prop_assert!(policy.cluster_name.is_some() || !flags.globs.is_empty());
                prop_assert!(heartbeats(&i, &known, policy), "it got heartbeats before");
                prop_assert_eq!(answer.result, HookResult::Continue);
                if answer.end == LaunchEnd::Ready {
                    prop_assert!(
                        known.lease().and_then(|lease| lease.renewed) >= Some(known.happened)
                    );
                }
            }
            Verdict::Wait(wait) => {
                prop_assert!(
                    !known.index_trusted || !wait.ask.is_empty() || wait.until.is_some(),
                    "no input would ever end the wait");
                prop_assert!(wait.until.is_none_or(|until| until > now));
            }
            Verdict::Delete(reason) => {
                let may_concern_others = matches!(
                    reason,
                    Reason::Foreign | Reason::ForeignHook | Reason::NotManaged | Reason::Unknown | Reason::Irrelevant
                );
                prop_assert!(!policy.shared_queue || !may_concern_others);
            }
            Verdict::Plan(_) => prop_assert!(matches!(i.cause, Cause::ScheduledChange(_))),
            Verdict::GiveBack(_) => prop_assert!(policy.shared_queue),
        }
        if heartbeats(&i, &known, policy) {
            prop_assert!(
                i.hook().is_some() && model.claim() != HookClaim::Foreign && model.is_managed() == Some(true)
            );
            prop_assert!(
                policy.cluster_name.is_some() || !known.nodes.is_empty() || known.listed.is_some()
                    || (matches!(i.cause, Cause::Launch(_)) && !flags.globs.is_empty())
            );
        }
    }

    #[test]
    fn if_at_most_one_node_claims_the_instance_the_verdict_is_that_of_the_model(
        i in interruptions(), known in knowledge(), nodes in at_most_one_node(),
        flags in all_flags(), now in moments(),
    ) {
        let listed = known.listed.map(|(at, _)| (at, Vec::new()));
        let known = Knowledge { nodes, listed, ..known };
        let model = Model { i: &i, known: &known, flags: &flags, now };
        let node = known.nodes.first().map(|node| &**node);
        let verdict = triage(&i, &known, &flags.policy, now);
        prop_assert_eq!(Expected::of(&verdict), model.expected(node), "{:?}", verdict);
        prop_assert_eq!(heartbeats(&i, &known, &flags.policy), model.heartbeats(node));
        prop_assert_eq!(holds(&i, &known), model.holds_after_accept());
    }
}

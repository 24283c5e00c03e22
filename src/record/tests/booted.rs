use super::*;

fn rebooted(node: &Node) -> Node {
    Node { boot_id: Some("boot-2".into()), ..node.clone() }
}

fn sick() -> Interruption {
    Impairment { symptom: Symptom::NotReady, since: at(0), group: "asg".into() }.of(id(INSTANCE))
}

fn drained(event: &Interruption) -> Node {
    release_node(&take_on(&node(), event, 105).unwrap(), 200)
}

#[test]
fn only_a_new_boot_of_the_same_machine_must_be_shown() {
    let released = drained(&spot("e1", 100));
    let other = Node { instance: Some(id(OTHER)), ..rebooted(&released) };
    for (case, node, expected) in [
        ("the same boot", released.clone(), false),
        ("a new boot", rebooted(&released), true),
        (
            "a new boot in a drain",
            rebooted(&take_on(&node(), &spot("e1", 100), 105).unwrap()),
            true,
        ),
        ("another instance", other, false),
        ("no record", rebooted(&node()), false),
        ("a sick instance, whose health shows that it is back", rebooted(&drained(&sick())), false),
    ] {
        assert_eq!(awaited_boot(&node).is_some(), expected, "{case}");
    }
}

#[test]
fn the_node_the_kubelet_ec2_and_the_group_of_a_warm_pool_must_show_the_return() {
    let (running, stopped) = (facts(InstanceState::Running), facts(InstanceState::Stopped));
    let tagged = |group: &str| {
        let tags = [("aws:autoscaling:groupName".to_owned(), group.to_owned())];
        InstanceFacts { tags: tags.into(), ..running.clone() }
    };
    let (of_group, of_other) = (tagged("asg"), tagged("another"));
    let up = rebooted(&drained(&spot("e1", 100)));
    let down = Node { ready: Ready::Unknown, ..up.clone() };
    let pooled = rebooted(&drained(&to_pool()));
    let service = Some("InService");
    for (case, node, renewed, state, instance, expected) in [
        ("all of it", &up, Some(201), None, Some(&running), None),
        ("not Ready", &down, Some(201), None, Some(&running), Some(MissingOfBoot::Ready)),
        ("no Lease", &up, None, None, Some(&running), Some(MissingOfBoot::LeaseRenewal)),
        (
            "a Lease of before",
            &up,
            Some(200),
            None,
            Some(&running),
            Some(MissingOfBoot::LeaseRenewal),
        ),
        ("stopped", &up, Some(201), None, Some(&stopped), Some(MissingOfBoot::Running)),
        ("unknown to EC2", &up, Some(201), None, None, Some(MissingOfBoot::Running)),
        (
            "it boots in its pool",
            &pooled,
            Some(201),
            Some("Warmed:Pending:Wait"),
            Some(&running),
            Some(MissingOfBoot::LeftPool),
        ),
        ("out of its pool", &pooled, Some(201), service, Some(&running), None),
        ("in its launch hook", &pooled, Some(201), Some("Pending:Wait"), Some(&running), None),
        ("before its launch hook", &pooled, Some(201), Some("Pending"), Some(&running), None),
        (
            "after its launch hook",
            &pooled,
            Some(201),
            Some("Pending:Proceed"),
            Some(&running),
            None,
        ),
        ("in standby", &pooled, Some(201), Some("Standby"), Some(&running), None),
        ("detached from its group", &pooled, Some(201), None, Some(&running), None),
        ("attached to another one", &pooled, Some(201), None, Some(&of_other), None),
        (
            "in no list, but of its group",
            &pooled,
            Some(201),
            None,
            Some(&of_group),
            Some(MissingOfBoot::LeftPool),
        ),
        (
            "in no list, and EC2 was not asked",
            &pooled,
            Some(201),
            None,
            None,
            Some(MissingOfBoot::LeftPool),
        ),
        ("listed, with its tag", &pooled, Some(201), service, Some(&of_group), None),
        (
            "it waits in its pool",
            &pooled,
            Some(201),
            Some("Warmed:Running"),
            Some(&running),
            Some(MissingOfBoot::LeftPool),
        ),
        (
            "it ends",
            &pooled,
            Some(201),
            Some("Terminating:Wait"),
            Some(&running),
            Some(MissingOfBoot::LeftPool),
        ),
    ] {
        let awaited = awaited_boot(node).unwrap();
        let answer = AwsAnswer { group_state: state, instance };
        assert_eq!(awaited.missing(node, renewed.map(at), &answer), expected, "{case}");
    }
}

#[test]
fn what_is_missing_for_ten_minutes_and_should_not_be_gets_one_event() {
    use MissingOfBoot::{LeaseRenewal, LeftPool, Ready, Running};
    let mut checks = BootChecks::default();
    for (second, missing, expected) in [
        (0, Some(Ready), (true, false)),
        (700, Some(Ready), (false, false)),
        (710, Some(LeftPool), (true, false)),
        (800, None, (false, false)),
        (1_399, Some(Running), (true, false)),
        (1_400, Some(Running), (false, true)),
        (1_500, Some(LeaseRenewal), (true, false)),
        (1_600, Some(Ready), (true, false)),
        (1_700, None, (false, false)),
        (2_400, None, (false, false)),
    ] {
        let news = checks.note(at(second), missing);
        assert_eq!((news.is_other, news.needs_event), expected, "{second}");
    }
}

use serde_json::json;

use super::{
    super::finding::Answer,
    senders::{Others, Senders},
    *,
};
use crate::{
    aws::TargetFacts,
    domain::{Kind, Responses},
};

const ARN: &str = "arn:aws:sqs:eu-west-1:123456789012:q";

fn attributes(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// Point, answer and whether it is needed.
fn outcomes(findings: &[Finding]) -> Vec<(&'static str, Answer, bool)> {
    findings.iter().map(|f| (f.point, f.answer, f.needed)).collect()
}

fn allow(condition: &Value) -> Value {
    json!({
        "Effect": "Allow", "Principal": { "Service": "events.amazonaws.com" },
        "Action": "sqs:SendMessage", "Resource": ARN, "Condition": condition
    })
}

fn policy_of(statements: &Value) -> BTreeMap<String, String> {
    attributes(&[(
        "Policy",
        &json!({ "Version": "2012-10-17", "Statement": statements }).to_string(),
    )])
}

#[test]
fn senders_are_read_from_a_policy_in_every_notation() {
    let rules = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<BTreeSet<_>>();
    let arn = |name: &str| format!("arn:aws:events:eu-west-1:123456789012:rule/{name}");
    let deny = json!({
        "Effect": "Deny", "Principal": "*", "Action": ["SQS:SendMessage"],
        "Condition": { "BoolIfExists": { "aws:PrincipalIsAWSService": "false" } }
    });
    let tls = json!({
        "Effect": "Deny", "Principal": { "AWS": "*" }, "Action": "sqs:*",
        "Condition": { "Bool": { "aws:SecureTransport": "false" } }
    });
    for (statements, expected) in [
        (json!([]), Senders::default()),
        (allow(&json!({})), Senders { event_bridge: true, ..Senders::default() }),
        (
            json!([
                allow(&json!({ "ArnEquals": { "aws:SourceArn": [arn("a"), arn("b")] } })),
                deny
            ]),
            Senders { event_bridge: true, rules: rules(&["a", "b"]), others: Others::Denied },
        ),
        (
            json!([allow(&json!({ "ArnLike": { "AWS:SourceArn": arn("s-*") } })), tls]),
            Senders { event_bridge: true, rules: rules(&["s-*"]), others: Others::NotDenied },
        ),
        (
            json!([{
                "Effect": "Allow", "Principal": { "Service": "sns.amazonaws.com" },
                "Action": "sqs:SendMessage"
            }]),
            Senders::default(),
        ),
        (
            json!([{
                "Effect": "Allow", "Principal": { "Service": ["events.amazonaws.com"] },
                "Action": "sqs:ReceiveMessage"
            }]),
            Senders::default(),
        ),
    ] {
        assert_eq!(senders(&policy_of(&statements)), expected, "{statements}");
    }
    assert_eq!(senders(&attributes(&[])), Senders::default());
    assert_eq!(senders(&attributes(&[("Policy", "{not json")])), Senders::default());
}

#[test]
fn only_a_deny_that_spares_services_or_names_principals_proves_a_closed_queue() {
    let deny = |condition: &Value| {
        json!({
            "Effect": "Deny", "Principal": "*", "Action": "sqs:SendMessage", "Condition": condition
        })
    };
    let role = "arn:aws:iam::123456789012:role/tests";
    for (statement, expected) in [
        (
            deny(&json!({ "BoolIfExists": { "aws:PrincipalIsAWSService": "false" } })),
            Others::Denied,
        ),
        (deny(&json!({ "Bool": { "aws:principalisawsservice": false } })), Others::Denied),
        (
            deny(&json!({
                "BoolIfExists": { "aws:PrincipalIsAWSService": "false" },
                "ArnNotLike": { "aws:PrincipalArn": [role] }
            })),
            Others::Denied,
        ),
        (deny(&json!({ "ArnNotEquals": { "aws:PrincipalArn": role } })), Others::Denied),
        (
            json!({ "Effect": "Deny", "NotPrincipal": { "AWS": role }, "Action": "sqs:*" }),
            Others::Denied,
        ),
        // These keep out services, nobody, or only requests from elsewhere.
        (
            deny(&json!({ "BoolIfExists": { "aws:PrincipalIsAWSService": "true" } })),
            Others::Unclear,
        ),
        (deny(&json!({ "ArnNotLike": { "aws:PrincipalArn": "*" } })), Others::Unclear),
        (
            deny(&json!({
                "ArnNotLike": { "aws:PrincipalArn": [role, "arn:aws:iam::123456789012:root"] }
            })),
            Others::Unclear,
        ),
        (
            deny(&json!({
                "ArnNotLike": { "aws:PrincipalArn": "arn:aws:iam::123456789012:role/*" }
            })),
            Others::Unclear,
        ),
        (deny(&json!({ "ArnLike": { "aws:PrincipalArn": role } })), Others::Unclear),
        (deny(&json!({ "StringNotEquals": { "aws:SourceVpce": "vpce-1" } })), Others::Unclear),
        (
            deny(&json!({
                "IpAddress": { "aws:SourceIp": "10.0.0.0/8" },
                "Bool": { "aws:PrincipalIsAWSService": "false" }
            })),
            Others::Unclear,
        ),
        (deny(&json!({ "Bool": { "aws:SecureTransport": "false" } })), Others::NotDenied),
        (
            json!({ "Effect": "Deny", "Principal": { "AWS": role }, "Action": "sqs:SendMessage" }),
            Others::NotDenied,
        ),
        (
            json!({ "Effect": "Deny", "Principal": "*", "Action": "sqs:ReceiveMessage" }),
            Others::NotDenied,
        ),
        (
            json!({ "Effect": "Deny", "Principal": "*", "Action": "sqs:SendMessage" }),
            Others::EverybodyDenied,
        ),
    ] {
        assert_eq!(senders(&policy_of(&json!([statement]))).others, expected, "{statement}");
    }
}

#[test]
fn a_deny_decides_the_point_senders_and_a_deny_for_everybody_the_point_policy_too() {
    let rule = allow(&json!({ "ArnEquals": { "aws:SourceArn": "arn:aws:events:r:1:rule/a" } }));
    let answers = |deny: &Value| {
        let found = judge("q", &policy_of(&json!([rule, deny])));
        ["queue.policy", "queue.senders"]
            .map(|point| found.iter().find(|f| f.point == point).map(|f| f.answer).unwrap())
    };
    let deny = |condition: &Value| {
        json!({
            "Effect": "Deny", "Principal": "*", "Action": "sqs:SendMessage", "Condition": condition
        })
    };
    assert_eq!(
        answers(&deny(&json!({ "Bool": { "aws:PrincipalIsAWSService": "false" } }))),
        [Answer::Yes, Answer::Yes]
    );
    assert_eq!(
        answers(&deny(&json!({ "StringNotEquals": { "aws:SourceVpce": "vpce-1" } }))),
        [Answer::Yes, Answer::CannotTell]
    );
    assert_eq!(answers(&deny(&json!({}))), [Answer::No, Answer::Yes]);
    assert_eq!(answers(&json!({})), [Answer::Yes, Answer::No]);
}

#[test]
fn each_fault_of_a_queue_has_its_point() {
    let (yes, no, unknown) = (Answer::Yes, Answer::No, Answer::CannotTell);
    let sent = policy_of(&json!([allow(
        &json!({ "ArnEquals": { "aws:SourceArn": "arn:aws:events:r:1:rule/a" } })
    )]));
    for (own, expected) in [
        (attributes(&[]), [(unknown, false), (no, false), (no, true), (no, false)]),
        (
            attributes(&[("MessageRetentionPeriod", "345600"), ("SqsManagedSseEnabled", "true")]),
            [(yes, true), (yes, true), (no, true), (no, false)],
        ),
        (
            attributes(&[("MessageRetentionPeriod", "60"), ("KmsMasterKeyId", "alias/aws/sqs")]),
            [(no, false), (no, true), (no, true), (no, false)],
        ),
        (
            attributes(&[("MessageRetentionPeriod", "86400"), ("KmsMasterKeyId", "alias/mine")]),
            [(yes, true), (unknown, false), (no, true), (no, false)],
        ),
        (
            [
                attributes(&[
                    ("MessageRetentionPeriod", "345600"),
                    ("SqsManagedSseEnabled", "true"),
                ]),
                sent,
            ]
            .into_iter()
            .flatten()
            .collect(),
            [(yes, true), (yes, true), (yes, true), (no, false)],
        ),
    ] {
        let points = ["queue.retention", "queue.encryption", "queue.policy", "queue.senders"];
        let expected: Vec<_> = points
            .into_iter()
            .zip(expected)
            .map(|(point, (answer, needed))| (point, answer, needed))
            .collect();
        assert_eq!(outcomes(&judge("q", &own)), expected, "{own:?}");
    }
}

#[test]
fn a_dead_letter_queue_must_keep_messages_longer_and_not_receive_them_too_early() {
    let queue = |receives: &str| {
        let policy =
            format!("{{\"deadLetterTargetArn\":\"{ARN}-dead\",\"maxReceiveCount\":{receives}}}");
        attributes(&[("MessageRetentionPeriod", "345600"), ("RedrivePolicy", &policy)])
    };
    for (own, kept, answer) in [
        (attributes(&[]), Some("1209600"), Answer::No),
        (queue("10"), Some("1209600"), Answer::Yes),
        (queue("\"10\""), Some("1209600"), Answer::Yes),
        (queue("3"), Some("1209600"), Answer::No),
        (queue("10"), Some("345600"), Answer::No),
        (queue("10"), None, Answer::Yes),
    ] {
        let dead = kept.map(|kept| attributes(&[("MessageRetentionPeriod", kept)]));
        let found = redrive("q", &own, dead_letters(&own).as_ref(), dead.as_ref().map(Ok));
        assert_eq!(found.answer, answer, "{own:?} {kept:?}: {}", found.message);
    }
    assert_eq!(
        url_beside("https://sqs.eu-west-1.amazonaws.com/1/q", &format!("{ARN}-dead")).as_deref(),
        Some("https://sqs.eu-west-1.amazonaws.com/123456789012/q-dead")
    );
    assert_eq!(url_beside("http://127.0.0.1:4566/1/q", "arn").as_deref(), None);
}

#[test]
fn a_made_up_receipt_shows_whether_the_call_is_allowed() {
    let failure =
        |code: &str| Ok(vec![EntryFailure { index: 0, sender_fault: true, code: code.to_owned() }]);
    for (answer, expected) in [
        (failure("ReceiptHandleIsInvalid"), Answer::Yes),
        (failure("InvalidParameterValue"), Answer::Yes),
        (Ok(vec![]), Answer::Yes),
        (failure("AccessDenied"), Answer::No),
    ] {
        assert_eq!(
            bogus("queue.delete", "q", "sqs:DeleteMessage", &answer).answer,
            expected,
            "{answer:?}"
        );
    }
}

#[test]
fn a_good_rule_is_enabled_targets_the_queue_and_does_not_transform_events() {
    let target = TargetFacts { arn: ARN.to_owned(), attempts: Some(185), ..TargetFacts::default() };
    let good = RuleFacts {
        name: "r".to_owned(),
        state: "ENABLED".to_owned(),
        pattern:
            json!({ "source": ["aws.autoscaling", "sundown.test"], "detail-type": [TERMINATE] })
                .to_string(),
        targets: vec![target.clone()],
    };
    let found = rule(ARN, &good);
    assert_eq!(outcomes(&found), [("rule", Answer::Yes, true)]);
    assert!(
        found[0].message.contains(TERMINATE) && found[0].message.ends_with("test events too"),
        "{}",
        found[0].message
    );
    for (bad, needed) in [
        (RuleFacts { state: "DISABLED".to_owned(), ..good.clone() }, true),
        (RuleFacts { targets: vec![], ..good.clone() }, true),
        (
            RuleFacts {
                targets: vec![TargetFacts { transforms: true, ..target.clone() }],
                ..good.clone()
            },
            true,
        ),
        (
            RuleFacts {
                targets: vec![TargetFacts { attempts: Some(0), ..target.clone() }],
                ..good.clone()
            },
            false,
        ),
    ] {
        assert_eq!(outcomes(&rule(ARN, &bad)), [("rule", Answer::No, needed)], "{bad:?}");
    }
    let brings = |types: &[&str]| RuleFacts {
        pattern: json!({ "detail-type": types }).to_string(),
        ..good.clone()
    };
    let all = [
        TERMINATE,
        "EC2 Spot Instance Interruption Warning",
        "EC2 Instance State-change Notification",
        "EC2 Capacity Reservation Instance Interruption Warning",
        CAPACITY_BLOCK,
        CAPACITY_BLOCK_TOO,
        "EC2 Instance Launch Successful",
        "EC2 Instance Rebalance Recommendation",
        "AWS Health Event",
    ];
    let by_default = Responses::default();
    let known = |rules: &[RuleFacts]| KnownRules {
        queue: "q".to_owned(),
        arn: ARN.to_owned(),
        rules: rules.to_vec(),
    };
    let covered = |rules: &[RuleFacts]| {
        outcomes(&[coverage(&known(rules), &by_default, &LaunchHook::None)])[0]
    };
    assert_eq!(covered(&[brings(&all)]), ("rules", Answer::Yes, true));
    assert_eq!(covered(&[brings(&all[..1]), brings(&all[1..])]), ("rules", Answer::Yes, true));
    assert_eq!(covered(&[brings(&all[..3])]), ("rules", Answer::No, false));
    assert_eq!(covered(&[brings(&all[..8])]), ("rules", Answer::No, false), "no Health");
    assert_eq!(covered(&[brings(&all[1..])]), ("rules", Answer::No, true));
    let without = |kinds: &[Kind], rules: &[RuleFacts]| {
        let given = kinds.iter().map(|kind| format!("{}=ignore", kind.as_str()).parse().unwrap());
        let responses = Responses::new(&given.collect::<Vec<_>>()).unwrap();
        outcomes(&[coverage(&known(rules), &responses, &LaunchHook::None)])[0]
    };
    let late = [Kind::Rebalance, Kind::ScheduledChange];
    assert_eq!(without(&late, &[brings(&all[..7])]), ("rules", Answer::Yes, true), "--on ignores");
    let hooks = [Kind::TerminateHook, Kind::RootVolume];
    assert_eq!(without(&hooks, &[brings(&all[1..])]), ("rules", Answer::Yes, true));
    assert_eq!(without(&hooks[..1], &[brings(&all[1..])]), ("rules", Answer::No, true));
    assert_eq!(covered(&[]), ("rules", Answer::No, true));
    // A rule that is off, has another target or changes the event brings nothing.
    let changed = TargetFacts { transforms: true, ..good.targets[0].clone() };
    for useless in [
        RuleFacts { state: "DISABLED".to_owned(), ..brings(&all) },
        RuleFacts { targets: vec![], ..brings(&all) },
        RuleFacts { targets: vec![changed], ..brings(&all) },
    ] {
        assert_eq!(
            covered(std::slice::from_ref(&useless)),
            ("rules", Answer::No, true),
            "{useless:?}"
        );
    }
}

#[test]
fn the_rule_of_launch_hooks_is_needed_if_a_group_has_one_that_sundown_answers() {
    let hook = LaunchHook::Found("web/sundown-launch".to_owned());
    let (hook, none, not_known) = (&hook, &LaunchHook::None, &LaunchHook::NotKnown);
    let usual: Vec<&str> = WANTED.into_iter().map(|(_, event)| event).chain([TERMINATE]).collect();
    let with_launch: Vec<&str> = usual.iter().copied().chain([LAUNCH_ACTION]).collect();
    let without_spot: Vec<&str> = usual.iter().copied().filter(|e| !e.contains("Spot")).collect();
    let launch_rule = r#"add the rule of launch hooks (docs/commands.md, "sundown enroll")"#;
    let other_rule = "add the rule (docs/install.md, step 2), or set --on KIND=ignore";
    let both = format!("{other_rule}; {launch_rule}");
    let of_launch = "no rule brings `EC2 Instance-launch Lifecycle Action`, which the launch hook \
                     web/sundown-launch needs";
    let of_both = "no rule brings `EC2 Spot Instance Interruption Warning` nor `EC2 Instance-launch \
                   Lifecycle Action`, which the launch hook web/sundown-launch needs";
    let of_spot = "no rule brings `EC2 Spot Instance Interruption Warning`";
    for (events, launch_hook, is_ignored, expected) in [
        (&usual, none, false, None),
        (&usual, not_known, false, None),
        (&usual, hook, false, Some((of_launch, launch_rule))),
        (&usual, hook, true, None),
        (&with_launch, hook, false, None),
        (&with_launch, none, false, None),
        (&without_spot, none, false, Some((of_spot, other_rule))),
        (&without_spot, hook, false, Some((of_both, both.as_str()))),
    ] {
        let target = TargetFacts { arn: ARN.to_owned(), ..TargetFacts::default() };
        let rule = RuleFacts {
            name: "r".to_owned(),
            state: "ENABLED".to_owned(),
            pattern: json!({ "detail-type": events }).to_string(),
            targets: vec![target],
        };
        let known = KnownRules { queue: "q".to_owned(), arn: ARN.to_owned(), rules: vec![rule] };
        let ignored = is_ignored.then(|| "launch-hook=ignore".parse().unwrap());
        let responses = Responses::new(&Vec::from_iter(ignored)).unwrap();
        let found = coverage(&known, &responses, launch_hook);
        let case = format!("{events:?} {launch_hook:?} {is_ignored}");
        match expected {
            None => {
                assert_eq!(found.answer, Answer::Yes, "{case}");
                let is_doubtful = found.message.contains("is not known");
                assert_eq!(is_doubtful, launch_hook == not_known, "{case}");
            }
            Some((message, remedy)) => {
                assert_eq!((found.answer, found.needed), (Answer::No, false), "{case}");
                let shown = (found.message.as_str(), found.remedy.as_deref());
                assert_eq!(shown, (message, Some(remedy)), "{case}");
            }
        }
    }
}

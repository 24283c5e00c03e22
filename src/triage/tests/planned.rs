//! Scheduled changes of AWS Health.

use super::*;
use crate::domain::{ChangeStatus, HealthNotice, Responses};

fn change(notice: HealthNotice) -> Interruption {
    interruption(Cause::ScheduledChange(Arc::new(notice)))
}

fn retirement() -> HealthNotice {
    HealthNotice {
        event_arn: "arn".to_owned(),
        code: "AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED".to_owned(),
        region: Some("eu-west-1".to_owned()),
        ..HealthNotice::default()
    }
}

#[test]
fn c21_what_happens_to_a_scheduled_change() {
    let here = Policy { region: Some("eu-west-1".to_owned()), ..policy() };
    let there = Policy { region: Some("us-east-1".to_owned()), ..policy() };
    let off = Responses::new(&["scheduled-change=ignore".parse().unwrap()]).unwrap();
    let off = Policy { responses: off, ..here.clone() };
    let network = HealthNotice {
        code: "AWS_EC2_INSTANCE_NETWORK_MAINTENANCE_SCHEDULED".to_owned(),
        ..retirement()
    };
    let informational = HealthNotice { is_informational: true, ..retirement() };
    let closed = HealthNotice { status: ChangeStatus::Closed, ..retirement() };
    let nowhere = HealthNotice { region: None, ..retirement() };
    for (what, notice, policy, expected) in [
        ("a retirement", retirement(), &here, None),
        ("a closed one", closed, &here, None),
        ("without a region", nowhere, &here, None),
        ("our region is not known", retirement(), &policy(), None),
        ("another region", retirement(), &there, Some(Reason::Foreign)),
        ("network maintenance", network, &here, Some(Reason::Reported)),
        ("it asks for nothing any longer", informational, &here, None),
        ("--on", retirement(), &off, Some(Reason::Ignored)),
    ] {
        let verdict = verdict(&change(notice), &with_node(), policy);
        match expected {
            Some(reason) => assert_eq!(verdict, Verdict::Delete(reason), "{what}"),
            None => assert!(matches!(verdict, Verdict::Plan(_)), "{what}: {verdict:?}"),
        }
    }
}

#[test]
fn a_scheduled_change_of_a_node_that_is_not_ours_is_not_noted() {
    let mut node = (*our_node()).clone();
    node.annotations.insert(crate::domain::IGNORE, "true");
    let known = Knowledge { nodes: vec![Arc::new(node)], ..with_node() };
    assert_eq!(
        verdict(&change(retirement()), &known, &policy()),
        Verdict::Delete(Reason::NotManaged)
    );
    let network = HealthNotice { code: "AWS_EC2_NETWORK".to_owned(), ..retirement() };
    assert_eq!(
        verdict(&change(network), &fresh(), &shared(policy())),
        Verdict::GiveBack(Reason::Reported),
        "it may be another cluster's"
    );
    assert!(matches!(verdict(&change(retirement()), &fresh(), &policy()), Verdict::Wait(_)));
}

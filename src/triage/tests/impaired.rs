//! Sick instances: there is no message of them, so nothing waits.

use super::*;
use crate::domain::{Impairment, Ready, Response, Responses, Symptom};

#[test]
fn a_sick_instance_is_accepted_only_while_its_node_shows_nothing_else() {
    use Symptom::{NotReady, StatusCheck};
    let on = |text: &str| {
        let responses = Responses::new(&[text.parse().unwrap()]).unwrap();
        Policy { responses, ..policy() }
    };
    let known = |ready, index_trusted| {
        let node = Arc::new(Node { ready, ..(*our_node()).clone() });
        Knowledge { nodes: vec![node], index_trusted, ..with_node() }
    };
    let lost = || known(Ready::Unknown, true);
    for (name, symptom, known, policy, expected) in [
        ("not Ready", NotReady, lost(), on("impaired=drain"), Ok(Response::Drain)),
        ("only to cordon", NotReady, lost(), on("impaired=cordon"), Ok(Response::Cordon)),
        ("by default", NotReady, lost(), policy(), Err(Reason::Ignored)),
        (
            "Ready again",
            NotReady,
            known(Ready::True, true),
            on("impaired=drain"),
            Err(Reason::Stale),
        ),
        (
            "Ready, and a check fails",
            StatusCheck,
            known(Ready::True, true),
            on("impaired=drain"),
            Ok(Response::Drain),
        ),
        (
            "the watch fails",
            NotReady,
            known(Ready::Unknown, false),
            on("impaired=drain"),
            Err(Reason::Stale),
        ),
        ("without a Node", StatusCheck, fresh(), on("impaired=drain"), Err(Reason::Stale)),
    ] {
        let sick = Impairment { symptom, since: now(), group: "asg".into() };
        match (verdict(&interruption(Cause::Impaired(sick)), &known, &policy), expected) {
            (Verdict::Accept(accept), Ok(response)) => {
                assert_eq!((accept.response, accept.certainty), (response, Certainty::Timely));
            }
            (Verdict::Delete(reason), Err(expected)) => assert_eq!(reason, expected, "{name}"),
            (verdict, expected) => panic!("{name}: {verdict:?}, not {expected:?}"),
        }
    }
}

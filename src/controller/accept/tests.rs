use super::*;

#[test]
fn of_several_nodes_that_claim_an_instance_one_with_an_open_record_counts() {
    use Accepted::{Full, Joined, New, Repeat};
    let (open, over) = (Repeat { open: true }, Repeat { open: false });
    for (one, other, expected) in [
        // The drain of the first node has ended, and the other node is to be drained now.
        (over, New, New),
        (over, Joined, Joined),
        (over, open, open),
        (over, over, over),
        (over, Full, over),
        (open, New, open),
        (New, over, New),
        (Joined, over, Joined),
        (Full, Joined, Full),
    ] {
        assert_eq!(one.and(other), expected, "{one:?} and {other:?}");
    }
}

#[test]
fn draining_is_said_only_of_a_node_that_is_drained() {
    for (is_paused, is_released, is_over, expected) in [
        (false, false, false, Outlook::Begins),
        (true, false, false, Outlook::Paused),
        (true, true, false, Outlook::Released),
        (false, true, true, Outlook::Over),
        (true, false, true, Outlook::Over),
    ] {
        let outlook = Outlook::of_facts(is_paused, is_released, is_over);
        assert_eq!(outlook, expected);
        let words = outlook.words(Response::Drain);
        assert_eq!(words.contains("draining"), expected == Outlook::Begins);
        for response in [Response::Prefer, Response::Cordon] {
            let words = outlook.words(response);
            assert!(!words.contains("draining"), "{words}");
            assert_eq!(words.contains("cordoned"), response.cordons(), "{words}");
        }
    }
}

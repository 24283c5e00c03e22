use super::*;

/// The end of the action in most tests: far away.
const END: i64 = 48 * 3600;

/// What is done after these answers, each asked and heard at a second, about an action that is over
/// by `end`.
fn next_until(end: i64, answers: &[(i64, Seen)]) -> Vec<Next> {
    let mut confirmation = Confirmation::default();
    answers.iter().map(|(n, seen)| confirmation.heard(*seen, at(*n), at(*n), at(end))).collect()
}

fn next_after(answers: &[(i64, Seen)]) -> Vec<Next> {
    next_until(END, answers)
}

#[test]
fn the_answer_that_an_instance_waits_permits_a_completion_for_a_minute() {
    assert_eq!(next_after(&[(0, Seen::Waiting)]), [Next::Complete]);
    let mut confirmation = Confirmation::default();
    assert!(!confirmation.is_good(at(0)));
    confirmation.heard(Seen::Waiting, at(0), at(1), at(END));
    assert!(confirmation.is_good(at(60)) && !confirmation.is_good(at(61)));
    confirmation.heard(Seen::NotWaiting, at(2), at(2), at(END));
    assert!(!confirmation.is_good(at(3)), "the last answer counts");
}

#[test]
fn an_instance_that_does_not_wait_is_asked_about_until_it_does() {
    let answers = [(0, Seen::NotWaiting), (15, Seen::NotWaiting), (30, Seen::Waiting)];
    assert_eq!(next_after(&answers), [Next::Prove(at(15)), Next::Ask(at(30)), Next::Complete]);
    let ever: Vec<_> = (0..1000).map(|n| (n * 15, Seen::NotWaiting)).collect();
    let is_question = |next: &Next| matches!(next, Next::Ask(_) | Next::Prove(_) | Next::Doubt(_));
    assert!(next_after(&ever).iter().all(is_question), "never on a guess");
}

#[test]
fn after_a_minute_the_doubt_is_reported_once_and_aws_is_asked_every_five_minutes() {
    let every_15_s = [0, 15, 30, 45, 60].map(|n| (n, Seen::NotWaiting));
    let first = [
        Next::Prove(at(15)),
        Next::Ask(at(30)),
        Next::Ask(at(45)),
        Next::Ask(at(60)),
        Next::Doubt(at(360)),
    ];
    assert_eq!(next_after(&every_15_s), first);
    for (later, next) in [
        (Seen::NotWaiting, Next::Ask(at(660))),
        // AWS's last answer stands, however long it is silent after that.
        (Seen::NoAnswer, Next::Ask(at(660))),
        (Seen::Forbidden, Next::CompleteUnconfirmed),
        (Seen::Waiting, Next::Complete),
    ] {
        let answers: Vec<_> = every_15_s.into_iter().chain([(360, later)]).collect();
        assert_eq!(next_after(&answers).last(), Some(&next), "{later:?}");
    }
    // An instance that waited in between is doubted anew.
    let answers: Vec<_> =
        every_15_s.into_iter().chain([(360, Seen::Waiting), (420, Seen::NotWaiting)]).collect();
    assert_eq!(next_after(&answers).last(), Some(&Next::Prove(at(435))));
}

#[test]
fn an_action_whose_end_has_passed_is_over_unless_its_instance_waits() {
    use Next::{Ask, Complete, Doubt, Over, Prove};
    use Seen::{Forbidden, NoAnswer, NotWaiting, Waiting};
    let doubted = [(0, NotWaiting), (60, NotWaiting)];
    for (before, at_the_end, expected) in [
        (&[][..], &[(100, NotWaiting)][..], &[Over][..]),
        (&[], &[(99, NotWaiting)], &[Prove(at(114))]),
        (&[], &[(100, Forbidden)], &[Over]),
        (&[], &[(100, Waiting)], &[Complete]),
        (
            &[],
            &[(100, NoAnswer), (129, NoAnswer), (130, NoAnswer)],
            &[Ask(at(102)), Ask(at(131)), Over],
        ),
        (&[], &[(100, NoAnswer), (102, NotWaiting)], &[Ask(at(102)), Over]),
        (&doubted, &[(99, NoAnswer)], &[Ask(at(399))]),
        (&doubted, &[(360, NotWaiting)], &[Over]),
        (&doubted, &[(360, NoAnswer)], &[Over]),
        (&doubted, &[(360, Forbidden)], &[Over]),
        (&doubted, &[(360, Waiting)], &[Complete]),
    ] {
        let answers: Vec<_> = before.iter().chain(at_the_end).copied().collect();
        let next = next_until(100, &answers);
        assert_eq!(&next[before.len()..], expected, "{answers:?}");
        if !before.is_empty() {
            assert_eq!(next[..2], [Prove(at(15)), Doubt(at(360))]);
        }
    }
}

#[test]
fn an_action_is_completed_unconfirmed_if_the_question_is_forbidden_or_has_no_answer_for_30_s() {
    assert_eq!(next_after(&[(0, Seen::Forbidden)]), [Next::CompleteUnconfirmed]);
    let silent =
        [(0, Seen::NoAnswer), (12, Seen::NoAnswer), (29, Seen::NoAnswer), (31, Seen::NoAnswer)];
    assert_eq!(
        next_after(&silent),
        [Next::Ask(at(2)), Next::Ask(at(14)), Next::Ask(at(31)), Next::CompleteUnconfirmed]
    );
    // An answer in between begins it anew.
    let answered = [(0, Seen::NoAnswer), (20, Seen::NotWaiting), (40, Seen::NoAnswer)];
    assert_eq!(next_after(&answered), [Next::Ask(at(2)), Next::Prove(at(35)), Next::Ask(at(42))]);
}

use super::*;

/// The end of the action in most tests: far away.
const END: i64 = 48 * 3600;

/// What is done after these answers, each asked and heard at a second, about an action that is over
/// by `end`.
fn told_until(end: i64, answers: &[(i64, Seen)]) -> Vec<Next> {
    let mut confirmation = Confirmation::default();
    answers.iter().map(|(n, seen)| confirmation.heard(*seen, at(*n), at(*n), at(end))).collect()
}

fn told(answers: &[(i64, Seen)]) -> Vec<Next> {
    told_until(END, answers)
}

#[test]
fn an_instance_that_waits_lets_its_action_be_completed_for_a_minute() {
    assert_eq!(told(&[(0, Seen::Waits)]), [Next::Complete]);
    let mut confirmation = Confirmation::default();
    assert!(!confirmation.is_good(at(0)));
    confirmation.heard(Seen::Waits, at(0), at(1), at(END));
    assert!(confirmation.is_good(at(60)) && !confirmation.is_good(at(61)));
    confirmation.heard(Seen::WaitsNot, at(2), at(2), at(END));
    assert!(!confirmation.is_good(at(3)), "the last answer counts");
}

#[test]
fn an_instance_that_does_not_wait_is_asked_about_until_it_does() {
    let answers = [(0, Seen::WaitsNot), (15, Seen::WaitsNot), (30, Seen::Waits)];
    assert_eq!(told(&answers), [Next::Prove(at(15)), Next::Ask(at(30)), Next::Complete]);
    let ever: Vec<_> = (0..1000).map(|n| (n * 15, Seen::WaitsNot)).collect();
    let is_question = |next: &Next| matches!(next, Next::Ask(_) | Next::Prove(_) | Next::Doubt(_));
    assert!(told(&ever).iter().all(is_question), "never on a guess");
}

#[test]
fn after_a_minute_the_doubt_is_reported_once_and_aws_is_asked_every_five_minutes() {
    let every_15_s = [0, 15, 30, 45, 60].map(|n| (n, Seen::WaitsNot));
    let first = [
        Next::Prove(at(15)),
        Next::Ask(at(30)),
        Next::Ask(at(45)),
        Next::Ask(at(60)),
        Next::Doubt(at(360)),
    ];
    assert_eq!(told(&every_15_s), first);
    for (later, next) in [
        (Seen::WaitsNot, Next::Ask(at(660))),
        // AWS's last answer stands, however long it is silent after that.
        (Seen::Nothing, Next::Ask(at(660))),
        (Seen::Forbidden, Next::CompleteUnseen),
        (Seen::Waits, Next::Complete),
    ] {
        let answers: Vec<_> = every_15_s.into_iter().chain([(360, later)]).collect();
        assert_eq!(told(&answers).last(), Some(&next), "{later:?}");
    }
    // An instance that waited in between is doubted anew.
    let answers: Vec<_> =
        every_15_s.into_iter().chain([(360, Seen::Waits), (420, Seen::WaitsNot)]).collect();
    assert_eq!(told(&answers).last(), Some(&Next::Prove(at(435))));
}

#[test]
fn an_action_whose_end_is_past_is_over_unless_its_instance_waits() {
    use Next::{Ask, Complete, Doubt, Over, Prove};
    use Seen::{Forbidden, Nothing, Waits, WaitsNot};
    let doubted = [(0, WaitsNot), (60, WaitsNot)];
    for (before, at_the_end, expected) in [
        (&[][..], &[(100, WaitsNot)][..], &[Over][..]),
        (&[], &[(99, WaitsNot)], &[Prove(at(114))]),
        (&[], &[(100, Forbidden)], &[Over]),
        (&[], &[(100, Waits)], &[Complete]),
        (
            &[],
            &[(100, Nothing), (129, Nothing), (130, Nothing)],
            &[Ask(at(102)), Ask(at(131)), Over],
        ),
        (&[], &[(100, Nothing), (102, WaitsNot)], &[Ask(at(102)), Over]),
        (&doubted, &[(99, Nothing)], &[Ask(at(399))]),
        (&doubted, &[(360, WaitsNot)], &[Over]),
        (&doubted, &[(360, Nothing)], &[Over]),
        (&doubted, &[(360, Forbidden)], &[Over]),
        (&doubted, &[(360, Waits)], &[Complete]),
    ] {
        let answers: Vec<_> = before.iter().chain(at_the_end).copied().collect();
        let next = told_until(100, &answers);
        assert_eq!(&next[before.len()..], expected, "{answers:?}");
        if !before.is_empty() {
            assert_eq!(next[..2], [Prove(at(15)), Doubt(at(360))]);
        }
    }
}

#[test]
fn where_nobody_may_ask_or_nobody_answers_for_half_a_minute_it_is_completed_unseen() {
    assert_eq!(told(&[(0, Seen::Forbidden)]), [Next::CompleteUnseen]);
    let silent =
        [(0, Seen::Nothing), (12, Seen::Nothing), (29, Seen::Nothing), (31, Seen::Nothing)];
    assert_eq!(
        told(&silent),
        [Next::Ask(at(2)), Next::Ask(at(14)), Next::Ask(at(31)), Next::CompleteUnseen]
    );
    // An answer in between begins it anew.
    let answered = [(0, Seen::Nothing), (20, Seen::WaitsNot), (40, Seen::Nothing)];
    assert_eq!(told(&answered), [Next::Ask(at(2)), Next::Prove(at(35)), Next::Ask(at(42))]);
}

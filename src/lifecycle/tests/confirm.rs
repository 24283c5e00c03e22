use super::*;

/// What is done after these answers, each asked and heard at a second.
fn told(answers: &[(i64, Seen)]) -> Vec<Next> {
    let mut confirmation = Confirmation::default();
    answers.iter().map(|(n, seen)| confirmation.heard(*seen, at(*n), at(*n))).collect()
}

#[test]
fn an_instance_that_waits_lets_its_action_be_completed_for_a_minute() {
    assert_eq!(told(&[(0, Seen::Waits)]), [Next::Complete]);
    let mut confirmation = Confirmation::default();
    assert!(!confirmation.is_good(at(0)));
    confirmation.heard(Seen::Waits, at(0), at(1));
    assert!(confirmation.is_good(at(60)) && !confirmation.is_good(at(61)));
    confirmation.heard(Seen::WaitsNot, at(2), at(2));
    assert!(!confirmation.is_good(at(3)), "the last answer counts");
}

#[test]
fn an_instance_that_does_not_wait_is_asked_about_until_it_does() {
    let answers = [(0, Seen::WaitsNot), (15, Seen::WaitsNot), (30, Seen::Waits)];
    assert_eq!(told(&answers), [Next::Ask(at(15)), Next::Ask(at(30)), Next::Complete]);
    let ever: Vec<_> = (0..1000).map(|n| (n * 15, Seen::WaitsNot)).collect();
    assert!(told(&ever).iter().all(|next| matches!(next, Next::Ask(_))), "never on a guess");
}

#[test]
fn where_nobody_may_ask_or_nobody_answers_for_half_a_minute_it_is_completed_unseen() {
    assert_eq!(told(&[(0, Seen::Forbidden)]), [Next::CompleteUnseen]);
    let silent = [(0, Seen::Nothing), (12, Seen::Nothing), (29, Seen::Nothing), (31, Seen::Nothing)];
    assert_eq!(told(&silent), [Next::Ask(at(2)), Next::Ask(at(14)), Next::Ask(at(31)), Next::CompleteUnseen]);
    // An answer in between begins it anew.
    let answered = [(0, Seen::Nothing), (20, Seen::WaitsNot), (40, Seen::Nothing)];
    assert_eq!(told(&answered), [Next::Ask(at(2)), Next::Ask(at(35)), Next::Ask(at(42))]);
}

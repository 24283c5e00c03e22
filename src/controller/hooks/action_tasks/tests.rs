use super::*;
use crate::{controller::hooks::tests::named, domain::seconds};

/// What happens to the tasks, with the name that the event carries.
type Then = fn(&mut ActionTasks, &LifecycleAction);

/// The orders to the task, without the names that it got.
fn orders(received: &mut mpsc::UnboundedReceiver<Order>) -> Vec<Order> {
    let all = std::iter::from_fn(|| received.try_recv().ok());
    all.filter(|order| !matches!(order, Order::AddName(..))).collect()
}

#[test]
fn between_two_terms_the_tasks_take_no_orders() {
    let mut tasks = ActionTasks::default();
    let (sender, mut received) = mpsc::unbounded_channel();
    tasks.begin(&named(None), Moment::UNIX_EPOCH, NamedBy::Record, sender);
    assert!(tasks.takes_orders());
    tasks.keep_heartbeats_only();
    assert!(!tasks.takes_orders());
    tasks.resume();
    assert!(tasks.takes_orders());
    let sent = orders(&mut received);
    assert!(matches!(sent[..], [Order::KeepHeartbeatsOnly, Order::Resume]));
}

#[test]
fn a_name_that_only_a_copy_of_the_event_brought_keeps_no_task_running() {
    let (found, event) = (named(None), named(Some("token")));
    for (name, then, ends) in [
        ("learned", (|tasks, event| tasks.add_name_of_copy(event, NamedBy::Message)) as Then, true),
        (
            "learned twice",
            |tasks, event| {
                tasks.add_name_of_copy(event, NamedBy::Message);
                tasks.add_name_of_copy(event, NamedBy::Message);
            },
            true,
        ),
        (
            "learned and then kept alive",
            |tasks, event| {
                tasks.add_name_of_copy(event, NamedBy::Message);
                assert!(tasks.add_name(event, NamedBy::Message).is_some());
            },
            false,
        ),
        (
            "kept alive and then disowned",
            |tasks, event| {
                assert!(tasks.add_name(event, NamedBy::Message).is_some());
                tasks.disown(event);
            },
            true,
        ),
    ] {
        let (sender, mut received) = mpsc::unbounded_channel();
        let mut tasks = ActionTasks::default();
        tasks.begin(&found, Moment::UNIX_EPOCH, NamedBy::Record, sender);
        then(&mut tasks, &event);
        assert!(tasks.has_task(&event) && tasks.has_open_action_of(&found.key), "{name}");
        tasks.forget(&found);
        let ended = matches!(orders(&mut received)[..], [Order::Forget]);
        assert_eq!(ended, ends, "{name}");
    }
}

#[test]
fn an_action_that_is_over_hides_no_other_one_of_its_hook_from_the_sweep() {
    let (made_up, mut tasks) = (named(Some("made-up")), ActionTasks::default());
    let (sender, _received) = mpsc::unbounded_channel();
    tasks.begin(&made_up, Moment::UNIX_EPOCH, NamedBy::Record, sender);
    assert!(tasks.has_open_action_of(&made_up.key));
    tasks.note_over(std::slice::from_ref(&made_up));
    assert!(tasks.has_task(&made_up), "the task remembers the end");
    assert!(!tasks.has_open_action_of(&made_up.key));
    assert!(tasks.add_name(&named(None), NamedBy::Message).is_none(), "it may be another action");
    assert!(tasks.add_name(&made_up, NamedBy::Message).is_some());
}

#[test]
fn an_action_is_over_once_aws_has_shown_another_one_of_its_hook_open() {
    let at = |second| Moment::UNIX_EPOCH.plus(seconds(second));
    let (old, new) = (named(Some("old")), named(Some("new")));
    let mut tasks = ActionTasks::default();
    let (sender, _old) = mpsc::unbounded_channel();
    tasks.begin(&old, at(0), NamedBy::Record, sender);
    let (sender, received) = mpsc::unbounded_channel();
    tasks.begin(&new, at(50), NamedBy::Record, sender);
    let is_over = |tasks: &ActionTasks| tasks.is_replaced(std::slice::from_ref(&old), at(0));
    assert!(!is_over(&tasks), "AWS has not shown it");
    tasks.note_open(&new, at(60));
    assert!(is_over(&tasks));
    assert!(!tasks.is_replaced(std::slice::from_ref(&old), at(61)), "its event is later");
    assert!(!tasks.is_replaced(&[named(None)], at(0)), "it may be the other one");
    assert!(!tasks.is_replaced(std::slice::from_ref(&new), at(0)), "it is the one that is open");
    let mut of_message = ActionTasks::default();
    let (sender, _of_message) = mpsc::unbounded_channel();
    of_message.begin(&new, at(50), NamedBy::Message, sender);
    of_message.note_open(&new, at(60));
    assert!(!is_over(&of_message), "its message may have been taken for that of the old one");
    tasks.resume();
    assert!(!is_over(&tasks), "an earlier term has seen that");
    tasks.note_open(&new, at(70));
    drop(received);
    assert!(!is_over(&tasks), "its task has ended");
}

#[test]
fn an_action_that_was_kept_alive_between_two_terms_is_known_once_the_new_term_names_it() {
    let (found, event) = (named(None), named(Some("token")));
    let (sender, _received) = mpsc::unbounded_channel();
    let mut tasks = ActionTasks::default();
    tasks.begin(&event, Moment::UNIX_EPOCH, NamedBy::Record, sender);
    assert!(tasks.has_open_action_of(&event.key));
    tasks.resume();
    assert!(!tasks.has_open_action_of(&event.key), "the sweep may find it: its event may be lost");
    assert!(tasks.add_name(&found, NamedBy::Message).is_some());
    assert!(tasks.has_open_action_of(&event.key));
    tasks.forget(&found);
    assert!(!tasks.has_open_action_of(&event.key), "the sweep had no answer, and asks again");
    assert!(tasks.add_name(&event, NamedBy::Message).is_some());
    assert!(tasks.has_open_action_of(&event.key));
}

#[test]
fn a_name_that_the_task_has_not_read_yet_is_not_over_with_the_others() {
    let (found, event) = (named(None), named(Some("token")));
    for (read, is_open) in
        [(vec![found.clone()], true), (vec![found.clone(), event.clone()], false)]
    {
        let mut tasks = ActionTasks::default();
        let (sender, _received) = mpsc::unbounded_channel();
        tasks.begin(&found, Moment::UNIX_EPOCH, NamedBy::Record, sender);
        assert!(tasks.add_name(&event, NamedBy::Message).is_some());
        tasks.note_over(&read);
        assert_eq!(tasks.has_open_action_of(&found.key), is_open);
        tasks.forget(&found);
        assert!(tasks.has_task(&event), "its message keeps the task running");
    }
}

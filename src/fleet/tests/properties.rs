//! What holds whatever happens, in whatever order.

use proptest::prelude::*;

use super::*;
use crate::record::tests::{hook, let_go, node, take_on};

#[derive(Debug, Clone, Copy)]
enum Happening {
    Accepted,
    Shown,
    RecordDeleted,
    Released,
    Deleted,
    Listed,
    Watched(bool),
    Paused(bool),
    Over,
    Passed(u8),
    Doubt(bool),
}

fn happenings() -> impl Strategy<Value = Vec<Happening>> {
    let one = prop_oneof![
        Just(Happening::Accepted),
        Just(Happening::Shown),
        Just(Happening::RecordDeleted),
        Just(Happening::Released),
        Just(Happening::Deleted),
        Just(Happening::Listed),
        any::<bool>().prop_map(Happening::Watched),
        any::<bool>().prop_map(Happening::Paused),
        Just(Happening::Over),
        any::<u8>().prop_map(Happening::Passed),
        any::<bool>().prop_map(Happening::Doubt),
    ];
    prop::collection::vec(one, 1..40)
}

fn perform(world: &mut World, happening: Happening) -> Vec<Effect> {
    let held = take_on(&node(), &hook("e1", 0, "drain", "t1"), 0).unwrap();
    let node = Arc::new(held.clone());
    world.now += 1;
    let input = match happening {
        Happening::Accepted => Input::Accepted { node, instance: id(INSTANCE), over: false },
        Happening::Shown => Input::NodeApplied(node),
        Happening::RecordDeleted => {
            let mut node = held;
            node.annotations.remove(crate::domain::RECORD);
            Input::NodeApplied(Arc::new(node))
        }
        Happening::Released => Input::NodeApplied(Arc::new(let_go(&held, 5))),
        Happening::Deleted => Input::NodeDeleted(node),
        Happening::Listed => Input::Pods(held.name, drain::Input::Listed(Vec::new())),
        Happening::Watched(open) => {
            let state = if open { drain::WatchState::Open } else { drain::WatchState::Blind };
            Input::Pods(held.name, drain::Input::Watch(state))
        }
        Happening::Paused(paused) => Input::PausedAll(paused),
        Happening::Over => Input::InstanceEnds { node: held.name, instance: id(INSTANCE), over: true },
        Happening::Passed(seconds) => {
            world.now += i64::from(seconds);
            Input::Tick
        }
        Happening::Doubt(counts) => Input::Doubt { node: held.name, uid: held.uid, counts },
    };
    world.step(input)
}

proptest! {
    /// Every drain that begins ends once, and a watch of pods is open exactly while it goes on.
    #[test]
    fn a_drain_that_begins_ends_once_and_is_completed(all in happenings()) {
        let mut world = World::confirmed();
        let mut is_watched = false;
        let (mut begun, mut completed) = (0, 0);
        for happening in all {
            for effect in perform(&mut world, happening) {
                match effect {
                    Effect::Report(_, event) => begun += usize::from(matches!(*event, DrainEvent::Began(_))),
                    Effect::WatchPods(_) => is_watched = true,
                    Effect::UnwatchPods(_) => is_watched = false,
                    Effect::Complete(completion) if completion.id.is_some() => completed += 1,
                    Effect::Send { .. } => prop_assert!(is_watched, "an order for a node that is not drained"),
                    _ => {}
                }
            }
            prop_assert!(completed <= begun, "{completed} ends of {begun} drains");
            prop_assert_eq!(is_watched, begun > completed, "{} begun, {} ended", begun, completed);
        }
        // An instance that is over ends whatever goes on still.
        for effect in perform(&mut world, Happening::Over) {
            completed += usize::from(matches!(effect, Effect::Complete(completion) if completion.id.is_some()));
        }
        prop_assert_eq!(begun, completed);
    }
}

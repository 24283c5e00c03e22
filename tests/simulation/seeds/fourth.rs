//! What a fourth stream of random numbers adds to a plan: Capacity Blocks that end, the
//! sweep and lost events.
//!
//! Each kind has dice of its own, so that a kind that is added here leaves the others as they are.

use super::{
    draw::{Dice, Stream},
    plan::{Act, Plan},
};

/// The first seed whose world has what the fourth stream draws.
pub const FIRST: u64 = 1_797_000_000_000;

const DICE: Stream = Stream { factor: 0xe703_7ed1_a0b4_28db, offset: 0x5a31_c000 };

pub(super) fn draw(plan: &mut Plan) {
    blocks(&mut Dice::of(plan, DICE, 1), plan);
    lost_events(&mut Dice::of(plan, DICE, 2), plan);
    plan.acts.sort_by_key(|(at, _)| *at);
}

/// The sweep runs, and in some worlds EventBridge loses events.
fn lost_events(d: &mut Dice, plan: &mut Plan) {
    if !d.chance(0.6) {
        return;
    }
    plan.flags.push(format!("--sweep-interval={}", d.one(&["30s", "1m"])));
    if d.chance(0.5) {
        let last = plan.acts.last().map_or(0, |(at, _)| *at);
        let seconds = d.one(&[20, 60, 200]);
        plan.acts.push((d.0.u64(..last + 10_000), Act::LoseEvents { seconds }));
    }
}

fn blocks(d: &mut Dice, plan: &mut Plan) {
    if d.chance(0.2) {
        for _ in 0..d.0.usize(1..3) {
            let last = plan.acts.last().map_or(0, |(at, _)| *at);
            let picks = (0..d.0.usize(0..4)).map(|_| d.0.usize(..1000)).collect();
            plan.acts.push((d.0.u64(..last + 20_000), Act::Block { picks }));
        }
    }
}

//! What a sixth stream of random numbers adds to a plan: groups that retain instances, and ABANDON
//! after failed drains.
//!
//! Each kind has dice of its own, so that a kind that is added here leaves the others as they are.

use super::{
    draw::{Dice, Stream},
    plan::Plan,
};

/// The first seed whose world has what the sixth stream draws.
pub const FIRST: u64 = 1_799_000_000_000;

const DICE: Stream = Stream { factor: 0xd6e8_feb8_6659_fd93, offset: 0x7c14_5000 };

pub(super) fn draw(plan: &mut Plan) {
    results(&mut Dice::of(plan, DICE, 1), plan);
}

/// Some groups retain instances whose terminate hook is abandoned, whatever the flag says.
fn results(d: &mut Dice, plan: &mut Plan) {
    for group in &mut plan.groups {
        group.retains = d.chance(0.4);
    }
    if d.chance(0.6) {
        plan.flags.push(format!("--hook-result-on-failure={}", d.one(&["abandon", "continue"])));
    }
}

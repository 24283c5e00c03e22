//! What a ninth stream of random numbers adds to a plan: `--maintenance-condition`, in most of the
//! worlds with scheduled changes.

use super::{
    draw::{Dice, Stream},
    plan::{Act, Plan},
};

/// The first seed whose world has what the ninth stream draws.
pub const FIRST: u64 = 1_802_000_000_000;

const DICE: Stream = Stream { factor: 0xd1b5_4a32_d192_ed03, offset: 0x91d9_3000 };

pub(super) fn draw(plan: &mut Plan) {
    let mut d = Dice::of(plan, DICE, 1);
    let has_changes = plan.acts.iter().any(|(_, act)| matches!(act, Act::Change { .. }));
    if has_changes && d.chance(0.8) {
        plan.flags.push("--maintenance-condition".to_owned());
    }
}

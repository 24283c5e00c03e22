//! What a tenth stream of random numbers adds to a plan: `--delete-node`, `--out-of-service-taint`,
//! and clusters without a cloud controller manager, in which nobody else deletes Nodes.

use super::{
    draw::{Dice, Stream},
    plan::{CloudController, Plan},
};

/// The first seed whose world has what the tenth stream draws.
pub const FIRST: u64 = 1_803_000_000_000;

const DICE: Stream = Stream { factor: 0xe703_7ed1_a0b4_28db, offset: 0x91d7_4000 };

pub(super) fn draw(plan: &mut Plan) {
    let mut d = Dice::of(plan, DICE, 1);
    for flag in ["--delete-node", "--out-of-service-taint"] {
        if d.chance(0.4) {
            plan.flags.push(flag.to_owned());
        }
    }
    if d.chance(0.6) {
        plan.cloud_controller = CloudController::Missing;
    }
}

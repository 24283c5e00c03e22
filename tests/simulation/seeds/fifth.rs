//! What a fifth stream of random numbers adds to a plan: responses to kinds of interruptions.
//!
//! Each kind has dice of its own, so that a kind that is added here leaves the others as they are.

use super::{
    draw::{Dice, Stream},
    plan::Plan,
};

/// The first seed whose world has what the fifth stream draws.
pub const FIRST: u64 = 1_798_000_000_000;

const DICE: Stream = Stream { factor: 0x8ebc_6af0_9c88_c6e3, offset: 0x2b67_e000 };

pub(super) fn draw(plan: &mut Plan) {
    responses(&mut Dice::of(plan, DICE, 1), plan);
}

/// `--on`, of one to three kinds.
fn responses(d: &mut Dice, plan: &mut Plan) {
    const ALL: [&str; 4] = ["drain", "cordon", "prefer", "ignore"];
    const OF_HOOKS: [&str; 3] = ["drain", "cordon", "ignore"];
    const KINDS: [(&str, &[&str]); 9] = [
        ("terminate-hook", &OF_HOOKS),
        ("root-volume", &OF_HOOKS),
        ("spot", &ALL),
        ("spot-stop", &ALL),
        ("spot-hibernate", &ALL),
        ("capacity-reservation", &ALL),
        ("capacity-block", &ALL),
        ("rebalance", &ALL),
        ("state-change", &ALL),
    ];
    if !d.chance(0.35) {
        return;
    }
    let mut kinds = KINDS.to_vec();
    d.0.shuffle(&mut kinds);
    kinds.truncate(d.0.usize(1..4));
    for (kind, responses) in kinds {
        plan.flags.push(format!("--on={kind}={}", d.one(responses)));
        if kind == "rebalance" && d.chance(0.5) {
            plan.flags.push(format!("--rebalance-ttl={}", d.one(&["1m", "3m"])));
        }
    }
}

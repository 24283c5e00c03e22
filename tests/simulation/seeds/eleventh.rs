//! What an eleventh stream of random numbers adds to a plan: instances that get a new root volume,
//! and instances that go back into a running warm pool and leave it again.
//!
//! Each kind has dice of its own, so that a kind that is added here leaves the others as they are.

use super::{
    draw::{Dice, Stream},
    plan::{Act, Plan},
};

/// The first seed whose world has what the eleventh stream draws.
pub const FIRST: u64 = 1_804_000_000_000;

const DICE: Stream = Stream { factor: 0xc2b2_ae3d_27d4_eb4f, offset: 0x91e7_5000 };

pub(super) fn draw(plan: &mut Plan) {
    let mut volumes = Dice::of(plan, DICE, 1);
    if volumes.chance(0.3) {
        for _ in 0..volumes.0.usize(1..3) {
            let act = Act::RootVolume { pick: volumes.0.usize(..1000) };
            add(&mut volumes, plan, act);
        }
    }
    let mut pools = Dice::of(plan, DICE, 2);
    if pools.chance(0.3) {
        for _ in 0..pools.0.usize(1..3) {
            let (pick, with_event) = (pools.0.usize(..1000), pools.chance(0.5));
            let act = Act::IntoPool { pick, seconds: pools.one(&[30, 120, 300]), with_event };
            add(&mut pools, plan, act);
        }
    }
    plan.acts.sort_by_key(|(at, _)| *at);
}

fn add(d: &mut Dice, plan: &mut Plan, act: Act) {
    let last = plan.acts.last().map_or(0, |(at, _)| *at);
    plan.acts.push((d.0.u64(..last + 20_000), act));
}

//! What an eighth stream of random numbers adds to a plan: sick instances, which are drained.
//!
//! Each kind has dice of its own, so that a kind that is added here leaves the others as they are.

use super::{
    draw::{Dice, Stream},
    plan::{Act, Plan},
};

/// The first seed whose world has what the eighth stream draws.
pub const FIRST: u64 = 1_801_000_000_000;

const DICE: Stream = Stream { factor: 0x9fb2_1c65_1e98_df25, offset: 0x91e1_3000 };

pub(super) fn draw(plan: &mut Plan) {
    sick(&mut Dice::of(plan, DICE, 1), plan);
    plan.acts.sort_by_key(|(at, _)| *at);
}

/// In most worlds with a sweep, status checks fail, for a while or for good, and Sundown drains what
/// is sick for two minutes.
fn sick(d: &mut Dice, plan: &mut Plan) {
    let has_sweep = plan.flags.iter().any(|flag| flag.starts_with("--sweep-interval"));
    if !has_sweep || !d.chance(0.7) {
        return;
    }
    plan.flags.push("--on=impaired=drain".to_owned());
    plan.flags.push(format!("--impaired-after={}", d.one(&["2m", "3m"])));
    if d.chance(0.5) {
        plan.flags.push("--then=impaired=unhealthy".to_owned());
    }
    if d.chance(0.3) {
        plan.flags.push("--max-impaired=1".to_owned());
    }
    for _ in 0..d.0.usize(1..4) {
        let last = plan.acts.last().map_or(0, |(at, _)| *at);
        let (pick, seconds) = (d.0.usize(..1000), d.one(&[100, 200, 400, 100_000]));
        plan.acts.push((d.0.u64(..last + 10_000), Act::FailCheck { pick, seconds }));
    }
}

//! What a seventh stream of random numbers adds to a plan: evictions that wait, and changes that
//! AWS Health announces.
//!
//! Each kind has dice of its own, so that a kind that is added here leaves the others as they are.

use super::{
    draw::{Dice, Stream},
    plan::{Act, ChangeEnd, Plan},
};

/// The first seed whose world has what the seventh stream draws.
pub const FIRST: u64 = 1_800_000_000_000;

/// The instance retires.
pub const RETIREMENT: &str = "AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED";

const DICE: Stream = Stream { factor: 0xa24b_aed4_963e_e407, offset: 0x91d6_3000 };

pub(super) fn draw(plan: &mut Plan) {
    evict_after(&mut Dice::of(plan, DICE, 1), plan);
    changes(&mut Dice::of(plan, DICE, 2), plan);
    plan.acts.sort_by_key(|(at, _)| *at);
}

/// `--evict-after`. Only drains of five minutes or more wait.
fn evict_after(d: &mut Dice, plan: &mut Plan) {
    for kind in ["terminate-hook", "rebalance"] {
        if d.chance(0.4) {
            let when = d.one(&["20s", "1m", "2m", "replacement-ready"]);
            plan.flags.push(format!("--evict-after={kind}={when}"));
        }
    }
}

/// Scheduled changes that happen, are canceled or are moved.
fn changes(d: &mut Dice, plan: &mut Plan) {
    if !d.chance(0.4) {
        return;
    }
    plan.flags.push(format!("--scheduled-lead={}", d.one(&["1m", "3m", "10m"])));
    for _ in 0..d.0.usize(1..4) {
        let last = plan.acts.last().map_or(0, |(at, _)| *at);
        let starts = d.one(&[60_u64, 180, 400, 900]);
        let after = d.0.u64(1..starts);
        let end = match d.0.u8(..4) {
            0 => ChangeEnd::Canceled { after },
            1 => ChangeEnd::Moved { after, by: d.one(&[60, 300, 900]) },
            _ => ChangeEnd::Happens,
        };
        let change = Act::Change { pick: d.0.usize(..1000), starts, end, code: RETIREMENT };
        plan.acts.push((d.0.u64(..last + 20_000), change));
    }
}

//! What a twelfth stream of random numbers adds to a plan: events that somebody makes up, scheduled
//! changes other than retirements, `--scheduled-window`, nodes that a person keeps cordoned, and
//! launch flags.
//!
//! Each kind has its own dice, so a new kind does not change the draws of the others.

use super::{
    draw::{Dice, Stream},
    plan::{Act, ChangeEnd, Plan},
};

/// The first seed whose world has what the twelfth stream draws.
pub const FIRST: u64 = 1_805_000_000_000;

/// Codes of AWS Health: a reboot, a power interruption, a network interruption, and degraded
/// hardware.
const CODES: [&str; 4] = [
    "AWS_EC2_SYSTEM_REBOOT_MAINTENANCE_SCHEDULED",
    "AWS_EC2_INSTANCE_POWER_MAINTENANCE_SCHEDULED",
    "AWS_EC2_INSTANCE_NETWORK_MAINTENANCE_SCHEDULED",
    "AWS_EC2_INSTANCE_HARDWARE_DEGRADED",
];

const DICE: Stream = Stream { factor: 0xd6e8_feb8_6659_fd93, offset: 0x91e8_6000 };

pub(super) fn draw(plan: &mut Plan) {
    made_up(&mut Dice::of(plan, DICE, 1), plan);
    scheduled_changes(&mut Dice::of(plan, DICE, 2), plan);
    kept_cordoned(&mut Dice::of(plan, DICE, 3), plan);
    launch_flags(&mut Dice::of(plan, DICE, 4), plan);
    plan.acts.sort_by_key(|(at, _)| *at);
}

fn made_up(d: &mut Dice, plan: &mut Plan) {
    if d.chance(0.3) {
        for _ in 0..d.0.usize(1..3) {
            let act = Act::MadeUp { pick: d.0.usize(..1000) };
            add(d, plan, act);
        }
    }
}

/// A change with another code, and for all changes perhaps a window that opens soon after the world
/// begins (on a Monday, at 09:00).
fn scheduled_changes(d: &mut Dice, plan: &mut Plan) {
    if d.chance(0.4) {
        let code = d.one(&CODES);
        let starts = if code.contains("DEGRADED") { 1 } else { d.one(&[60, 180, 400, 900]) };
        let end = match d.0.u8(..4) {
            0 if starts > 1 => ChangeEnd::Canceled { after: d.0.u64(1..starts) },
            _ => ChangeEnd::Happens,
        };
        let act = Act::Change { pick: d.0.usize(..1000), starts, end, code };
        add(d, plan, act);
    }
    let has_changes = plan.acts.iter().any(|(_, act)| matches!(act, Act::Change { .. }));
    if has_changes && d.chance(0.3) {
        let window = d.one(&["Mon 09:05-09:10 UTC", "Mon 09:00-12:00 UTC", "Sat 02:00-06:00 UTC"]);
        plan.flags.push(format!("--scheduled-window={window}"));
    }
}

fn kept_cordoned(d: &mut Dice, plan: &mut Plan) {
    if d.chance(0.2) {
        let act = Act::KeepCordoned { pick: d.0.usize(..1000), seconds: d.one(&[30, 200, 600]) };
        add(d, plan, act);
    }
}

fn launch_flags(d: &mut Dice, plan: &mut Plan) {
    if !plan.groups.iter().any(|group| group.launch_hook) {
        return;
    }
    if d.chance(0.5) {
        plan.flags.push(format!("--launch-timeout={}", d.one(&["30s", "2m", "8m"])));
    }
    // `--launch-on-timeout=abandon` is not drawn: while a node never becomes ready, its group
    // launches and abandons one instance after the other, and the life does not end. The draw stays,
    // so that the draws after it keep their values.
    d.chance(0.3);
    if d.chance(0.3) {
        plan.flags.push("--launch-daemonset=load/daemon".to_owned());
    }
    if d.chance(0.2) {
        plan.flags.push("--launch-startup-taint=example.com/starting".to_owned());
    }
}

fn add(d: &mut Dice, plan: &mut Plan, act: Act) {
    let last = plan.acts.last().map_or(0, |(at, _)| *at);
    plan.acts.push((d.0.u64(..last + 20_000), act));
}

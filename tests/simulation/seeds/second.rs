//! What a second stream of random numbers adds to a plan.
//!
//! The first stream ([`draw`](super::draw)) decides the lives of small seeds for ever: these are
//! the fixed ones, and those that once failed. What is new is drawn here, for larger seeds alone.

use super::{
    draw::{Dice, kube_fault, requests},
    plan::{Act, Loose, Plan, Webhook},
};

/// The first seed whose world has what the second stream draws.
pub const FIRST: u64 = 1_000_000;

pub(super) fn draw(plan: &mut Plan) {
    let mut d =
        Dice(fastrand::Rng::with_seed(plan.seed.wrapping_mul(0xd134_2543_de82_ef95) ^ 0x5ec0_0d57));
    if d.chance(0.25) {
        plan.replicas = 3;
    }
    if d.chance(0.2) {
        plan.partial = 0.5;
    }
    if d.chance(0.2) {
        plan.clocks = (0..plan.replicas).map(|_| d.one(&[-3_000, -40, 0, 25, 90])).collect();
    }
    if d.chance(0.15) {
        // The third stream draws Nodes that claim one instance. These numbers are drawn so that the
        // worlds of known seeds stay as they are.
        let _claimed_twice: Vec<usize> = (0..d.0.usize(1..3)).map(|_| d.0.usize(..100)).collect();
    }
    plan.on_nodes = d.chance(0.15);
    hooks(&mut d, plan);
    for _ in 0..d.one(&[0, 0, 0, 1, 3]) {
        plan.loose.push((d.0.usize(..100), Loose::ComesBack));
    }
    flags(&mut d, plan);
    acts(&mut d, plan);
}

/// One more hook.
fn hooks(d: &mut Dice, plan: &mut Plan) {
    for group in &mut plan.groups {
        if d.chance(0.1) {
            group.hooks.push(("log-backup".to_owned(), d.one(&[30, 90])));
        }
    }
}

fn flags(d: &mut Dice, plan: &mut Plan) {
    let mut flag = |chance: f64, name: &str, values: &[&str]| {
        if d.chance(chance) {
            let value = d.one(values);
            let equals = if value.is_empty() { "" } else { "=" };
            plan.flags.push(format!("--{name}{equals}{value}"));
        }
    };
    flag(0.1, "max-pollers", &["1", "2"]);
    flag(0.1, "max-held", &["10"]);
    flag(0.1, "max-evictions", &["8"]);
    flag(0.1, "max-evictions-per-budget", &["1"]);
    flag(0.1, "compat", &["nth"]);
    flag(0.1, "disruption-target", &[""]);
    flag(0.1, "pod-events", &["all"]);
    flag(0.1, "join-timeout", &["10s", "2m"]);
    if d.chance(0.1) {
        let short = ["--lease-duration=9s", "--lease-renew-deadline=4s", "--lease-retry=1s"];
        plan.flags.extend(short.map(str::to_owned));
    }
}

fn acts(d: &mut Dice, plan: &mut Plan) {
    // Most of the time in the minutes in which the acts of the first stream happen.
    let last = plan.acts.last().map_or(0, |(at, _)| *at);
    let span = if d.chance(0.8) { last + 10_000 } else { last + 120_000 };
    for _ in 0..d.one(&[0, 0, 1, 1, 2, 4]) {
        let act = act(d, plan);
        plan.acts.push((d.0.u64(..span), act));
    }
    plan.acts.sort_by_key(|(at, _)| *at);
}

fn act(d: &mut Dice, plan: &Plan) -> Act {
    let replica = d.0.usize(..plan.replicas);
    let pick = |d: &mut Dice| d.0.usize(..1000);
    match d.0.u8(..17) {
        0 | 1 => {
            let (aws, kube) = d.one(&[(true, false), (false, true), (true, true)]);
            Act::Partition { replica, aws, kube, seconds: d.one(&[5, 20, 60, 150]) }
        }
        2 => Act::SilentWatch {
            replica,
            resource: d.one(&["nodes", "pods", "poddisruptionbudgets"]),
        },
        3 => {
            let (matching, fault) = (requests(d), kube_fault(d));
            Act::KubeOfOne {
                replica,
                matching,
                fault,
                share: d.one(&[0.5, 1.0]),
                seconds: d.one(&[10, 60]),
            }
        }
        4..=6 => {
            let all = [
                Webhook::Denies,
                Webhook::Busy,
                Webhook::Unreachable,
                Webhook::Intercepts,
                Webhook::Hangs,
            ];
            let load = d.chance(0.7).then(|| d.0.usize(..plan.loads.len()));
            Act::Webhook { answer: d.one(&all), load, seconds: d.one(&[20, 120, 900]) }
        }
        7 => {
            let picks = (0..d.0.usize(1..6)).map(|_| pick(d)).collect();
            Act::EvictionConflicts { picks, times: d.one(&[1, 3, 25]), unready: d.chance(0.3) }
        }
        8 => Act::FreezeScheduler { seconds: d.one(&[30, 200]) },
        9 => Act::InvalidTokens { seconds: d.one(&[30, 200]) },
        10 | 11 => Act::Relabel { pick: pick(d), seconds: d.one(&[30, 200]) },
        12 | 13 => {
            Act::Large { pick: pick(d), kib: d.one(&[100, 250, 1000]), notice: d.chance(0.5) }
        }
        14 => Act::OthersComplete,
        15 => Act::Health { pick: pick(d) },
        // SQS makes no queue of this name sooner.
        _ => Act::DeleteQueue { seconds: d.one(&[61, 90, 180]) },
    }
}

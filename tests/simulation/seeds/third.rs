//! What a third stream of random numbers adds to a plan: wrong clocks, hooks and Nodes that
//! mislead, and flags that change decisions.
//!
//! Each kind has dice of its own, so that a kind that is added here leaves the others as they are.

use super::{
    draw::{Dice, Stream},
    plan::{Act, Plan},
};
use crate::{harness::NO_CLUSTER_NAME, judge::Belongs};

/// The first seed whose world has what the third stream draws.
pub const FIRST: u64 = 1_796_000_000_000;

/// A label that a `--node-selector` leaves out.
const LEFT_OUT: (&str, &str) = ("example.com/left-alone", "true");
/// A tag that a `--managed-tag` asks for.
const MANAGED: &str = "example.com/sundown";

const DICE: Stream = Stream { factor: 0xa076_1d64_78bd_642f, offset: 0x7419_d000 };

pub(super) fn draw(plan: &mut Plan) {
    aws_clock(&mut Dice::of(plan, DICE, 1), plan);
    claims(&mut Dice::of(plan, DICE, 2), plan);
    made_up_hooks(&mut Dice::of(plan, DICE, 3), plan);
    named_hooks(&mut Dice::of(plan, DICE, 4), plan);
    drain_flags(&mut Dice::of(plan, DICE, 5), plan);
    hook_flags(&mut Dice::of(plan, DICE, 6), plan);
    node_flags(&mut Dice::of(plan, DICE, 7), plan);
    tests(&mut Dice::of(plan, DICE, 8), plan);
    no_cluster_name(&mut Dice::of(plan, DICE, 9), plan);
    shared_queue(&mut Dice::of(plan, DICE, 10), plan);
    dry_run(&mut Dice::of(plan, DICE, 11), plan);
    plan.acts.sort_by_key(|(at, _)| *at);
}

fn aws_clock(d: &mut Dice, plan: &mut Plan) {
    if d.chance(0.2) {
        plan.aws_clock = d.one(&[-600, -60, -15, 15, 60, 600]);
    }
}

/// Two Nodes that claim one instance.
fn claims(d: &mut Dice, plan: &mut Plan) {
    if d.chance(0.15) {
        plan.claimed_twice = (0..d.0.usize(1..3)).map(|_| d.0.usize(..100)).collect();
    }
}

/// A random moment, at most 20 s after the last of the other acts, in milliseconds.
fn some_time(d: &mut Dice, plan: &Plan) -> u64 {
    let last = plan.acts.last().map_or(0, |(at, _)| *at);
    d.0.u64(..last + 20_000)
}

fn made_up_hooks(d: &mut Dice, plan: &mut Plan) {
    if d.chance(0.15) {
        for _ in 0..d.0.usize(1..3) {
            let at = some_time(d, plan);
            plan.acts
                .push((at, Act::MadeUpHook { pick: d.0.usize(..1000), own_group: d.chance(0.5) }));
        }
    }
}

/// A hook named `sundown-...` beside other ones: only that one is Sundown's.
fn named_hooks(d: &mut Dice, plan: &mut Plan) {
    for group in plan.groups.iter_mut().filter(|g| g.belongs == Belongs::Us) {
        if d.chance(0.15) {
            group.hooks.push(("sundown-terminate".to_owned(), d.one(&[30, 60, 120])));
        }
    }
}

/// Flags that say when pods are forced, and when a drain ends.
fn drain_flags(d: &mut Dice, plan: &mut Plan) {
    for (name, values) in [
        ("deadline-margin", &["0s", "2s", "20s", "60s"][..]),
        ("spot-deadline-margin", &["0s", "5s", "30s", "60s"]),
        ("force-after", &["never", "deadline", "0", "0.2", "0.9"]),
        ("min-drain-time", &["0s", "1s", "15s", "45s"]),
    ] {
        if d.chance(0.15) {
            plan.flags.push(format!("--{name}={}", d.one(values)));
        }
    }
}

/// Flags that name the hooks that are Sundown's.
fn hook_flags(d: &mut Dice, plan: &mut Plan) {
    if d.chance(0.12) {
        let names = d.one(&[
            &["drain"][..],
            &["drain*"],
            &["d?ain"],
            &["sundown-*", "drain-too"],
            &["drain", "Terminate-LC-Hook"],
            &["*"],
        ]);
        // Each instance of a group whose launch hook nobody answers is terminated, and replaced.
        let launch = plan.groups.iter().any(|g| g.launch_hook).then_some(&"greet");
        plan.flags
            .extend(names.iter().chain(launch).map(|name| format!("--lifecycle-hook={name}")));
    }
}

/// Flags that say whose Nodes are Sundown's.
fn node_flags(d: &mut Dice, plan: &mut Plan) {
    if d.chance(0.12) {
        // Both replace the default, which leaves Karpenter's Nodes alone.
        for group in plan.groups.iter_mut().filter(|g| g.belongs == Belongs::Karpenter) {
            (group.belongs, group.label) =
                (Belongs::Us, Some(("karpenter.sh/nodepool", "default")));
        }
        let selector = d.one(&["kubernetes.io/os".to_owned(), format!("!{}", LEFT_OUT.0)]);
        if selector.starts_with('!') {
            let pick = d.0.usize(..3);
            if let Some(group) = plan
                .groups
                .iter_mut()
                .filter(|g| g.belongs == Belongs::Us && g.label.is_none())
                .nth(pick)
            {
                // A Node that registers later would lack the label.
                (group.belongs, group.label, group.replaces) =
                    (Belongs::LeftOut, Some(LEFT_OUT), false);
            }
        }
        plan.flags.push(format!("--node-selector={selector}"));
    }
    if d.chance(0.12) {
        for group in plan.groups.iter_mut().filter(|g| g.belongs == Belongs::Us) {
            if d.chance(0.8) {
                group.tag = Some(MANAGED);
            } else {
                (group.belongs, group.replaces) = (Belongs::Untagged, false);
            }
        }
        plan.flags.push(format!("--managed-tag={MANAGED}"));
    }
}

/// Test events, which are acted on where a flag says so.
fn tests(d: &mut Dice, plan: &mut Plan) {
    if d.chance(0.15) {
        if d.chance(0.7) {
            plan.flags.push(format!("--accept-real-tests={}", d.one(&["1m", "10m"])));
        }
        for _ in 0..d.0.usize(1..4) {
            let at = some_time(d, plan);
            plan.acts.push((
                at,
                Act::Test {
                    pick: d.0.usize(..1000),
                    is_real: d.chance(0.7),
                    is_spot: d.chance(0.7),
                },
            ));
        }
    }
}

/// Without a name of the cluster, nobody knows whose an instance without a Node is.
fn no_cluster_name(d: &mut Dice, plan: &mut Plan) {
    if d.chance(0.1) {
        // Launch hooks are not acted on then, and each instance whose launch hook nobody answers is
        // terminated, and replaced.
        plan.groups.iter_mut().for_each(|group| group.launch_hook = false);
        plan.flags.push(NO_CLUSTER_NAME.to_owned());
    }
}

/// Other clusters receive from the queue, too.
fn shared_queue(d: &mut Dice, plan: &mut Plan) {
    if d.chance(0.1) {
        plan.flags.push("--shared-queue".to_owned());
    }
}

/// Nothing is written.
fn dry_run(d: &mut Dice, plan: &mut Plan) {
    if d.chance(0.03) {
        plan.groups.iter_mut().for_each(|group| group.launch_hook = false);
        plan.flags.push("--dry-run".to_owned());
    }
}

//! What a fourteenth stream of random numbers adds to a plan: what pods, rules, flags and people ask
//! of a drain. The order of the pods, DaemonSets that are drained, rules of the administrator, pods
//! that wait or stay, volumes, limits on drains at once, control-plane nodes, conditions, gates, and
//! drains that a person forces or holds.

use super::{
    draw::{Dice, Stream},
    plan::{Act, Budget, Load, LoadKind, Plan, Single, Volume},
};
use crate::judge::traits::{CRITICAL, Traits, Wish};

/// The first seed whose world has what the fourteenth stream draws.
pub const FIRST: u64 = 1_807_000_000_000;

const DICE: Stream = Stream { factor: 0x94d0_49bb_1331_11eb, offset: 0x3c6e_f000 };

/// Keys of other tools by which pods ask for something.
const KEYS: [&str; 3] = [
    "cluster.x-k8s.io/drain",
    "karpenter.sh/do-not-disrupt",
    "cluster-autoscaler.kubernetes.io/safe-to-evict",
];
const OWN: &str = "sundown.dev/drain";

/// Gates: two names of each kind.
const GATES: [&str; 4] = [
    "pre-drain.sundown.dev/backup",
    "pre-drain.sundown.dev/snapshot",
    "pre-release.sundown.dev/logs",
    "pre-release.sundown.dev/copy",
];

pub(super) fn draw(plan: &mut Plan) {
    longer(&mut Dice::of(plan, DICE, 1), plan);
    order(&mut Dice::of(plan, DICE, 2), plan);
    daemons(&mut Dice::of(plan, DICE, 3), plan);
    rules(&mut Dice::of(plan, DICE, 4), plan);
    honored(&mut Dice::of(plan, DICE, 5), plan);
    traits_of_loads(&mut Dice::of(plan, DICE, 6), plan);
    singles(&mut Dice::of(plan, DICE, 7), plan);
    volumes(&mut Dice::of(plan, DICE, 8), plan);
    pace(&mut Dice::of(plan, DICE, 9), plan);
    conditions(&mut Dice::of(plan, DICE, 10), plan);
    gates(&mut Dice::of(plan, DICE, 11), plan);
    people(&mut Dice::of(plan, DICE, 12), plan);
    plan.acts.sort_by_key(|(at, _)| *at);
}

/// Nothing waits in a drain of five minutes.
fn longer(d: &mut Dice, plan: &mut Plan) {
    if d.chance(0.6) {
        plan.drain_timeout = d.one(&[400, 600, 900, 1200]);
        let flag = format!("--drain-timeout={}s", plan.drain_timeout);
        plan.flags.retain(|flag| !flag.starts_with("--drain-timeout="));
        plan.flags.insert(0, flag);
    }
}

fn order(d: &mut Dice, plan: &mut Plan) {
    if d.chance(0.6) {
        let order = d.one(&["critical-last", "priority:0,1000,2000000000", "together"]);
        plan.flags.push(format!("--pod-order={order}"));
    }
}

/// A DaemonSet that `--drain-daemonset` names, or one that it does not.
fn daemons(d: &mut Dice, plan: &mut Plan) {
    if !d.chance(0.5) {
        return;
    }
    let is_drained = d.chance(0.7);
    // What a pod is, its name says.
    let name = if is_drained { "shipper" } else { "agent-daemon" };
    let (grace, stop) = (d.one(&[5, 30, 90]), d.one(&[1, 5, 20]));
    plan.loads.push(load(name, LoadKind::Daemon, 0, grace, stop));
    let priority = if d.chance(0.3) { CRITICAL } else { 0 };
    let traits = Traits { priority, is_drained_daemon: is_drained, ..Traits::default() };
    plan.drain.traits.push((name.to_owned(), Traits { owner: "DaemonSet", ..traits }));
    if is_drained {
        plan.flags.push("--drain-daemonset=load/shipper".to_owned());
    }
}

fn rules(d: &mut Dice, plan: &mut Plan) {
    if d.chance(0.4) {
        let name = d.one(&["orders", "limits", "all"]);
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/simulation/seeds/rules");
        plan.flags.push(format!("--rules-file={folder}/{name}.yaml"));
    }
}

fn honored(d: &mut Dice, plan: &mut Plan) {
    for key in KEYS {
        if d.chance(0.4) {
            plan.flags.push(format!("--honor={key}"));
        }
    }
}

/// Priorities and annotations of workloads.
fn traits_of_loads(d: &mut Dice, plan: &mut Plan) {
    if d.chance(0.2) {
        let budgets = vec![Budget::Max(1.into())];
        let skipped = load("skipped-load", LoadKind::Deployment, 3, 30, 5);
        plan.loads.push(Load { budgets, ..skipped });
        let annotations = vec![(OWN, "skip")];
        plan.drain.traits.push((
            "skipped-load".to_owned(),
            Traits { annotations, owner: "ReplicaSet", ..Traits::default() },
        ));
    }
    for load in plan.loads.iter().filter(|load| load.name.starts_with("load-")) {
        let owner = match load.kind {
            LoadKind::Deployment => "ReplicaSet",
            LoadKind::StatefulSet => "StatefulSet",
            LoadKind::Daemon => "DaemonSet",
            LoadKind::Job => "Job",
        };
        let mut traits = Traits { owner, ..Traits::default() };
        if d.chance(0.3) {
            traits.priority = d.one(&[1000, CRITICAL]);
        }
        if d.chance(0.2) {
            traits.annotations.push((OWN, d.one(&["wait", "last", "last", "later"])));
        } else if d.chance(0.1) {
            traits.annotations.push((KEYS[2], "false"));
        }
        plan.drain.traits.push((load.name.clone(), traits));
    }
}

fn load(name: &str, kind: LoadKind, replicas: usize, grace: u64, stop: u64) -> Load {
    Load {
        name: name.to_owned(),
        kind,
        replicas,
        grace,
        stop,
        ready: 1,
        budgets: Vec::new(),
        unhealthy_always: false,
        never_ready: false,
    }
}

/// Single pods on a few nodes, several on each.
fn singles(d: &mut Dice, plan: &mut Plan) {
    if !d.chance(0.8) {
        return;
    }
    let terms = plan.terms();
    for n in 0..d.0.usize(4..18) {
        let mut traits = Traits::default();
        let mut runs_for = None;
        let kind = match d.0.u8(..8) {
            0 | 1 => {
                traits.priority = d.one(&[1000, CRITICAL, CRITICAL]);
                "critical"
            }
            2 => {
                traits.annotations.push((OWN, "wait"));
                runs_for = d.one(&[None, Some(100), Some(250), Some(400)]);
                "job"
            }
            3 => {
                traits.annotations.push((OWN, "last"));
                "last"
            }
            4 => {
                traits.annotations.push((OWN, d.one(&["skip", "skip", "later"])));
                "asking"
            }
            5 => {
                match d.0.u8(..3) {
                    0 => traits.labels.push((KEYS[0], d.one(&["Skip", "wait-completed"]))),
                    1 => traits.annotations.push((KEYS[1], d.one(&["true", "5m", "30m"]))),
                    _ => traits.annotations.push((KEYS[2], d.one(&["false", "true"]))),
                }
                "asking"
            }
            6 => {
                traits.labels.push(("tier", d.one(&["first", "late", "debug"])));
                "tier"
            }
            _ => "plain",
        };
        // What is left alone, its name says.
        let is_skipped = traits.wish("extra", &terms) == Some(Wish::Skip);
        let kind = if is_skipped { "skipped" } else { kind };
        plan.drain.singles.push(Single {
            pick: d.0.usize(..6),
            name: format!("{kind}-{n}"),
            grace: d.one(&[5, 30, 30, 60, 120]),
            stop: d.one(&[1, 5, 20, 45]),
            runs_for,
            volume: None,
            traits,
        });
    }
}

/// Some of the single pods have a volume. It is detached some time after the pod is gone, or never.
fn volumes(d: &mut Dice, plan: &mut Plan) {
    if !d.chance(0.5) {
        return;
    }
    for single in &mut plan.drain.singles {
        if d.chance(0.4) {
            let detached_after = d.one(&[Some(0), Some(3), Some(20), Some(90), None]);
            single.volume = Some(Volume { detached_after });
        }
    }
    if d.chance(0.2) {
        plan.flags.push("--wait-for-volumes=never".to_owned());
    }
}

/// Limits on drains at once, and nodes of the control plane.
fn pace(d: &mut Dice, plan: &mut Plan) {
    if d.chance(0.3) {
        plan.flags.push(format!("--max-drains-per-group={}", d.one(&[1, 1, 2])));
    }
    if d.chance(0.3) {
        plan.flags.push(format!("--max-voluntary={}", d.one(&["1", "2", "30%"])));
    }
    if d.chance(0.3) {
        plan.drain.control_plane = (0..d.0.usize(2..5)).map(|_| d.0.usize(..100)).collect();
    }
}

fn conditions(d: &mut Dice, plan: &mut Plan) {
    if d.chance(0.4) {
        plan.flags.push("--drain-conditions".to_owned());
    }
}

/// Gates that are there from the start, or come during the life; a controller or a person removes
/// most of them.
fn gates(d: &mut Dice, plan: &mut Plan) {
    if !d.chance(0.5) {
        return;
    }
    for _ in 0..d.0.usize(1..5) {
        let (pick, key) = (d.0.usize(..1000), d.one(&GATES));
        let seconds = d.one(&[None, Some(20), Some(100), Some(300), Some(700)]);
        if d.chance(0.5) {
            plan.acts.push((d.0.u64(..5_000), Act::Gate { pick, key, seconds }));
        } else {
            add(d, plan, Act::Gate { pick, key, seconds });
        }
    }
}

/// People who force a drain or hold it.
fn people(d: &mut Dice, plan: &mut Plan) {
    if d.chance(0.4) {
        for _ in 0..d.0.usize(1..4) {
            let seconds = d.one(&[None, None, Some(5), Some(60)]);
            let act = Act::Force { pick: d.0.usize(..1000), seconds };
            add(d, plan, act);
        }
    }
    if d.chance(0.2) {
        let act = Act::PauseNode { pick: d.0.usize(..1000), seconds: d.0.u64(10..300) };
        add(d, plan, act);
    }
}

fn add(d: &mut Dice, plan: &mut Plan, act: Act) {
    let last = plan.acts.last().map_or(0, |(at, _)| *at);
    plan.acts.push((d.0.u64(..last + 20_000), act));
}

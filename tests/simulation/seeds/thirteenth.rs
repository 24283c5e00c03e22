//! What a thirteenth stream of random numbers adds to a plan: settings of hooks and of Nodes, changes
//! that only EC2 shows, other responses, launches that are abandoned, and instances that go through
//! all lifecycle states of warm pools, standby and the replacement of a root volume.

use sundown::sim::aws::PoolState;

use super::{
    draw::{Dice, Stream},
    plan::{Act, Plan},
};
use crate::judge::Belongs;

/// The first seed whose world has what the thirteenth stream draws.
pub const FIRST: u64 = 1_806_000_000_000;

/// NotificationMetadata of terminate hooks. Some of it gives no setting, or a bad one.
const METADATA: [&str; 12] = [
    r#"{"sundown":{"drain-timeout":"45s"}}"#,
    r#"{"sundown":{"drain-timeout":"90s","complete-delay":"4s"}}"#,
    r#"{"sundown":{"drain-timeout":"15m"}}"#,
    r#"{"sundown":{"force-after":"never"}}"#,
    r#"{"sundown":{"force-after":"0.8"},"team":"search"}"#,
    r#"{"sundown":{"max-grace-period":"40s"}}"#,
    r#"{"sundown":{"complete-delay":"10s"}}"#,
    r#"{"sundown":{"drain-timeout":"soon","max-grace-period":"50s"}}"#,
    r#"{"sundown":{"drain-timeout":"5s"}}"#,
    r#"{"sundown":{"speed":"fast"}}"#,
    r#"{"sundown":"#,
    "owner=search",
];

/// Annotations of Nodes, without the domain.
const ANNOTATIONS: [(&str, &str); 8] = [
    ("drain-timeout", "50s"),
    ("drain-timeout", "15m"),
    ("force-after", "deadline"),
    ("force-after", "0.1"),
    ("max-grace-period", "35s"),
    ("complete-delay", "9s"),
    ("complete-delay", "9"),
    ("max-grace-period", "-1s"),
];

/// Codes of the events that DescribeInstanceStatus lists.
const CODES: [&str; 5] = [
    "instance-reboot",
    "system-reboot",
    "system-maintenance",
    "instance-retirement",
    "instance-stop",
];

const DICE: Stream = Stream { factor: 0xa24b_aed4_963e_e407, offset: 0x5851_f000 };

pub(super) fn draw(plan: &mut Plan) {
    settings(&mut Dice::of(plan, DICE, 1), plan);
    scheduled_in_ec2(&mut Dice::of(plan, DICE, 2), plan);
    sick(&mut Dice::of(plan, DICE, 3), plan);
    abandoned_launches(&mut Dice::of(plan, DICE, 4), plan);
    warm_pools(&mut Dice::of(plan, DICE, 5), plan);
    standby(&mut Dice::of(plan, DICE, 6), plan);
    root_volumes(&mut Dice::of(plan, DICE, 7), plan);
    responses(&mut Dice::of(plan, DICE, 8), plan);
    plan.acts.sort_by_key(|(at, _)| *at);
}

fn settings(d: &mut Dice, plan: &mut Plan) {
    for group in &mut plan.groups {
        if !group.hooks.is_empty() && d.chance(0.4) {
            group.metadata = Some(d.one(&METADATA));
        }
    }
    if d.chance(0.4) {
        let (key, value) = d.one(&ANNOTATIONS);
        plan.settings.push((d.0.usize(..1000), key, value));
    }
    if d.chance(0.4) {
        plan.flags.push("--max-drain-timeout=20m".to_owned());
    }
}

/// A scheduled change that only EC2 shows: no message announces it.
fn scheduled_in_ec2(d: &mut Dice, plan: &mut Plan) {
    if d.chance(0.4) {
        let starts = d.one(&[200, 500, 1000]);
        let canceled = d.chance(0.3).then(|| d.0.u64(60..starts));
        let act =
            Act::ChangeInEc2 { pick: d.0.usize(..1000), starts, canceled, code: d.one(&CODES) };
        add(d, plan, act);
        plan.flags.push("--scheduled-event-interval=1m".to_owned());
        if !plan.flags.iter().any(|flag| flag.starts_with("--scheduled-lead")) {
            plan.flags.push("--scheduled-lead=2m".to_owned());
        }
    }
}

/// Where sick instances would be drained, they are perhaps only cordoned, or asked for no new pods.
fn sick(d: &mut Dice, plan: &mut Plan) {
    let response = d.one(&["drain", "drain", "drain", "cordon", "prefer"]);
    if response != "drain" {
        // Only after a drain may an instance be reported to Auto Scaling as unhealthy.
        plan.flags.retain(|flag| !flag.starts_with("--then=impaired"));
    }
    for flag in plan.flags.iter_mut().filter(|flag| *flag == "--on=impaired=drain") {
        *flag = format!("--on=impaired={response}");
    }
}

/// Whether no group with a launch hook replaces an abandoned instance. Otherwise, while a node never
/// becomes ready, such a group launches and abandons instances without end.
fn launches_end(plan: &Plan) -> bool {
    plan.groups.iter().all(|group| !group.launch_hook || !group.replaces)
}

fn abandoned_launches(d: &mut Dice, plan: &mut Plan) {
    let has_hooks = plan.groups.iter().any(|group| group.launch_hook);
    if has_hooks && launches_end(plan) && d.chance(0.5) {
        plan.flags.push("--launch-on-timeout=abandon".to_owned());
    }
}

fn warm_pools(d: &mut Dice, plan: &mut Plan) {
    const STATES: [PoolState; 3] = [PoolState::Stopped, PoolState::Running, PoolState::Hibernated];
    if !d.chance(0.35) {
        return;
    }
    let ours = plan.groups.iter_mut().filter(|group| group.belongs == Belongs::Us && !group.spot);
    for group in ours {
        group.pool = Some(d.one(&STATES));
    }
    for _ in 0..d.0.usize(1..3) {
        let act = Act::WarmPool {
            pick: d.0.usize(..1000),
            is_new: d.chance(0.5),
            seconds: d.one(&[60, 200, 500]),
            ends_there: d.chance(0.2),
        };
        add(d, plan, act);
    }
}

fn standby(d: &mut Dice, plan: &mut Plan) {
    if d.chance(0.2) {
        let (pick, lower_desired) = (d.0.usize(..1000), d.chance(0.5));
        let act = Act::Standby { pick, lower_desired, seconds: d.one(&[20, 100, 300]) };
        add(d, plan, act);
    }
}

fn root_volumes(d: &mut Dice, plan: &mut Plan) {
    if d.chance(0.25) {
        let fails = d.chance(0.2).then(|| d.one(&[10, 60, 200]));
        let act = Act::NewRootVolume { pick: d.0.usize(..1000), fails };
        add(d, plan, act);
    }
}

/// Responses to the two kinds that the fifth stream leaves out.
fn responses(d: &mut Dice, plan: &mut Plan) {
    if d.chance(0.15) {
        let response = d.one(&["cordon", "prefer", "ignore"]);
        plan.flags.push(format!("--on=scheduled-change={response}"));
    }
    if d.chance(0.1) && launches_end(plan) {
        plan.flags.push("--on=launch-hook=ignore".to_owned());
    }
}

fn add(d: &mut Dice, plan: &mut Plan, act: Act) {
    let last = plan.acts.last().map_or(0, |(at, _)| *at);
    plan.acts.push((d.0.u64(..last + 20_000), act));
}

//! A process is killed at each call that it makes: one scenario of each kind, played once for each
//! call and each side of it, with a successor that starts afterwards and with a standby that runs.

use std::{
    collections::BTreeMap,
    fmt,
    num::NonZero,
    sync::Mutex,
    thread,
    time::{Duration, Instant},
};

use sundown::sim::{Passage, Side};

use super::{
    plan::{Act, Budget, CloudController, Drain, Group, Kill, Load, LoadKind, Loose, Plan},
    play::play_and_count,
};
use crate::judge::{Belongs, Evidence, judge};

/// Which process is killed, and who goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Next {
    /// The same replica starts again.
    Successor,
    /// Another replica runs already.
    Standby,
}

/// One life.
#[derive(Debug, Clone)]
pub struct Case {
    pub scenario: &'static str,
    pub next: Next,
    pub call: usize,
    pub side: Side,
    /// What the call is.
    pub what: String,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { scenario, next, call, side, what } = self;
        write!(f, "{scenario}, {next:?}, killed {side:?} call {call} ({what})")
    }
}

/// Calls that are made all the time, whatever happens.
const IDLE: [&str; 4] =
    ["sqs:ReceiveMessage", "sqs:GetQueueAttributes", "get leases", "update leases"];
/// Of idle calls far from any other one, one in this many is played.
const IDLE_SHARE: usize = 12;

/// What happens from the twentieth second on, in milliseconds.
fn scenarios() -> Vec<(&'static str, Plan)> {
    let hooked = |acts: Vec<(u64, Act)>| plan(vec![group("ours", false, &[("drain", 60)])], acts);
    let spot = |acts: Vec<(u64, Act)>| plan(vec![group("ours", true, &[])], acts);
    let scale_in = || (0, Act::ScaleIn { group: 0, count: 1 });
    let pick = 0;
    let mut several = hooked(vec![scale_in()]);
    several.groups[0].hooks = vec![
        ("drain".to_owned(), 60),
        ("drain-too".to_owned(), 90),
        ("Terminate-LC-Hook".to_owned(), 60),
    ];
    let mut launch = spot(vec![(0, Act::EndInEc2 { pick, stop: false })]);
    launch.groups[0].launch_hook = true;
    launch.groups[0].replaces = true;
    let mut stuck = hooked(vec![scale_in()]);
    stuck.loose = vec![(0, Loose::Stuck), (0, Loose::Held)];
    let released =
        Plan { acts: vec![scale_in(), (15_000, Act::Release { pick })], ..stuck.clone() };
    vec![
        ("a terminate hook", hooked(vec![scale_in()])),
        ("several hooks", several),
        ("a spot notice", spot(vec![(0, Act::Spot { pick, what: 0 })])),
        ("a capacity notice", spot(vec![(0, Act::Capacity { pick })])),
        ("an instance that ends, and its replacement with a launch hook", launch),
        ("a hook whose deadline comes", stuck),
        ("a release", released),
        (
            "a spot notice, then a hook",
            hooked(vec![
                (0, Act::Spot { pick, what: 0 }),
                (10_000, Act::ScaleIn { group: 0, count: 1 }),
            ]),
        ),
        ("an old notice", spot(vec![(0, Act::OldNotice { pick, age: 600 })])),
        ("a false state", spot(vec![(0, Act::FalseState { pick })])),
        ("a rebalance recommendation", spot(vec![(0, Act::Rebalance { pick })])),
        ("a pause", hooked(vec![scale_in(), (2_000, Act::PauseNode { pick, seconds: 20 })])),
        ("a record that is deleted", hooked(vec![scale_in(), (3_000, Act::DeleteRecord { pick })])),
        ("a node that is deleted", hooked(vec![scale_in(), (3_000, Act::DeleteNode { pick })])),
        ("a node that reboots", hooked(vec![scale_in(), (3_000, Act::Reboot { pick })])),
        (
            "a take-over",
            Plan {
                take_over: true,
                ..hooked(vec![scale_in(), (4_000, Act::Kill { replica: 0, down: 3 })])
            },
        ),
    ]
}

fn group(name: &str, spot: bool, hooks: &[(&str, u64)]) -> Group {
    Group {
        name: name.to_owned(),
        nodes: 3,
        spot,
        hooks: hooks.iter().map(|(name, timeout)| ((*name).to_owned(), *timeout)).collect(),
        belongs: Belongs::Us,
        native: false,
        replaces: false,
        launch_hook: false,
        retains: false,
        label: None,
        tag: None,
        metadata: None,
        pool: None,
    }
}

fn plan(groups: Vec<Group>, acts: Vec<(u64, Act)>) -> Plan {
    let load = |name: &str, kind, replicas, grace, budgets| Load {
        name: name.to_owned(),
        kind,
        replicas,
        grace,
        stop: 5,
        ready: 2,
        budgets,
        unhealthy_always: false,
        never_ready: false,
    };
    Plan {
        seed: 1,
        flags: vec!["--drain-timeout=120s".to_owned()],
        drain_timeout: 120,
        complete_delay: 0,
        groups,
        loads: vec![
            load("load-0", LoadKind::Deployment, 6, 30, vec![Budget::Max(1.into())]),
            load("load-1", LoadKind::StatefulSet, 3, 10, Vec::new()),
            load("daemon", LoadKind::Daemon, 0, 30, Vec::new()),
        ],
        loose: vec![(0, Loose::Naked)],
        replicas: 1,
        busy_kubelets: false,
        disorder: (0.0, 0.0, 0.0),
        partial: 0.0,
        acts,
        clocks: Vec::new(),
        aws_clock: 0,
        claimed_twice: Vec::new(),
        settings: Vec::new(),
        on_nodes: false,
        kill: None,
        take_over: false,
        cloud_controller: CloudController::Runs,
        drain: Drain::default(),
    }
}

/// The world of a scenario in which nobody is killed yet.
fn prepared(scenario: &Plan, next: Next) -> Plan {
    let replicas = if next == Next::Standby { 2 } else { 1 };
    // At a take-over it is the second process: the one that takes over.
    let process = if scenario.take_over { 2 } else { 1 };
    let down = if next == Next::Standby { 60 } else { 1 };
    Plan { replicas, kill: Some(Kill { process, at: None, down }), ..scenario.clone() }
}

fn play(plan: &Plan) -> (Evidence, Vec<Passage>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(play_and_count(plan))
}

/// The calls that are worth a life: all but those that are made all the time, and of these the ones
/// beside another one, and some more. A process that starts makes calls, too.
fn worth(calls: &[Passage]) -> Vec<usize> {
    let is_idle = |call: &Passage| IDLE.contains(&call.what.as_str());
    let beside = |n: usize| {
        calls[n.saturating_sub(1)..calls.len().min(n + 2)].iter().any(|call| !is_idle(call))
    };
    let all = calls.iter().enumerate();
    all.filter(|(n, call)| !is_idle(call) || beside(*n) || n % IDLE_SHARE == 0)
        .map(|(n, _)| n)
        .collect()
}

/// What came of all lives.
#[derive(Debug, Default)]
pub struct Kills {
    /// By scenario: how many lives, and how many of its calls there are.
    pub played: BTreeMap<&'static str, (usize, usize)>,
    pub broken: Vec<(String, Vec<String>)>,
    pub took: Duration,
}

impl fmt::Display for Kills {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lives: usize = self.played.values().map(|(lives, _)| lives).sum();
        writeln!(f, "{lives} lives in {:.1} s", self.took.as_secs_f64())?;
        for (scenario, (lives, calls)) in &self.played {
            writeln!(f, "  {scenario}: {lives} lives, {calls} calls")?;
        }
        for (case, broken) in &self.broken {
            writeln!(f, "\n{case}:\n  {}", broken.join("\n  "))?;
        }
        Ok(())
    }
}

/// Kills a process at each call of each scenario; of the lives, one in `share` is played.
#[allow(clippy::disallowed_methods, reason = "how long it takes is real time")]
pub fn kill_at_any_call(share: usize) -> Kills {
    let begun = Instant::now();
    let kills = Mutex::new(Kills::default());
    let mut cases = Vec::new();
    let scenarios: BTreeMap<_, _> = scenarios().into_iter().collect();
    for (scenario, plan) in &scenarios {
        for next in [Next::Successor, Next::Standby] {
            let (evidence, calls) = play(&prepared(plan, next));
            let mut kills = kills.lock().unwrap();
            let broken = judge(&evidence);
            if !broken.is_empty() {
                kills.broken.push((format!("{scenario}, {next:?}, nobody killed"), broken));
            }
            kills.played.entry(scenario).or_default().1 += calls.len();
            for call in worth(&calls) {
                let what = calls[call].what.clone();
                cases.extend([Side::Before, Side::After].map(|side| Case {
                    scenario,
                    next,
                    call,
                    side,
                    what: what.clone(),
                }));
            }
        }
    }
    let cases = Mutex::new(cases.into_iter().step_by(share).collect::<Vec<_>>().into_iter());
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                // A guard in the condition of a loop would live through its body.
                let next = || cases.lock().unwrap().next();
                while let Some(case) = next() {
                    let broken = judge(&play(&case.plan(&scenarios[case.scenario])).0);
                    let mut kills = kills.lock().unwrap();
                    kills.played.entry(case.scenario).or_default().0 += 1;
                    if !broken.is_empty() {
                        kills.broken.push((case.to_string(), broken));
                    }
                }
            });
        }
    });
    let mut kills = kills.into_inner().unwrap();
    kills.broken.sort();
    kills.took = begun.elapsed();
    kills
}

impl Case {
    fn plan(&self, scenario: &Plan) -> Plan {
        let mut plan = prepared(scenario, self.next);
        plan.kill = plan.kill.map(|kill| Kill { at: Some((self.call, self.side)), ..kill });
        plan
    }
}

/// Plays the life of one case and prints its timeline:
/// `SUNDOWN_KILL="a release, Standby, After, 17"`.
#[cfg(test)]
fn replay(text: &str) -> Vec<String> {
    let mut parts = text.rsplitn(4, ", ");
    let call = parts.next().unwrap().parse().unwrap();
    let side = if parts.next() == Some("Before") { Side::Before } else { Side::After };
    let next = if parts.next() == Some("Standby") { Next::Standby } else { Next::Successor };
    let wanted = parts.next().unwrap_or_default();
    let (scenario, plan) =
        scenarios().into_iter().find(|(name, _)| *name == wanted).expect("a scenario");
    let case = Case { scenario, next, call, side, what: String::new() };
    if let Ok(filter) = std::env::var("SUNDOWN_LOG") {
        sundown::observe::logs::init(&filter, sundown::observe::LogFormat::Json).unwrap();
    }
    let (evidence, calls) = play(&case.plan(&plan));
    println!("{:#?}\n{}", calls, crate::judge::timeline::timeline(&evidence));
    judge(&evidence)
}

#[cfg(test)]
mod tests {
    use sundown::sim::kube::{Entry, Fact};

    use super::*;

    #[test]
    fn whenever_a_process_is_killed_another_one_keeps_the_promises() {
        if let Ok(case) = std::env::var("SUNDOWN_KILL") {
            let broken = replay(&case);
            assert!(broken.is_empty(), "{case}:\n{}", broken.join("\n"));
            return;
        }
        // With SUNDOWN_KILLS=all every life is played.
        let all = std::env::var("SUNDOWN_KILLS").is_ok_and(|value| value == "all");
        let kills = kill_at_any_call(if all { 1 } else { 31 });
        println!("{kills}");
        assert!(kills.broken.is_empty(), "{kills}");
        assert!(
            kills.played.values().all(|(lives, _)| *lives > 0),
            "each scenario is played: {kills}"
        );
    }

    #[test]
    fn a_killed_process_makes_no_call_after_its_last() {
        let (_, plan) = scenarios().remove(0);
        let (_, all) = play(&prepared(&plan, Next::Successor));
        let patch =
            all.iter().position(|call| call.what == "patch nodes").expect("the record is written");
        for side in [Side::Before, Side::After] {
            let case = Case {
                scenario: "",
                next: Next::Successor,
                call: patch,
                side,
                what: String::new(),
            };
            let (evidence, calls) = play(&case.plan(&plan));
            assert_eq!(calls, all[..=patch], "the same life up to there");
            assert_eq!(evidence.lives.len(), 2, "another process follows");
            let died = evidence.lives[0].2.expect("it is dead");
            let is_cordon = |e: &&Entry| matches!(e.fact, Fact::Cordoned(_)) && e.at <= died;
            let cordons = evidence.entries.iter().filter(is_cordon).count();
            assert_eq!(
                cordons,
                usize::from(side == Side::After),
                "{side:?}: its record is written"
            );
        }
    }
}

//! Draws a plan from a seed.

use std::time::Duration;

use sundown::sim::{
    aws::Fault as AwsFault,
    kube::{Away, Fault as KubeFault, Match},
};

use super::{
    eighth, eleventh, fifth, fourteenth, fourth, ninth,
    plan::{Act, Budget, CloudController, Drain, Group, Load, LoadKind, Loose, Plan},
    second, seventh, sixth, tenth, third, thirteenth, twelfth,
};
use crate::judge::Belongs;

pub(super) struct Dice(pub(super) fastrand::Rng);

/// The constants from which a stream derives the seeds of its dice. No two streams share them.
#[derive(Clone, Copy)]
pub(super) struct Stream {
    /// The seed of the world is multiplied by this number.
    pub(super) factor: u64,
    /// Added to the number of a kind (from 1). The sum is XORed into the product.
    pub(super) offset: u64,
}

impl Dice {
    /// The dice for one kind of things that a stream draws. Each kind has dice of its own, so that a
    /// new kind leaves the others as they are.
    pub(super) fn of(plan: &Plan, stream: Stream, kind: u64) -> Self {
        let seed = plan.seed.wrapping_mul(stream.factor) ^ (stream.offset + kind);
        Self(fastrand::Rng::with_seed(seed))
    }

    pub(super) fn one<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.0.usize(..of.len())].clone()
    }

    pub(super) fn chance(&mut self, p: f64) -> bool {
        self.0.f64() < p
    }
}

impl Plan {
    pub fn of(seed: u64) -> Self {
        let mut d = Dice(fastrand::Rng::with_seed(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
        let drain_timeout = d.one(&[120_u64, 180, 300, 600]);
        let mut flags = vec![format!("--drain-timeout={drain_timeout}s")];
        if d.chance(0.2) {
            flags.push(format!(
                "--exclude-from-load-balancers={}",
                d.one(&["early", "late", "never"])
            ));
        }
        let complete_delay = if d.chance(0.15) { 7 } else { 0 };
        if complete_delay > 0 {
            flags.push(format!("--complete-delay={complete_delay}s"));
        }
        let groups = groups(&mut d);
        let loads = (0..d.0.usize(2..6)).map(|i| load(&mut d, i)).chain([daemon()]).collect();
        let kinds = [
            Loose::Naked,
            Loose::Mirror,
            Loose::Finished,
            Loose::Held,
            Loose::Stuck,
            Loose::Tolerant,
            Loose::ToleratesAll,
            Loose::Unready,
        ];
        let loose = (0..d.0.usize(0..7)).map(|_| (d.0.usize(..100), d.one(&kinds))).collect();
        let disorder = if d.chance(0.3) { (0.2, 0.3, 0.1) } else { (0.0, 0.0, 0.0) };
        let replicas = if d.chance(0.4) { 2 } else { 1 };
        let acts = acts(&mut d, &groups);
        let busy_kubelets = (seed / 2).is_multiple_of(2);
        let partial = 0.0;
        let mut plan = Self {
            seed,
            flags,
            drain_timeout,
            complete_delay,
            groups,
            loads,
            loose,
            replicas,
            busy_kubelets,
            disorder,
            partial,
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
        };
        if seed >= second::FIRST {
            second::draw(&mut plan);
        }
        if seed >= third::FIRST {
            third::draw(&mut plan);
        }
        if seed >= fourth::FIRST {
            fourth::draw(&mut plan);
        }
        if seed >= fifth::FIRST {
            fifth::draw(&mut plan);
        }
        if seed >= sixth::FIRST {
            sixth::draw(&mut plan);
        }
        if seed >= seventh::FIRST {
            seventh::draw(&mut plan);
        }
        if seed >= eighth::FIRST {
            eighth::draw(&mut plan);
        }
        if seed >= ninth::FIRST {
            ninth::draw(&mut plan);
        }
        if seed >= tenth::FIRST {
            tenth::draw(&mut plan);
        }
        if seed >= eleventh::FIRST {
            eleventh::draw(&mut plan);
        }
        if seed >= twelfth::FIRST {
            twelfth::draw(&mut plan);
        }
        if seed >= thirteenth::FIRST {
            thirteenth::draw(&mut plan);
        }
        if seed >= fourteenth::FIRST {
            fourteenth::draw(&mut plan);
        }
        plan
    }
}

fn groups(d: &mut Dice) -> Vec<Group> {
    let mut groups = Vec::new();
    for i in 0..d.0.usize(1..4) {
        let spot = d.chance(0.4);
        let mut hooks = Vec::new();
        if !spot || d.chance(0.3) {
            hooks.push(("drain".to_owned(), d.one(&[30_u64, 45, 60, 120, 300])));
        }
        if !hooks.is_empty() && d.chance(0.25) {
            hooks.push(("drain-too".to_owned(), d.one(&[60_u64, 90])));
        }
        if d.chance(0.2) {
            // EKS's own: answered by EKS, never by us.
            hooks.push(("Terminate-LC-Hook".to_owned(), 60));
        }
        let (native, replaces, launch_hook) = (d.chance(0.2), d.chance(0.5), d.chance(0.2));
        groups.push(Group {
            name: format!("ours-{i}"),
            nodes: d.0.usize(2..6),
            spot,
            hooks,
            belongs: Belongs::Us,
            native,
            replaces,
            launch_hook,
            retains: false,
            label: None,
            tag: None,
            metadata: None,
            pool: None,
        });
    }
    for (name, belongs) in [
        ("other", Belongs::OtherCluster),
        ("karpenter", Belongs::Karpenter),
        ("ignored", Belongs::Ignored),
    ] {
        if d.chance(0.35) {
            let hooks = vec![("drain".to_owned(), 60)];
            let spot = d.chance(0.5);
            groups.push(Group {
                name: name.to_owned(),
                nodes: 2,
                spot,
                hooks,
                belongs,
                native: false,
                replaces: false,
                launch_hook: false,
                retains: false,
                label: None,
                tag: None,
                metadata: None,
                pool: None,
            });
        }
    }
    groups
}

fn load(d: &mut Dice, i: usize) -> Load {
    let kind =
        d.one(&[LoadKind::Deployment, LoadKind::Deployment, LoadKind::StatefulSet, LoadKind::Job]);
    let replicas = d.one(&[1_usize, 2, 3, 3, 5, 8, 12]);
    let budget = |d: &mut Dice| match d.0.u8(..5) {
        0 => Budget::Min(1.into()),
        1 => Budget::Min(replicas.into()),
        2 => Budget::Max(1.into()),
        3 => Budget::Max(d.one(&["10%", "30%", "50%"]).into()),
        _ => Budget::Max(0.into()),
    };
    let many = d.one(&[0, 0, 1, 1, 1, 1, 2]);
    let budgets =
        if kind == LoadKind::Job { Vec::new() } else { (0..many).map(|_| budget(d)).collect() };
    Load {
        name: format!("load-{i}"),
        kind,
        replicas,
        grace: d.one(&[1_u64, 5, 30, 30, 60, 120, 600]),
        stop: d.one(&[0_u64, 1, 5, 20, 45, 90]),
        ready: d.one(&[0_u64, 2, 10, 40]),
        budgets,
        unhealthy_always: d.chance(0.3),
        never_ready: d.chance(0.05),
    }
}

fn daemon() -> Load {
    let budgets = Vec::new();
    Load {
        name: "daemon".to_owned(),
        kind: LoadKind::Daemon,
        replicas: 0,
        grace: 30,
        stop: 1,
        ready: 1,
        budgets,
        unhealthy_always: false,
        never_ready: false,
    }
}

/// The first minutes, in which everything happens.
const BUSY: Duration = Duration::from_secs(420);

fn acts(d: &mut Dice, groups: &[Group]) -> Vec<(u64, Act)> {
    let mut acts = Vec::new();
    let busy = u64::try_from(BUSY.as_millis()).unwrap();
    let (events, people) = (d.0.usize(1..7), d.one(&[0, 0, 1, 3]));
    let (faults, crashes) = d.one(&[(0, 0), (0, 1), (1, 0), (3, 1), (6, 2), (10, 3)]);
    for _ in 0..events {
        acts.push(event(d, groups));
    }
    for _ in 0..d.0.usize(0..4) {
        acts.push(noise(d));
    }
    for _ in 0..people {
        acts.push(person(d));
    }
    for _ in 0..faults {
        acts.push(fault(d));
    }
    for _ in 0..crashes {
        acts.push(crash(d));
    }
    // Half of the time everything comes close together.
    let span = if d.chance(0.5) { busy } else { 60_000 };
    let mut timed: Vec<_> = acts.into_iter().map(|act| (d.0.u64(..span), act)).collect();
    timed.sort_by_key(|(at, _)| *at);
    timed
}

fn event(d: &mut Dice, groups: &[Group]) -> Act {
    let pick = d.0.usize(..1000);
    match d.0.u8(..11) {
        0..=4 => Act::ScaleIn { group: d.0.usize(..groups.len()), count: d.0.usize(1..4) },
        5..=7 => Act::Spot { pick, what: d.one(&[0, 0, 0, 1, 2]) },
        8 => Act::Capacity { pick },
        _ => Act::EndInEc2 { pick, stop: d.chance(0.3) },
    }
}

fn noise(d: &mut Dice) -> Act {
    let pick = d.0.usize(..1000);
    match d.0.u8(..6) {
        0 => Act::OldNotice { pick, age: d.one(&[130, 600, 90_000]) },
        1 => Act::FalseState { pick },
        2 => Act::Again { pick },
        3 => Act::Stranger,
        4 => Act::Rebalance { pick },
        _ => Act::Garbage {
            body: d
                .one(&[
                    "",
                    "{",
                    "[]",
                    "null",
                    "{\"detail-type\":\"EC2 Spot Instance Interruption Warning\"}",
                    "\u{fffd}\u{1}",
                ])
                .to_owned(),
        },
    }
}

fn person(d: &mut Dice) -> Act {
    let pick = d.0.usize(..1000);
    match d.0.u8(..9) {
        0 => Act::Uncordon { pick },
        1 => Act::DeletePod { pick },
        2 => Act::DeleteRecord { pick },
        3 => Act::PauseNode { pick, seconds: d.0.u64(10..200) },
        4 => Act::PauseAll { seconds: d.0.u64(10..200) },
        5 => Act::Release { pick },
        6 => Act::Reboot { pick },
        7 => Act::KubeletLost { pick, seconds: d.0.u64(20..300) },
        _ => Act::DeleteNode { pick },
    }
}

fn crash(d: &mut Dice) -> Act {
    let (replica, down) = (d.0.usize(..2), d.one(&[0, 1, 5, 40]));
    match d.0.u8(..8) {
        0..=3 => Act::Kill { replica, down },
        4..=5 => Act::Term { replica, down },
        6 => Act::DeleteLease,
        _ => Act::StealLease,
    }
}

fn fault(d: &mut Dice) -> Act {
    let (seconds, share) = (d.one(&[2_u64, 10, 30, 90]), d.one(&[0.2, 0.5, 1.0]));
    match d.0.u8(..12) {
        0..=3 => {
            let api = d.one(&[
                "*",
                "sqs:*",
                "sqs:ReceiveMessage",
                "sqs:DeleteMessage*",
                "sqs:ChangeMessageVisibility*",
                "autoscaling:*",
                "autoscaling:RecordLifecycleActionHeartbeat",
                "autoscaling:CompleteLifecycleAction",
                "autoscaling:Describe*",
                "ec2:*",
            ]);
            let fault = d.one(&[
                AwsFault::Throttle,
                AwsFault::InternalError,
                AwsFault::Unavailable,
                AwsFault::AccessDenied,
                AwsFault::ExpiredToken,
                AwsFault::ResourceContention,
                AwsFault::Latency(Duration::from_secs(3)),
                AwsFault::Hang,
                AwsFault::Cut,
                AwsFault::HangAfterEffect,
                AwsFault::CutAfterEffect,
                AwsFault::Garbage,
            ]);
            Act::Aws { api, fault, share, seconds }
        }
        4..=7 => Act::Kube { matching: requests(d), fault: kube_fault(d), share, seconds },
        8 => Act::KubeAway {
            how: d.one(&[Away::Refusing, Away::Silent]),
            seconds: d.one(&[5, 30, 180]),
        },
        9 => Act::CutWatches { broken: d.chance(0.5), compact: d.chance(0.5) },
        10 => Act::FreezeDisruption { seconds: d.one(&[10, 60]) },
        _ if d.chance(0.5) => {
            Act::Overload { retry_after: d.one(&[1, 5]), seconds: d.one(&[5, 30]) }
        }
        _ => Act::Unauthorized { seconds: d.one(&[2, 15]) },
    }
}

pub(super) fn requests(d: &mut Dice) -> Match {
    let which = d.one(&[
        ("create", "pods/eviction"),
        ("delete", "pods"),
        ("patch", "nodes"),
        ("get", "nodes"),
        ("list", "nodes"),
        ("list", "pods"),
        ("watch", "pods"),
        ("watch", "nodes"),
        ("watch", "poddisruptionbudgets"),
        ("get", "daemonsets"),
        ("update", "leases"),
        ("get", "leases"),
        ("create", "events"),
        ("*", "*"),
    ]);
    if which.0 == "*" { Match::all() } else { Match::of(which.0, which.1) }
}

pub(super) fn kube_fault(d: &mut Dice) -> KubeFault {
    let status = |code: u16, reason: &str, retry_after| KubeFault::Status {
        code,
        reason: reason.to_owned(),
        message: "from the simulation".to_owned(),
        retry_after,
    };
    match d.0.u8(..13) {
        0 => status(500, "InternalError", None),
        1 => status(503, "ServiceUnavailable", Some(1)),
        2 => status(409, "Conflict", None),
        3 => status(429, "TooManyRequests", Some(2)),
        4 => KubeFault::Forbidden,
        5 => KubeFault::Overloaded { retry_after: 1 },
        6 => KubeFault::Slow(Duration::from_secs(3)),
        7 => KubeFault::SlowAnswer(Duration::from_secs(3)),
        8 => KubeFault::Refused,
        9 => KubeFault::AnswerLost,
        10 => KubeFault::Hang,
        11 => KubeFault::HangAfterEffect,
        _ => KubeFault::Garbled,
    }
}

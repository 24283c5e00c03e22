//! From a seed: a world, and what happens to it.

use std::time::Duration;

use sundown::sim::{
    Side,
    aws::{Fault as AwsFault, PoolState},
    kube::{Away, Fault as KubeFault, Match},
};

use crate::judge::{
    Belongs, Terms,
    traits::{CRITICAL, Traits, rules_of},
};

/// Everything that happens in one run. Printed where a run fails.
#[derive(Debug, Clone)]
pub struct Plan {
    pub seed: u64,
    pub flags: Vec<String>,
    /// `--drain-timeout` in seconds.
    pub drain_timeout: u64,
    /// `--complete-delay` in seconds.
    pub complete_delay: u64,
    pub groups: Vec<Group>,
    pub loads: Vec<Load>,
    /// Pods by hand: on which node (counted over all of ours), and of which kind.
    pub loose: Vec<(usize, Loose)>,
    pub replicas: usize,
    /// Kubelets write the status of their Nodes every ten seconds, as real ones do.
    pub busy_kubelets: bool,
    /// Probabilities that the queue duplicates, reorders, and forgets deletes.
    pub disorder: (f64, f64, f64),
    /// Probability that a receive brings one message or two, however many there are.
    pub partial: f64,
    /// How many seconds the clock of each replica is ahead; replicas that are not named have the
    /// world's.
    pub clocks: Vec<i64>,
    /// How many seconds AWS's clock is ahead of the world's.
    pub aws_clock: i64,
    /// Nodes (counted over all of ours) whose instance another Node claims, too.
    pub claimed_twice: Vec<usize>,
    /// Annotations of Nodes that exist from the start: the Node (counted over all of ours), the key
    /// without its domain, and the value.
    pub settings: Vec<(usize, &'static str, &'static str)>,
    /// Replica n runs on node n, and knows it (`--node-name`).
    pub on_nodes: bool,
    /// In milliseconds after the start.
    pub acts: Vec<(u64, Act)>,
    /// A process that is killed at one of its calls.
    pub kill: Option<Kill>,
    /// It is the process that takes over from another one.
    pub take_over: bool,
    pub cloud_controller: CloudController,
    pub drain: Drain,
}

/// What pods and nodes ask of drains.
#[derive(Debug, Clone, Default)]
pub struct Drain {
    /// What workloads give their pods, by their names.
    pub traits: Vec<(String, Traits)>,
    pub singles: Vec<Single>,
    /// Nodes (counted over all of ours) of the control plane.
    pub control_plane: Vec<usize>,
}

/// A pod without a controller, in the namespace `extra`.
#[derive(Debug, Clone)]
pub struct Single {
    /// The node that it is on, counted over all of ours.
    pub pick: usize,
    pub name: String,
    pub grace: u64,
    pub stop: u64,
    /// It succeeds after so many seconds.
    pub runs_for: Option<u64>,
    pub traits: Traits,
    pub volume: Option<Volume>,
}

/// A volume that is attached to the node of its pod.
#[derive(Debug, Clone, Copy)]
pub struct Volume {
    /// How many seconds after the end of its pod it is detached. `None`: never.
    pub detached_after: Option<u64>,
}

/// The controller that deletes the Nodes of instances that are gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloudController {
    Runs,
    Missing,
}

/// Which process is killed, counted over all replicas from 1 on, and at which of its calls.
#[derive(Debug, Clone, Copy)]
pub struct Kill {
    pub process: usize,
    /// `None`: its calls are counted, and it lives.
    pub at: Option<(usize, Side)>,
    /// After how many seconds the next process of its replica starts.
    pub down: u64,
}

/// An Auto Scaling group.
#[allow(clippy::struct_excessive_bools, reason = "properties that a plan draws one by one")]
#[derive(Debug, Clone)]
pub struct Group {
    pub name: String,
    pub nodes: usize,
    pub spot: bool,
    /// Terminate hooks: name and heartbeat timeout in seconds.
    pub hooks: Vec<(String, u64)>,
    pub belongs: Belongs,
    /// Its hooks tell the queue directly too.
    pub native: bool,
    /// It launches what it lacks.
    pub replaces: bool,
    /// It has a launch hook.
    pub launch_hook: bool,
    /// It retains instances whose terminate hook is abandoned.
    pub retains: bool,
    /// A label of its Nodes.
    pub label: Option<(&'static str, &'static str)>,
    /// The key of a tag of the group and its instances.
    pub tag: Option<&'static str>,
    /// NotificationMetadata of its terminate hooks.
    pub metadata: Option<&'static str>,
    /// It has a warm pool from the start, which keeps its instances like this.
    pub pool: Option<PoolState>,
}

/// A workload and its budget.
#[derive(Debug, Clone)]
pub struct Load {
    pub name: String,
    pub kind: LoadKind,
    pub replicas: usize,
    pub grace: u64,
    pub stop: u64,
    pub ready: u64,
    pub budgets: Vec<Budget>,
    pub unhealthy_always: bool,
    pub never_ready: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoadKind {
    Deployment,
    StatefulSet,
    Daemon,
    Job,
}

#[derive(Debug, Clone)]
pub enum Budget {
    Min(serde_json::Value),
    Max(serde_json::Value),
}

/// A pod that was put there by hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loose {
    Naked,
    Mirror,
    Finished,
    /// Has a finalizer that nobody takes away.
    Held,
    /// Its kubelet never gets it stopped.
    Stuck,
    /// Tolerates our taint by name.
    Tolerant,
    /// Tolerates everything.
    ToleratesAll,
    Unready,
    /// Its controller, which knows nothing of cordons, puts it back on its node.
    ComesBack,
}

/// Something that happens. `pick` chooses among what is there then.
#[derive(Debug, Clone)]
pub enum Act {
    ScaleIn {
        group: usize,
        count: usize,
    },
    Spot {
        pick: usize,
        what: u8,
    },
    Capacity {
        pick: usize,
    },
    /// The Capacity Block in which these instances run ends. It may have none.
    Block {
        picks: Vec<usize>,
    },
    /// EventBridge loses every event.
    LoseEvents {
        seconds: u64,
    },
    EndInEc2 {
        pick: usize,
        stop: bool,
    },
    Rebalance {
        pick: usize,
    },
    /// A spot notice that is minutes old, of an instance that runs on.
    OldNotice {
        pick: usize,
        age: u64,
    },
    /// A state-change notification although nothing changed.
    FalseState {
        pick: usize,
    },
    /// The newest messages come once more, as they were.
    Again {
        pick: usize,
    },
    Garbage {
        body: String,
    },
    Stranger,
    Aws {
        api: &'static str,
        fault: AwsFault,
        share: f64,
        seconds: u64,
    },
    Kube {
        matching: Match,
        fault: KubeFault,
        share: f64,
        seconds: u64,
    },
    KubeAway {
        how: Away,
        seconds: u64,
    },
    Overload {
        retry_after: u32,
        seconds: u64,
    },
    Unauthorized {
        seconds: u64,
    },
    CutWatches {
        broken: bool,
        compact: bool,
    },
    FreezeDisruption {
        seconds: u64,
    },
    Kill {
        replica: usize,
        down: u64,
    },
    Term {
        replica: usize,
        down: u64,
    },
    DeleteLease,
    StealLease,
    Uncordon {
        pick: usize,
    },
    DeletePod {
        pick: usize,
    },
    DeleteRecord {
        pick: usize,
    },
    PauseNode {
        pick: usize,
        seconds: u64,
    },
    PauseAll {
        seconds: u64,
    },
    Release {
        pick: usize,
    },
    Reboot {
        pick: usize,
    },
    KubeletLost {
        pick: usize,
        seconds: u64,
    },
    DeleteNode {
        pick: usize,
    },
    /// A gate is set on a node. It is removed after so many seconds, or never.
    Gate {
        pick: usize,
        key: &'static str,
        seconds: Option<u64>,
    },
    /// A person forces a drain, and takes that back after so many seconds, or never.
    Force {
        pick: usize,
        seconds: Option<u64>,
    },
    // From here on: only the second stream draws them.
    /// One replica does not reach AWS, Kubernetes or both. The others do.
    Partition {
        replica: usize,
        aws: bool,
        kube: bool,
        seconds: u64,
    },
    /// A watch of one replica shows nothing more, and does not end.
    SilentWatch {
        replica: usize,
        resource: &'static str,
    },
    /// Some requests of one replica fail.
    KubeOfOne {
        replica: usize,
        matching: Match,
        fault: KubeFault,
        share: f64,
        seconds: u64,
    },
    /// An admission webhook for the evictions of one workload, or of all pods.
    Webhook {
        answer: Webhook,
        load: Option<usize>,
        seconds: u64,
    },
    /// The evictions of some pods conflict with other writers.
    EvictionConflicts {
        picks: Vec<usize>,
        times: usize,
        unready: bool,
    },
    FreezeScheduler {
        seconds: u64,
    },
    /// AWS refuses the tokens of lifecycle actions, and takes instance IDs.
    InvalidTokens {
        seconds: u64,
    },
    /// Somebody sets a label of a node again and again.
    Relabel {
        pick: usize,
        seconds: u64,
    },
    /// A message of so many KiB: a rebalance recommendation, or a spot notice that is minutes old.
    Large {
        pick: usize,
        kib: usize,
        notice: bool,
    },
    /// Somebody writes a hook that nobody runs into the record of a node: one of its own group, or
    /// of another one.
    MadeUpHook {
        pick: usize,
        own_group: bool,
    },
    /// Those who own the other hooks of our groups complete the actions that are open.
    OthersComplete,
    /// A notice of AWS Health about an instance.
    Health {
        pick: usize,
    },
    /// AWS Health announces a change of an instance after so many seconds, with this code.
    Change {
        pick: usize,
        starts: u64,
        end: ChangeEnd,
        code: &'static str,
    },
    /// EC2 schedules a change of an instance after so many seconds, with this code, and no message
    /// tells of it. Perhaps EC2 cancels it after so many seconds.
    ChangeInEc2 {
        pick: usize,
        starts: u64,
        canceled: Option<u64>,
        code: &'static str,
    },
    /// Somebody sends an event about a lifecycle action that Auto Scaling never began, of an
    /// instance in service.
    MadeUp {
        pick: usize,
    },
    /// A person keeps a node cordoned for so long (`sundown.dev/keep-cordoned`).
    KeepCordoned {
        pick: usize,
        seconds: u64,
    },
    /// Somebody sends a test event (`sundown send-test`), which asks to be acted on or not: a spot
    /// notice or a state change.
    Test {
        pick: usize,
        is_real: bool,
        is_spot: bool,
    },
    /// Auto Scaling replaces the root volume of an instance.
    RootVolume {
        pick: usize,
    },
    /// Auto Scaling returns an instance to its warm pool, which keeps it running. After so many
    /// seconds it leaves the pool again, with the event about that or without.
    IntoPool {
        pick: usize,
        seconds: u64,
        with_event: bool,
    },
    /// Auto Scaling replaces the root volume of an instance, through all states: its hooks, the
    /// boot, and its launch hooks. Or the replacement fails after so many seconds.
    NewRootVolume {
        pick: usize,
        fails: Option<u64>,
    },
    /// An instance goes into standby for so long. The group launches another one, or does not.
    Standby {
        pick: usize,
        lower_desired: bool,
        seconds: u64,
    },
    /// An instance goes into the warm pool of its group: a new one, or one in service. After so many
    /// seconds it leaves the pool again, or ends there.
    WarmPool {
        pick: usize,
        is_new: bool,
        seconds: u64,
        ends_there: bool,
    },
    /// A status check of an instance fails for so long.
    FailCheck {
        pick: usize,
        seconds: u64,
    },
    /// The queue is deleted with all that is in it. Then there is a new one of its name.
    DeleteQueue {
        seconds: u64,
    },
}

/// What becomes of a change that was announced.
#[derive(Debug, Clone, Copy)]
pub enum ChangeEnd {
    /// EC2 stops the instance at its start.
    Happens,
    /// After so many seconds it is canceled.
    Canceled { after: u64 },
    /// After so many seconds it is moved by so many seconds, and then it happens.
    Moved { after: u64, by: u64 },
}

impl ChangeEnd {
    /// By how much the start is moved, in seconds.
    pub fn moved_by(self) -> u64 {
        if let Self::Moved { by, .. } = self { by } else { 0 }
    }
}

/// What an admission webhook makes of evictions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Webhook {
    Denies,
    /// 429 without a cause.
    Busy,
    Unreachable,
    /// Accepts, and the pod stays.
    Intercepts,
    /// Answers nothing for ten seconds; then the eviction fails.
    Hangs,
}

impl Act {
    /// Somebody does it to the cluster.
    pub fn is_by_a_person(&self) -> bool {
        use Act::{
            DeleteNode, DeletePod, DeleteRecord, Force, Gate, KeepCordoned, KubeletLost, PauseAll,
            PauseNode, Reboot, Release, Uncordon,
        };
        matches!(
            self,
            PauseAll { .. }
                | Uncordon { .. }
                | DeletePod { .. }
                | DeleteRecord { .. }
                | PauseNode { .. }
                | Release { .. }
                | Reboot { .. }
                | KubeletLost { .. }
                | KeepCordoned { .. }
                | Gate { .. }
                | Force { .. }
                | DeleteNode { .. }
        )
    }

    /// How long what it breaks may still be felt, in seconds; `None`: it breaks nothing.
    pub fn trouble(&self) -> Option<u64> {
        // A call that hangs is given up after 10 s, a receive after 30 s; what was received by a
        // dead replica is hidden for 60 s.
        const AFTER: u64 = 35;
        Some(match self {
            Self::Aws { seconds, .. }
            | Self::Kube { seconds, .. }
            | Self::KubeAway { seconds, .. }
            | Self::Overload { seconds, .. }
            | Self::Unauthorized { seconds }
            | Self::Partition { seconds, .. }
            | Self::KubeOfOne { seconds, .. }
            | Self::InvalidTokens { seconds } => seconds + AFTER,
            Self::CutWatches { .. } => AFTER,
            Self::Kill { down, .. } | Self::Term { down, .. } => down + 20,
            Self::DeleteLease | Self::StealLease => 40,
            // A connection that is dead is found out when the watch was to end.
            Self::SilentWatch { .. } => 295,
            // A queue that is missing is asked for again after a while.
            Self::DeleteQueue { seconds } => seconds + 60,
            _ => return None,
        })
    }
}

impl Drain {
    /// A pod is critical.
    pub fn has_critical(&self) -> bool {
        self.all_traits().iter().any(|(.., traits)| traits.priority >= CRITICAL)
    }

    /// A pod asks for something by an annotation or a label.
    pub fn asks(&self) -> bool {
        let asks = |t: &Traits| !t.annotations.is_empty() || !t.labels.is_empty();
        self.all_traits().iter().any(|(.., traits)| asks(traits))
    }

    fn all_traits(&self) -> Vec<(String, String, Traits)> {
        let of_loads = self.traits.iter().map(|(name, t)| ("load", name, t));
        let of_singles = self.singles.iter().map(|one| ("extra", &one.name, &one.traits));
        let all = of_singles.chain(of_loads);
        all.map(|(namespace, name, t)| (namespace.to_owned(), name.clone(), t.clone())).collect()
    }
}

impl Group {
    fn heartbeat_timeouts(&self) -> impl Iterator<Item = ((String, String), Duration)> {
        self.hooks.iter().map(|(hook, timeout)| {
            ((self.name.clone(), hook.clone()), Duration::from_secs(*timeout))
        })
    }

    fn metadata_of_hooks(&self) -> impl Iterator<Item = ((String, String), String)> {
        let of_hook =
            |hook: &str, text: &str| ((self.name.clone(), hook.to_owned()), text.to_owned());
        self.metadata
            .into_iter()
            .flat_map(move |text| self.hooks.iter().map(move |(hook, _)| of_hook(hook, text)))
    }
}

impl Plan {
    /// What the run is held to.
    pub fn terms(&self) -> Terms {
        Terms {
            retaining: self.groups.iter().filter(|g| g.retains).map(|g| g.name.clone()).collect(),
            groups: self.groups.iter().map(|g| (g.name.clone(), g.belongs)).collect(),
            heartbeat_timeouts: self.groups.iter().flat_map(Group::heartbeat_timeouts).collect(),
            metadata: self.groups.iter().flat_map(Group::metadata_of_hooks).collect(),
            drain_timeout: self.drain_timeout,
            complete_delay: self.complete_delay,
            graces: self.loads.iter().map(|l| (l.name.clone(), l.grace)).collect(),
            single_graces: self.drain.singles.iter().map(|s| (s.name.clone(), s.grace)).collect(),
            traits: self.drain.all_traits(),
            rules: rules_of(&self.flags),
            clocks_differ: self.clocks.iter().any(|ahead| *ahead != 0),
            calm: self.is_calm(),
            flags: vec![("sundown".to_owned(), self.flags.clone())],
            budgets: self
                .loads
                .iter()
                .flat_map(|l| l.budgets.iter().map(|_| ("load".to_owned(), l.name.clone())))
                .collect(),
        }
    }

    /// Nothing is broken in this run.
    pub fn is_calm(&self) -> bool {
        self.kill.is_none()
            && self.acts.iter().all(|(_, a)| a.trouble().is_none())
            && self.disorder.0 == 0.0
    }
}

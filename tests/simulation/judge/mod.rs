//! What every run must keep to, whatever happened in it: rules that share no code with the service,
//! over evidence that the embedded AWS and the embedded Kubernetes give.

mod actions;
mod asked;
mod budgets;
mod causes;
mod changes;
mod clocks;
mod condition;
mod confirmed;
mod cordoned;
mod deployment;
#[cfg(test)]
mod doctored;
mod drain_conditions;
pub mod events;
pub mod excuses;
mod gates;
mod gone;
mod in_time;
mod labels;
mod late_calls;
mod launches;
mod leaders;
mod limits;
mod lost;
mod messages;
mod nodes;
mod order;
mod pace;
mod pods;
mod pooled;
pub mod promises;
mod requests;
mod restored;
mod returned;
mod scheduled;
pub mod sent;
mod settings;
mod shown;
mod sick;
pub mod story;
mod swept;
pub mod timeline;
pub mod traits;
mod volumes;
mod waits;
mod windows;
mod writers;
mod written;

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};
use sundown::domain::Moment;

use jiff::SignedDuration;
use sundown::sim::{
    Disturbance,
    aws::{
        ActionReport, Call, CheckChange, Deletion, InstanceChange, Outcome, PlannedEvent,
        SentMessage, ServiceChange, Transition,
    },
    kube::{Entry, Request},
};

use self::{
    excuses::{COMPLETIONS, EC2, Faults, HEARTBEATS, MESSAGES, SEE_NODES, Scope, WRITE_NODES},
    leaders::Leaders,
    nodes::{Write, is_claimed_twice, writes},
    promises::{Promise, Tally},
    sent::Notice,
    story::Story,
    traits::Traits,
};

/// All that a judge may look at.
#[derive(Debug, Clone)]
pub struct Evidence {
    pub terms: Terms,
    pub begun: Moment,
    pub ended: Moment,
    /// By how much AWS's clock was ahead of the world's at the beginning. Messages show it later.
    pub aws_ahead: SignedDuration,
    /// What had not come to rest.
    pub restless: Vec<String>,
    pub entries: Vec<Entry>,
    pub requests: Vec<Request>,
    pub calls: Vec<Call>,
    pub actions: Vec<ActionReport>,
    /// Every message that was sent to a queue, and what became of it.
    pub messages: Vec<SentMessage>,
    pub deletions: Vec<Deletion>,
    /// What the Events say.
    pub events: BTreeSet<events::Event>,
    pub changes: Vec<InstanceChange>,
    /// Volumes of pods, and when they were detached.
    pub volumes: Vec<Attached>,
    /// Instances that went out of service without an end, and came back.
    pub service_changes: Vec<ServiceChange>,
    /// Status checks of instances that began to fail, and passed again.
    pub check_changes: Vec<CheckChange>,
    /// The Node that an instance has or had.
    pub nodes: BTreeMap<String, String>,
    /// Which group an instance belongs to.
    pub groups: BTreeMap<String, String>,
    /// The Capacity Block that an instance runs in.
    pub blocks: BTreeMap<String, String>,
    /// What EC2 has scheduled for instances, and when.
    pub scheduled: Vec<(Moment, String, PlannedEvent)>,
    /// Requests, calls and watches that met a fault.
    pub disturbances: Vec<Disturbance>,
    /// When which process was killed or told to stop.
    pub ends: Vec<(String, Moment)>,
    /// While the disruption controller stood still.
    pub frozen: Vec<(Moment, Moment)>,
    /// While everything was paused.
    pub pauses: Vec<(Moment, Moment)>,
    /// While there was no queue: what was in it, or came then, is lost.
    pub queue_away: Vec<(Moment, Moment)>,
    /// While an admission webhook did not answer: evictions wait for it, and for each other.
    pub evictions_hang: Vec<(Moment, Moment)>,
    /// What people did to a node.
    pub hands: Vec<(Moment, String, &'static str)>,
    /// What was made to happen, in words.
    pub acts: Vec<(Moment, String)>,
    pub panics: usize,
    /// The Node on which a process runs, by its `--node-name`.
    pub own_nodes: BTreeMap<String, String>,
    /// From when to when which replica ran.
    pub lives: Vec<(usize, Moment, Option<Moment>)>,
    /// Times at which the Lease was taken from whoever held it.
    pub thefts: usize,
    /// Requests and calls in the last minute, in which nothing happened any more.
    pub idle: usize,
}

/// A volume that was attached to the node of a pod from the beginning.
#[derive(Debug, Clone)]
pub struct Attached {
    pub node: String,
    /// The name of its pod in the namespace `extra`.
    pub pod: String,
    pub detached: Option<Moment>,
}

/// What a run is held to.
#[derive(Debug, Clone)]
pub struct Terms {
    pub groups: BTreeMap<String, Belongs>,
    /// The heartbeat timeout of each hook, by its group and its name.
    pub heartbeat_timeouts: BTreeMap<(String, String), Duration>,
    /// The NotificationMetadata of each hook that has any, by its group and its name.
    pub metadata: BTreeMap<(String, String), String>,
    /// The groups that retain instances whose terminate hook is abandoned.
    pub retaining: BTreeSet<String>,
    /// `--drain-timeout` in seconds.
    pub drain_timeout: u64,
    /// `--complete-delay` in seconds.
    pub complete_delay: u64,
    /// Grace periods by the beginning of a pod's name, in the namespace `load`.
    pub graces: Vec<(String, u64)>,
    /// The same of single pods, by their names, in the namespace `extra`.
    pub single_graces: Vec<(String, u64)>,
    /// What is special of pods: their namespace, the beginning of their names, and what it is.
    pub traits: Vec<(String, String, Traits)>,
    /// The rules of the administrator, as JSON.
    pub rules: Vec<serde_json::Value>,
    /// The clocks of the replicas differ.
    pub clocks_differ: bool,
    /// Nothing is broken in this run.
    pub calm: bool,
    /// The flags of each process whose name starts with this.
    pub flags: Vec<(String, Vec<String>)>,
    /// Each budget: its namespace, and the workload whose pods it counts.
    pub budgets: Vec<(String, String)>,
}

impl Terms {
    /// What a flag of a process says; `None`: it is not set.
    pub fn flag(&self, process: &str, name: &str) -> Option<&str> {
        let mut of_it = self.flags.iter().rev().filter(|(prefix, _)| process.starts_with(prefix));
        of_it.find_map(|(_, flags)| {
            let joined = flags.iter().find_map(|flag| flag.strip_prefix(name)?.strip_prefix('='));
            joined.or_else(|| {
                flags.get(flags.iter().position(|flag| flag == name)? + 1).map(String::as_str)
            })
        })
    }

    /// A flag without a value that some process has.
    pub fn is_set(&self, name: &str) -> bool {
        self.flags.iter().any(|(_, flags)| flags.iter().any(|flag| flag == name))
    }

    /// What a flag that can be repeated says, of all processes.
    pub fn each(&self, name: &str) -> BTreeSet<&str> {
        let mut all = BTreeSet::new();
        for flags in self.flags.iter().map(|(_, flags)| flags) {
            for (i, flag) in flags.iter().enumerate() {
                let joined = flag.strip_prefix(name).and_then(|rest| rest.strip_prefix('='));
                let apart = flags.get(i + 1).filter(|_| flag == name).map(String::as_str);
                all.extend(joined.or(apart));
            }
        }
        all
    }

    /// The longest time that a flag of any process says, or its default where one does not set it.
    pub fn longest(&self, name: &str, default: Duration) -> Duration {
        let set = self.flags.iter().map(|(process, _)| self.time(process, name).unwrap_or(default));
        set.max().unwrap_or(default)
    }

    /// The shortest.
    pub fn shortest(&self, name: &str, default: Duration) -> Duration {
        let set = self.flags.iter().map(|(process, _)| self.time(process, name).unwrap_or(default));
        set.min().unwrap_or(default)
    }

    /// What `--on` says about this kind. Without it, a recommendation only asks for the weaker taint.
    pub fn response(&self, kind: &str) -> Response {
        let given = self.each("--on");
        let pairs = given.iter().flat_map(|text| text.split(',')).filter_map(|p| p.split_once('='));
        let mut given = pairs.filter(|(of, _)| *of == kind).map(|(_, response)| response);
        match given.next() {
            Some("ignore") => Response::Ignore,
            Some("prefer") => Response::Prefer,
            Some("cordon") => Response::Cordon,
            Some("drain") => Response::Drain,
            _ if kind == "rebalance" => Response::Prefer,
            _ if kind == "impaired" => Response::Ignore,
            _ => Response::Drain,
        }
    }

    /// The strongest response to the interruptions of a record. What a person makes up says nothing
    /// about `--on`, so it asks for a drain.
    pub fn strongest(&self, interruptions: &[serde_json::Value]) -> Response {
        let of = |i: &serde_json::Value| match i["event"].as_str() {
            Some(MADE_UP) => Response::Drain,
            // A request says itself how far to go.
            _ if i["kind"] == requests::NAME => match i["response"].as_str() {
                Some("cordon") => Response::Cordon,
                _ => Response::Drain,
            },
            _ => self.response(i["kind"].as_str().unwrap_or_default()),
        };
        interruptions.iter().map(of).max().unwrap_or(Response::Drain)
    }

    /// The event asks for a change of a node.
    pub fn asks(&self, event: &sent::Event) -> bool {
        let is_of_node = event.is_interruption()
            || matches!(
                event.kind,
                sent::Kind::Rebalance | sent::Kind::Impaired | sent::Kind::Request
            );
        is_of_node && self.response(event.kind.name()) > Response::Ignore
    }

    /// `--deadline-margin`, and `--spot-deadline-margin`.
    pub fn margin(&self, kind: &str) -> Duration {
        match kind {
            "spot" | "spot-stop" | "spot-hibernate" => {
                self.longest("--spot-deadline-margin", Duration::from_secs(10))
            }
            _ => self.longest("--deadline-margin", Duration::from_secs(5)),
        }
    }

    /// How long a rebalance recommendation counts.
    pub fn rebalance_ttl(&self) -> Duration {
        self.longest("--rebalance-ttl", Duration::from_secs(3600))
    }

    /// A flag that is a time.
    pub fn time(&self, process: &str, name: &str) -> Option<Duration> {
        let time: SignedDuration = self.flag(process, name)?.parse().unwrap();
        time.try_into().ok()
    }
}

/// What is to be done about a kind of interruption, from the weakest to the strongest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Response {
    Ignore,
    Prefer,
    Cordon,
    Drain,
}

/// Whose the nodes of a group are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Belongs {
    Us,
    /// Another cluster's: no Nodes here.
    OtherCluster,
    /// Nodes of this cluster that Karpenter looks after.
    Karpenter,
    /// Nodes that a person asked Sundown to leave alone.
    Ignored,
    /// Nodes of this cluster that `--node-selector` leaves out.
    LeftOut,
    /// Instances of this cluster without the tag that `--managed-tag` asks for.
    Untagged,
}

/// A rule that holds in every run. A test that makes a world in which one cannot hold says which,
/// and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// Pods are touched on Nodes with an open record only.
    OpenRecord,
    /// Nothing is completed before its node is empty.
    NotTooEarly,
    /// What is not ours is left alone.
    Strangers,
    /// No message is deleted before its intent is durable, nor one that nobody understands.
    Messages,
    /// Nobody calls for an action that is completed.
    LateCalls,
    /// Each entry of a record is an event that was sent, received, and that asks for a drain.
    Causes,
    /// A record says what its messages say, and when it was accepted and released.
    RecordFacts,
    /// An interruption is accepted in time.
    AcceptedInTime,
    /// Pods are asked to go while there is time.
    AskedInTime,
    /// At most half of the Ready nodes leave load balancers, and those that have room do.
    LoadBalancers,
    /// A Node that is put back is as it was.
    Restored,
    /// Only the process that holds the Lease writes.
    Leader,
    /// Each Event is true, and each thing that happens has its Event.
    TrueEvents,
}

/// What was broken, in words; nothing where all was kept.
pub fn judge(evidence: &Evidence) -> Vec<String> {
    verdict(evidence).broken
}

/// What a judge says of a run.
#[derive(Debug, Default)]
pub struct Ruling {
    /// What was broken, in words; nothing where all was kept.
    pub broken: Vec<String>,
    /// How often each promise was judged, and how often excused.
    pub tally: Tally,
}

/// Judges a run.
pub fn verdict(evidence: &Evidence) -> Ruling {
    let mut judge = Judge::of(evidence);
    if evidence.terms.is_set("--dry-run") {
        judge.dry_run();
        judge.rest();
        return Ruling { broken: judge.broken, tally: judge.tally.into_inner() };
    }
    judge.pods();
    judge.waits();
    judge.gates();
    judge.pace();
    judge.requests();
    judge.order();
    judge.forced_by_hand();
    judge.volumes();
    judge.conditions_shown();
    judge.budgets();
    judge.limits();
    judge.cordoned();
    judge.labels();
    judge.restored();
    judge.returned();
    judge.writers();
    judge.asked();
    judge.strangers();
    judge.actions();
    judge.continued();
    judge.launches();
    judge.pooled();
    judge.late_calls();
    judge.messages();
    judge.of_others();
    judge.without_node();
    judge.causes();
    judge.changes();
    judge.condition();
    judge.gone();
    judge.handed_over();
    judge.written_facts();
    judge.in_time();
    judge.events();
    judge.true_events();
    judge.each_has_its_event();
    judge.rest();
    Ruling { broken: judge.broken, tally: judge.tally.into_inner() }
}

/// Judges a run by the rules that hold in every world, except those in `except`. Returns what was
/// broken, in words. Budgets, limits, cordons, gates, the condition `MaintenancePlanned`, kinds of Events, the result of completions and pods
/// that are left alone are always judged.
pub fn judge_any(evidence: &Evidence, except: &[Rule]) -> Vec<String> {
    type Judging = fn(&mut Judge<'_>);
    let all: [(Rule, Judging); 13] = [
        (Rule::OpenRecord, |judge| judge.open_records()),
        (Rule::NotTooEarly, |judge| judge.none_too_early()),
        (Rule::Strangers, |judge| judge.strangers()),
        (Rule::Messages, |judge| judge.messages()),
        (Rule::LateCalls, |judge| judge.late_calls()),
        (Rule::Causes, |judge| {
            judge.causes();
            judge.handed_over();
        }),
        (Rule::RecordFacts, |judge| judge.written_facts()),
        (Rule::AcceptedInTime, |judge| {
            judge.in_time();
        }),
        (Rule::AskedInTime, |judge| {
            judge.asked();
        }),
        (Rule::LoadBalancers, |judge| judge.labels()),
        (Rule::Restored, |judge| {
            judge.restored();
            judge.returned();
        }),
        (Rule::Leader, |judge| judge.writers()),
        (Rule::TrueEvents, |judge| {
            judge.true_events();
            judge.each_has_its_event();
        }),
    ];
    let mut judge = Judge::of(evidence);
    judge.untouchable();
    judge.continued();
    judge.launches();
    judge.events();
    judge.budgets();
    judge.limits();
    judge.cordoned();
    judge.condition();
    judge.gates();
    judge.pace();
    judge.requests();
    judge.gone();
    for (_, rule) in all.iter().filter(|(rule, _)| !except.contains(rule)) {
        rule(&mut judge);
    }
    judge.broken
}

struct Judge<'a> {
    story: Story<'a>,
    evidence: &'a Evidence,
    broken: Vec<String>,
    tally: RefCell<Tally>,
    writes: Vec<Write<'a>>,
    leaders: Leaders<'a>,
    faults: Faults<'a>,
    /// Group and name of each hook beside which, for the same transition, there is one whose name
    /// starts with `sundown`.
    beside_named: BTreeSet<(&'a str, &'a str)>,
}

/// See [`Judge::beside_named`]. Found once: a run may have thousands of actions, and each call for
/// one asks whose hook it is. A hook of which no action began is a terminate hook: the terms of a
/// random world name only those.
fn beside_named(evidence: &Evidence) -> BTreeSet<(&str, &str)> {
    let mut transitions: BTreeSet<_> = evidence
        .actions
        .iter()
        .map(|a| (a.group.as_str(), a.hook.as_str(), a.transition == Transition::Launching))
        .collect();
    let with_action: BTreeSet<_> = transitions.iter().map(|(g, h, _)| (*g, *h)).collect();
    let hooks = evidence.terms.heartbeat_timeouts.keys().map(|(g, h)| (g.as_str(), h.as_str()));
    let without_action = hooks.filter(|hook| !with_action.contains(hook));
    transitions.extend(without_action.map(|(group, hook)| (group, hook, false)));
    let has_named = |group: &str, launching: bool| {
        transitions
            .iter()
            .any(|(g, h, l)| (*g, *l) == (group, launching) && h.starts_with("sundown"))
    };
    transitions
        .iter()
        .filter(|(group, _, launching)| has_named(group, *launching))
        .map(|(group, hook, _)| (*group, *hook))
        .collect()
}

/// Whether a name is what a pattern with `*` and `?` says.
fn is_like(pattern: &str, name: &str) -> bool {
    let (mut rest, mut after) = (pattern.chars(), name.chars());
    match (rest.next(), after.next()) {
        (None, next) => next.is_none(),
        (Some('*'), next) => {
            is_like(rest.as_str(), name) || (next.is_some() && is_like(pattern, after.as_str()))
        }
        (Some(first), next) => {
            next.is_some_and(|c| first == '?' || first == c)
                && is_like(rest.as_str(), after.as_str())
        }
    }
}

fn is_us(name: &str) -> bool {
    name.starts_with("sundown")
}

const SLACK: Duration = Duration::from_millis(1500);
/// The event ID that the people of the tests give what they make up.
const MADE_UP: &str = "made-up";
/// What was decided by what was true before may be on its way for this long, in a row without a
/// fault.
const ON_ITS_WAY: Duration = Duration::from_secs(10);

impl<'a> Judge<'a> {
    fn of(evidence: &'a Evidence) -> Self {
        Self {
            story: Story::of(evidence),
            evidence,
            broken: Vec::new(),
            tally: RefCell::default(),
            writes: writes(evidence),
            leaders: Leaders::of(evidence),
            faults: Faults::of(evidence),
            beside_named: beside_named(evidence),
        }
    }

    fn count(&self, promise: Promise, is_excused: bool) {
        self.tally.borrow_mut().count(promise, is_excused);
    }

    fn broken(&mut self, at: Moment, what: String) {
        let after = at.duration_since(self.evidence.begun).as_secs_f64();
        self.broken.push(format!("[{after:+.3} s] {what}"));
    }

    fn belongs(&self, group: &str) -> Option<Belongs> {
        self.evidence.terms.groups.get(group).copied()
    }

    /// Ours to complete. Where `--lifecycle-hook` names hooks, those are. Else a hook that stands
    /// beside one whose name starts with `sundown` is another party's.
    fn is_ours(&self, group: &str, hook: &str) -> bool {
        if self.belongs(group) != Some(Belongs::Us) {
            return false;
        }
        let names = self.evidence.terms.each("--lifecycle-hook");
        self.is_covered(hook)
            && (names.iter().any(|name| *name != "*")
                || hook.starts_with("sundown")
                || !self.beside_named.contains(&(group, hook)))
    }

    /// `--lifecycle-hook` allows hooks of this name.
    fn is_covered(&self, hook: &str) -> bool {
        let is_eks = ["Terminate-LC-Hook", "Launch-LC-Hook"].contains(&hook);
        let names = self.evidence.terms.each("--lifecycle-hook");
        if names.iter().any(|name| *name != "*") {
            return names.contains(hook)
                || (!is_eks && names.iter().any(|name| is_like(name, hook)));
        }
        !is_eks
    }

    /// A node of somebody else's is recognized by its labels. Where there is no Node (any more, or as far
    /// as can be seen), only tags speak.
    fn looks_like_ours(&self, group: &str, instance: &str, at: Moment) -> bool {
        let tagged = self
            .belongs(group)
            .is_some_and(|b| [Belongs::Karpenter, Belongs::Ignored, Belongs::LeftOut].contains(&b));
        let node = self.evidence.nodes.get(instance);
        // EC2 cannot say any more which of two Nodes is the instance's. The other one is taken for
        // it.
        let is_confirmed_by_nobody = |n: &str| {
            self.story.is_terminated(instance, at) && is_claimed_twice(&self.writes, n, at, at)
        };
        let is_hidden = |n: &String| {
            let unseen =
                || self.is_excused(Scope::of_leader(&[SEE_NODES]).about(instance, n), at, at);
            self.node_away(n, instance, at) || is_confirmed_by_nobody(n) || unseen()
        };
        tagged && node.is_none_or(is_hidden)
    }

    /// An instance's Node is not there, or was not a moment ago: what was decided then is still on
    /// its way, longer where something is broken.
    fn node_away(&self, node: &str, instance: &str, at: Moment) -> bool {
        // Another instance may have its name by now.
        if self.story.page(node, at).is_some_and(|page| page.instance != instance) {
            return true;
        }
        let scope = Scope::of_leader(&[SEE_NODES, COMPLETIONS, MESSAGES]).about(instance, node);
        let late = |back: Moment| self.longest_clear(scope, back, at) <= ON_ITS_WAY;
        self.story.went(node, at).is_some_and(|(_, back)| back.is_none_or(late))
    }

    /// The Nodes that are drained in place of this one, whose kubelet is silent: the others that
    /// claim its instance.
    fn stand_ins(&self, node: &str, instance: &str, at: Moment) -> BTreeSet<&str> {
        // A Node is unknown when nothing was heard for 40 s.
        let is_unknown = self.story.fell_silent(node, at).is_some_and(|(lost, back)| {
            let is_silent = back.is_none_or(|back| back + SLACK >= at);
            is_silent && lost + Duration::from_secs(40) <= at
        });
        if is_unknown { self.other_claimants(node, instance, at) } else { BTreeSet::new() }
    }

    /// The Nodes that are drained beside this one: the others that claim its instance, once that is
    /// terminated. EC2 confirms none of them then.
    fn drained_beside(&self, node: &str, instance: &str, at: Moment) -> BTreeSet<&str> {
        if self.story.is_terminated(instance, at) {
            self.other_claimants(node, instance, at)
        } else {
            BTreeSet::new()
        }
    }

    /// The other Nodes that claim its instance.
    fn other_claimants(&self, node: &str, instance: &str, at: Moment) -> BTreeSet<&str> {
        let others =
            self.story.pages_of(instance).filter(|page| page.at <= at && page.node != node);
        others
            .map(|page| page.node.as_str())
            .filter(|other| !self.story.node_gone(other, at))
            .collect()
    }

    /// A process acts on tests that ask for it: for so long after its start, by its flag. Its first
    /// request says when it started.
    fn acts_on_tests(&self, process: &str, at: Moment) -> bool {
        let Some(length) = self.evidence.terms.time(process, "--accept-real-tests") else {
            return false;
        };
        let started = self.evidence.requests.iter().find(|r| r.client == process).map(|r| r.at);
        started.is_some_and(|started| at <= started + length)
    }

    /// It is no test, or one that each process that received it acts on.
    fn is_meant(&self, notice: &Notice) -> bool {
        let event = &notice.event;
        let acted_on = || {
            !notice.deliveries.is_empty()
                && notice.deliveries.iter().all(|d| self.acts_on_tests(&d.by, d.at + SLACK))
        };
        !event.is_test || (event.is_real_test && acted_on())
    }

    /// A person wrote the hook into the record of the instance's Node: a record is taken at its
    /// word, and AWS says what is not so.
    fn is_made_up(&self, group: &str, hook: &str, instance: &str, at: Moment) -> bool {
        let of_it = |recorded: &story::RecordedInterruption| {
            recorded.is_made_up
                && recorded.hook.as_ref().is_some_and(|(g, h)| g == group && h == hook)
        };
        self.story.recorded(instance, at).iter().any(|recorded| of_it(recorded))
    }

    /// The hook came into the record of another Node that claims the instance, because EC2 could
    /// not tell the process that wrote it which of the Nodes is the instance's. From then on it is
    /// treated as ours.
    fn is_accepted_unconfirmed(&self, group: &str, hook: &str, instance: &str, at: Moment) -> bool {
        self.accepts_unconfirmed(group, hook, instance).iter().any(|page| page.at <= at)
    }

    /// The hook is about to come into such a record: a hook gets heartbeats while its process
    /// decides. Until it is accepted, what that needs meets faults; or the PATCHes of the other Node
    /// fail.
    fn is_unconfirmed_on_its_way(&self, group: &str, hook: &str, call: &Call) -> bool {
        /// A PATCH that failed is tried again within this time.
        const TRIED_AGAIN: Duration = Duration::from_secs(12);
        let instance = call.object.rsplit('/').next().unwrap_or_default();
        let needs: &[excuses::Needs] = &[EC2, HEARTBEATS, WRITE_NODES];
        let scope = Scope { needs, of: None, process: Some(&call.by), without_leader: None };
        let is_accepted_later = |page: &&story::Page| {
            page.by == call.by
                && page.at > call.at
                && self.longest_clear(scope, call.at, page.at) <= SLACK
        };
        let is_tried = |own: &String| {
            let others = self.other_claimants(own, instance, call.at);
            let is_try = |r: &&Request| {
                r.client == call.by
                    && (r.verb.as_str(), r.resource.as_str()) == ("patch", "nodes")
                    && r.status != 200
                    && (r.at..=r.at + TRIED_AGAIN).contains(&call.at)
                    && others.contains(r.name.as_str())
            };
            self.evidence.requests.iter().any(|r| is_try(&r))
                && is_claimed_twice(&self.writes, own, call.at, call.at)
                && self.ec2_was_silent(instance, &call.by, call.at)
        };
        self.accepts_unconfirmed(group, hook, instance).iter().any(is_accepted_later)
            || self.evidence.nodes.get(instance).is_some_and(is_tried)
    }

    /// The writes that brought the hook into the record of another Node that claims the instance,
    /// while EC2 could not tell the process that wrote them which of the Nodes is the instance's.
    fn accepts_unconfirmed(&self, group: &str, hook: &str, instance: &str) -> Vec<&story::Page> {
        let Some(own) = self.evidence.nodes.get(instance) else { return Vec::new() };
        let is_it = |recorded: &story::RecordedInterruption, page: &story::Page| {
            recorded.accepted + SLACK >= page.at
                && recorded.hook.as_ref().is_some_and(|(g, h)| g == group && h == hook)
        };
        let is_accept = |page: &&story::Page| {
            page.node != *own
                && page.recorded.iter().any(|recorded| is_it(recorded, page))
                && is_claimed_twice(&self.writes, own, page.at, page.at)
                && self.ec2_was_silent(instance, &page.by, page.at)
        };
        self.story.pages_of(instance).filter(is_accept).collect()
    }

    /// EC2 had not told the process about the instance for as long as an answer counts, and did not
    /// answer it.
    fn ec2_was_silent(&self, instance: &str, by: &str, at: Moment) -> bool {
        /// For so long EC2 is asked.
        const ASKED: Duration = Duration::from_secs(6);
        /// An answer of EC2 counts for this long.
        const REMEMBERED: Duration = Duration::from_secs(300);
        let scope = Scope { needs: &[EC2], of: None, process: Some(by), without_leader: None };
        let is_answer = |c: &&Call| {
            c.api == "ec2:DescribeInstances"
                && c.by == by
                && c.object.contains(instance)
                && c.outcome == Outcome::Ok
        };
        let mut answers = self.evidence.calls.iter().filter(is_answer);
        !answers.any(|c| c.at + REMEMBERED >= at && c.at <= at)
            && self.is_excused(scope, at - ASKED, at)
    }

    /// Only the hooks of its group show whether a hook is ours: no flag names it, and it is not one
    /// of EKS.
    fn is_decided_by_group(&self, group: &str, hook: &str) -> bool {
        let is_default =
            self.evidence.terms.each("--lifecycle-hook").iter().all(|name| *name == "*");
        let is_eks = ["Terminate-LC-Hook", "Launch-LC-Hook"].contains(&hook);
        is_default && !is_eks && self.belongs(group) == Some(Belongs::Us)
    }

    /// What AWS answered before that moment to a process that asked for the hooks of a group.
    fn descriptions<'s>(
        &'s self,
        group: &'s str,
        by: &'s str,
        at: Moment,
    ) -> impl Iterator<Item = &'s Call> + 's {
        self.evidence.calls.iter().filter(move |c| {
            c.api == "autoscaling:DescribeLifecycleHooks"
                && c.by == by
                && c.object == group
                && c.at <= at
        })
    }

    /// A hook gets heartbeats until AWS has described the hooks of its group, because they do no
    /// harm. So does one that was accepted before that, and one whose accept is under way: while
    /// the PATCH of its Node meets a fault, its process does not decide anew.
    fn may_be_ours(&self, group: &str, hook: &str, call: &Call) -> bool {
        const LATELY: Duration = Duration::from_secs(30);
        if !self.is_decided_by_group(group, hook) {
            return false;
        }
        let instance = call.object.rsplit('/').next().unwrap_or_default();
        let is_it = |recorded: &story::RecordedInterruption| {
            recorded.hook.as_ref().is_some_and(|(g, h)| g == group && h == hook)
        };
        let is_accepted =
            self.story.recorded(instance, call.at).iter().any(|recorded| is_it(recorded));
        let is_being_accepted = |since: Moment| {
            let Some(node) = self.evidence.nodes.get(instance) else { return false };
            let (needs, process): (&[excuses::Needs], _) = (&[WRITE_NODES], Some(&*call.by));
            let of = Some((instance, node.as_str()));
            let scope = Scope { needs, of, process, without_leader: None };
            self.longest_clear(scope, since, call.at) <= SLACK
        };
        let mut described = self.descriptions(group, &call.by, call.at);
        let is_known = |c: &Call| {
            c.outcome == Outcome::Ok
                && c.at + SLACK < call.at
                && c.at + LATELY >= call.at
                && !is_being_accepted(c.at)
        };
        is_accepted || !described.any(is_known)
    }

    /// AWS denied this process the description of the group's hooks, and had not answered it for as
    /// long as an answer counts. Then the process takes the hook for ours, with a warning.
    fn is_unchecked(&self, group: &str, hook: &str, by: &str, at: Moment) -> bool {
        const REMEMBERED: Duration = Duration::from_secs(600);
        let is_denied = |c: &Call| matches!(&c.outcome, Outcome::Error(e) if e == "AccessDenied");
        let last = self.descriptions(group, by, at).filter(|c| c.outcome != Outcome::LostBefore);
        let is_known =
            |c: &Call| c.outcome == Outcome::Ok && c.at + SLACK < at && c.at + REMEMBERED >= at;
        self.is_decided_by_group(group, hook)
            && last.max_by_key(|c| c.at).is_some_and(is_denied)
            && !self.descriptions(group, by, at).any(is_known)
    }

    /// The instance of this Node; if it claimed that of another Node then, the claimed one.
    fn instance_or_claimed(&self, node: &str, at: Moment) -> Option<&str> {
        let before = self.writes.iter().rev().filter(|write| write.at <= at);
        let states = before.filter_map(|write| write.new);
        let claimed = || states.into_iter().find(|state| state.name == node).map(nodes::instance);
        self.instance_of(node).map(String::as_str).or_else(claimed)
    }

    fn instance_of(&self, node: &str) -> Option<&String> {
        self.evidence.nodes.iter().find(|(_, n)| *n == node).map(|(i, _)| i)
    }

    /// No call for another's hook, no write to another's node.
    fn strangers(&mut self) {
        for call in &self.evidence.calls {
            let is_heartbeat = call.api == "autoscaling:RecordLifecycleActionHeartbeat";
            let acts = is_heartbeat || call.api == "autoscaling:CompleteLifecycleAction";
            let mut parts = call.object.split('/');
            let (group, hook) =
                (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
            let instance = parts.next().unwrap_or_default();
            let is_known = || {
                !(self.is_made_up(group, hook, instance, call.at)
                    || self.is_accepted_unconfirmed(group, hook, instance, call.at)
                    || self.is_unchecked(group, hook, &call.by, call.at)
                    || (is_heartbeat && self.may_be_ours(group, hook, call))
                    || (is_heartbeat && self.is_unconfirmed_on_its_way(group, hook, call)))
            };
            if acts
                && !self.is_ours(group, hook)
                && !self.looks_like_ours(group, instance, call.at)
                && is_known()
            {
                self.broken(
                    call.at,
                    format!("{} for {}, which is not ours", call.api, call.object),
                );
            }
        }
        let mut foreign = BTreeMap::new();
        for (instance, node) in &self.evidence.nodes {
            let group = self.evidence.groups.get(instance).and_then(|g| self.belongs(g));
            if group.is_some_and(|belongs| belongs != Belongs::Us) {
                foreign.insert(node.clone(), instance.clone());
            }
        }
        for request in self.evidence.requests.iter().filter(|r| is_us(&r.client) && r.is_write()) {
            if request.resource == "nodes" && foreign.contains_key(&request.name) {
                self.broken(
                    request.at,
                    format!("{} of {}, which is not ours", request.verb, request.name),
                );
            }
            if !["nodes", "pods", "leases", "events"].contains(&request.resource.as_str()) {
                self.broken(request.at, format!("{} of {}", request.verb, request.resource));
            }
        }
    }

    /// In the end nothing is left to do, and nothing is done.
    fn rest(&mut self) {
        for what in self.evidence.restless.clone() {
            self.broken(self.evidence.ended, format!("it never came to rest: {what}"));
        }
        if self.evidence.panics > 0 {
            self.broken(self.evidence.ended, format!("{} panics", self.evidence.panics));
        }
        if self.evidence.idle > 30 + self.came_again() + self.calls_about_sick_instances() {
            self.broken(
                self.evidence.ended,
                format!("{} calls in a minute in which nothing happened", self.evidence.idle),
            );
        }
    }

    /// How many calls the rounds about sick instances made in the last minute, if an instance was
    /// still sick: three about status checks, one about the instances and one about their groups.
    /// Each pause between two rounds is shortened by up to a quarter.
    fn calls_about_sick_instances(&self) -> usize {
        const CALLS: usize = 5;
        let (terms, ended) = (&self.evidence.terms, self.evidence.ended);
        let is_sick = self.evidence.nodes.values().any(|node| self.is_sick(node, ended));
        if terms.response("impaired") == Response::Ignore || !is_sick {
            return 0;
        }
        let pause = terms.shortest("--sweep-interval", Duration::from_secs(600)) * 3 / 4;
        let asked = ended - Duration::from_secs(60);
        let is_round =
            |call: &&Call| call.object == "system-status.status=impaired" && call.at >= asked;
        let rounds = self.evidence.calls.iter().filter(is_round).count();
        let most = Duration::from_secs(60).as_millis() / pause.as_millis().max(1) + 1;
        CALLS * rounds.min(usize::try_from(most).unwrap_or(rounds))
    }

    /// How often a message came in the last minute of a dry run. It deletes no message, so each one
    /// comes again, and is asked about again.
    fn came_again(&self) -> usize {
        let since = self.evidence.ended - Duration::from_secs(60);
        let all = self
            .evidence
            .messages
            .iter()
            .filter(|_| self.evidence.terms.is_set("--dry-run"))
            .flat_map(|m| &m.deliveries);
        all.filter(|delivery| delivery.at >= since).count()
    }
}

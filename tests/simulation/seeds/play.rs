//! Plays a plan and brings back what is to be judged.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
    time::Duration,
};

use jiff::SignedDuration;
use serde_json::{Value, json};
use sundown::domain::Moment;
use sundown::sim::{
    Passage, Tripwire, WorldSettings,
    aws::{
        Call, Check, FaultRule, HealthNotice, How, InstanceChange, PlannedEvent, QueueSettings,
        SpotAction, State,
    },
    kube::{Match, Request, Rule, RuleId},
};
use tokio::{sync::mpsc::UnboundedReceiver, task::JoinHandle};

use super::{
    build::{CLAIMS, build},
    people::{KEEP_CORDONED, old_notice, record},
    plan::{Act, CloudController, Plan},
};
use crate::{
    harness::{Replica, Stage},
    judge::Evidence,
};

pub(super) enum Todo {
    Act(Act),
    Lift(RuleId),
    KubeBack,
    Calm,
    Authorize,
    Thaw,
    Start(usize),
    Resume(String),
    ResumeAll,
    KubeletBack(String),
    PassCheck(String),
    Reconnect(String),
    NoWebhook(Option<RuleId>),
    Schedule,
    Queue(QueueSettings),
    Relabel(String, u64),
    Announce(HealthNotice),
    Stop(String),
    Reboot(String),
    /// EC2 shows a scheduled event of the instance, or a newer state of it.
    ShowInEc2(String, PlannedEvent),
    EndKeepCordoned(String),
    /// An annotation of a Node is removed.
    Unset(String, &'static str),
    /// The volume of this pod is detached.
    Detach(String),
    /// It boots from its new root volume, once its hooks have ended.
    NewRoot(String),
    FailRootVolume(String),
    ExitStandby(String),
    EndInPool {
        instance: String,
        leaves: bool,
    },
    LeavePool {
        instance: String,
        with_event: bool,
    },
}

pub(super) struct Play<'a> {
    pub(super) plan: &'a Plan,
    pub(super) stage: Stage,
    pub(super) replicas: Vec<Option<Replica>>,
    /// Those that were told to stop.
    parting: Vec<JoinHandle<()>>,
    pub(super) starts: usize,
    pub(super) todo: BTreeMap<(Moment, usize), Todo>,
    count: usize,
    changed: UnboundedReceiver<InstanceChange>,
    pub(super) leases_deleted: Vec<Moment>,
    pub(super) evidence: Evidence,
    /// How many Capacity Blocks have ended.
    pub(super) ended_blocks: usize,
    /// How many changes AWS Health has announced.
    pub(super) changes: usize,
    pub(super) tripwire: Tripwire,
    /// When the process that the plan kills has died, and whose replica's next one has not been
    /// ordered.
    pub(super) death: Arc<Mutex<Option<(usize, Moment)>>>,
    /// The pods whose volumes are detached, or about to be.
    detaching: BTreeSet<String>,
}

/// The longest that a run may take to come to rest.
const LIMIT: Duration = Duration::from_secs(3600);
/// So many looks in a row must find everything at rest. The looks are at most a second apart.
const CALM_LOOKS: u64 = 10;

pub async fn play(plan: &Plan) -> Evidence {
    play_and_count(plan).await.0
}

/// Plays it, and brings back the calls of the process that the plan names, too.
pub async fn play_and_count(plan: &Plan) -> (Evidence, Vec<Passage>) {
    let mut settings = WorldSettings::seeded(plan.seed);
    settings.kube.timing.node_status = plan.busy_kubelets.then(|| Duration::from_secs(10));
    if plan.cloud_controller == CloudController::Missing {
        settings.kube.timing.node_deletion = None;
    }
    let stage = Stage::with(settings);
    stage.world.aws.skew(SignedDuration::from_secs(plan.aws_clock));
    let changed = stage.world.aws.subscribe();
    let volumes = build(&stage, plan);
    stage.pass(90).await;
    let begun = stage.clock.now();
    let evidence = Evidence {
        terms: plan.terms(),
        begun,
        ended: begun,
        aws_ahead: SignedDuration::from_secs(plan.aws_clock),
        restless: Vec::new(),
        entries: Vec::new(),
        requests: Vec::new(),
        calls: Vec::new(),
        actions: Vec::new(),
        messages: Vec::new(),
        deletions: Vec::new(),
        events: BTreeSet::new(),
        changes: Vec::new(),
        service_changes: Vec::new(),
        volumes,
        check_changes: Vec::new(),
        nodes: BTreeMap::new(),
        groups: BTreeMap::new(),
        blocks: BTreeMap::new(),
        scheduled: Vec::new(),
        disturbances: Vec::new(),
        ends: Vec::new(),
        frozen: Vec::new(),
        pauses: Vec::new(),
        queue_away: Vec::new(),
        evictions_hang: Vec::new(),
        hands: Vec::new(),
        acts: plan
            .acts
            .iter()
            .map(|(at, act)| (begun + Duration::from_millis(20_000 + at), format!("{act:?}")))
            .collect(),
        panics: 0,
        own_nodes: BTreeMap::new(),
        lives: Vec::new(),
        thefts: 0,
        idle: 0,
    };
    let replicas = (0..plan.replicas).map(|_| None).collect();
    let mut play = Play {
        plan,
        stage,
        replicas,
        parting: Vec::new(),
        starts: 0,
        todo: BTreeMap::new(),
        count: 0,
        changed,
        leases_deleted: Vec::new(),
        ended_blocks: 0,
        changes: 0,
        evidence,
        tripwire: Tripwire::default(),
        death: Arc::default(),
        detaching: BTreeSet::new(),
    };
    play.stage.world.aws.tripwire(&play.tripwire);
    play.stage.world.kube.tripwire(&play.tripwire);
    play.start(0);
    for replica in 1..plan.replicas {
        // Where one is killed it must be known who leads: the first one.
        if plan.kill.is_some() { play.after(5, Todo::Start(replica)) } else { play.start(replica) }
    }
    for (at, act) in &plan.acts {
        play.then(begun + Duration::from_millis(20_000 + at), Todo::Act(act.clone()));
    }
    play.come_to_rest().await;
    let calls = play.tripwire.calls();
    (play.bring_in().await, calls)
}

impl Play<'_> {
    pub(super) fn now(&self) -> Moment {
        self.stage.clock.now()
    }

    pub(super) fn then(&mut self, at: Moment, todo: Todo) {
        self.count += 1;
        self.todo.insert((at, self.count), todo);
    }

    pub(super) fn after(&mut self, seconds: u64, todo: Todo) {
        let at = self.now() + Duration::from_secs(seconds);
        self.then(at, todo);
    }

    pub(super) fn queue_is_away(&mut self, seconds: u64) {
        let now = self.now();
        self.evidence.queue_away.push((now, now + Duration::from_secs(seconds)));
    }

    /// Lets everything happen, then waits until nothing is left to do.
    async fn come_to_rest(&mut self) {
        let end = self.evidence.begun + self.limit();
        let mut calm = 0;
        let settled = self.settled();
        // Looks before this time cannot decide when the run ends.
        let counted = (settled - Duration::from_secs(CALM_LOOKS + 5)).min(end);
        while calm < CALM_LOOKS || self.now() < settled {
            let next = self.todo.first_key_value().map(|((at, _), _)| *at);
            let look = self.now() + Duration::from_secs(1);
            self.stage.clock.sleep_until(next.map_or(look, |n| n.min(look))).await;
            while let Some(entry) = self.todo.first_entry()
                && entry.key().0 <= self.stage.clock.now()
            {
                let todo = entry.remove();
                self.perform(todo);
            }
            self.look();
            self.resume_again();
            if self.now() < counted {
                continue;
            }
            let restless = if self.todo.is_empty() {
                self.restless()
            } else {
                vec!["more is to come".to_owned()]
            };
            calm = if restless.is_empty() { calm + 1 } else { 0 };
            if self.now() > end {
                self.evidence.restless = restless;
                return;
            }
        }
    }

    /// The longest that this run may take. What is done for a rebalance recommendation may last
    /// until it expires after an hour (`--rebalance-ttl`).
    fn limit(&self) -> Duration {
        let is_recommended = self.plan.acts.iter().any(|(_, act)| {
            matches!(act, Act::Rebalance { .. } | Act::Large { notice: false, .. })
        });
        let lasts = is_recommended && !self.has_flag("--on=rebalance=ignore");
        if lasts { LIMIT + Duration::from_hours(1) } else { LIMIT }
    }

    /// When what the plan does to instances has ended them, and their groups have seen it.
    fn settled(&self) -> Moment {
        let ends_after = |act: &Act| match act {
            // AWS terminates the instances of a Capacity Block ten minutes after the warning.
            Act::Block { picks } if !picks.is_empty() => Duration::from_mins(10),
            Act::Change { starts, end, .. } => {
                Duration::from_secs(starts + end.moved_by()) + Duration::from_mins(2)
            }
            Act::ChangeInEc2 { starts, .. } => {
                Duration::from_secs(*starts) + Duration::from_mins(2)
            }
            // It leaves once its drain is over. The sweep finds that within minutes.
            Act::IntoPool { seconds, .. } => Duration::from_secs(seconds + 900),
            Act::RootVolume { .. } | Act::NewRootVolume { .. } => Duration::from_mins(15),
            Act::WarmPool { seconds, .. } => Duration::from_secs(seconds + 1200),
            Act::KeepCordoned { seconds, .. } | Act::Standby { seconds, .. } => {
                Duration::from_secs(seconds + 300)
            }
            // It is drained after three minutes, and put back after five.
            Act::FailCheck { seconds, .. } => {
                Duration::from_secs((*seconds).min(400)) + Duration::from_mins(8)
            }
            // The last reclaim takes two minutes.
            _ => Duration::from_mins(2),
        };
        let acts = self.plan.acts.iter();
        let ends = acts.map(|(at, act)| Duration::from_millis(*at) + ends_after(act)).max();
        // The acts begin after 20 s. A group sees the end of an instance after half a minute.
        let seen = Duration::from_secs(20 + 55);
        self.evidence.begun + ends.unwrap_or(Duration::from_mins(2)) + seen
    }

    /// Remembers what is forgotten later.
    fn look(&mut self) {
        self.note_death();
        self.look_at_volumes();
        let Evidence { nodes, groups, blocks, .. } = &mut self.evidence;
        let claims = |node: &str| node.starts_with(CLAIMS);
        self.stage.world.each_node(|instance, node| {
            if !claims(node) {
                remember(nodes, instance, node);
            }
        });
        self.stage.world.aws.each_instance(|instance| {
            if let Some(group) = &instance.group {
                remember(groups, &instance.id, group);
            }
            if let Some(block) = &instance.capacity_reservation {
                remember(blocks, &instance.id, block);
            }
        });
        while let Ok(change) = self.changed.try_recv() {
            self.evidence.changes.push(change);
        }
    }

    /// A volume is detached some time after its pod has ended.
    fn look_at_volumes(&mut self) {
        for single in &self.plan.drain.singles {
            let after = single.volume.and_then(|volume| volume.detached_after);
            let Some(after) = after.filter(|_| !self.detaching.contains(&single.name)) else {
                continue;
            };
            let pod = self.stage.world.kube.object("pods", "extra", &single.name);
            let is_over = |pod: Value| {
                ["Succeeded", "Failed"].iter().any(|phase| pod["status"]["phase"] == *phase)
            };
            if pod.is_none_or(is_over) {
                self.detaching.insert(single.name.clone());
                self.after(after, Todo::Detach(single.name.clone()));
            }
        }
    }

    fn detach(&mut self, pod: &str) {
        let now = self.now();
        self.stage.world.kube.remove("volumeattachments", "", &format!("csi-{pod}"));
        for volume in self.evidence.volumes.iter_mut().filter(|volume| volume.pod == pod) {
            volume.detached = Some(now);
        }
    }

    fn restless(&self) -> Vec<String> {
        let mut all = Vec::new();
        let world = &self.stage.world;
        all.extend(
            world
                .aws
                .actions()
                .iter()
                .filter(|a| a.end.is_none())
                .map(|a| format!("the action {}/{} of {} is open", a.group, a.hook, a.instance)),
        );
        let (is_dry, is_shared) = (self.has_flag("--dry-run"), self.has_flag("--shared-queue"));
        let mut messages =
            world.aws.queue(world.queue()).map(|queue| queue.messages).unwrap_or_default();
        if is_dry || is_shared {
            // A dry run deletes none. On a shared queue, what may be for another cluster stays.
            messages.clear();
        }
        all.extend(
            messages
                .iter()
                .filter(|m| !self.is_garbage(&m.body))
                .map(|m| format!("a message waits: {}", m.body)),
        );
        all.extend(world.kube.collect("nodes", |node, _| {
            let record = record(node).filter(|r| r["released"].is_null() && !is_dry)?;
            // The machine booted since, and then its instance ended: nobody deletes the Node.
            let has_booted = record["boot"].as_str().is_some_and(|boot| {
                node["status"]["nodeInfo"]["bootID"].as_str().is_some_and(|now| now != boot)
            });
            let instance = record["instance"].as_str().unwrap_or_default();
            let has_ended =
                world.aws.instance(instance).is_none_or(|i| i.state == State::Terminated);
            let is_left = self.plan.cloud_controller == CloudController::Missing;
            if has_booted && has_ended && is_left {
                return None;
            }
            Some(format!("the record of {} is open: {record:?}", node["metadata"]["name"]))
        }));
        all
    }

    fn has_flag(&self, name: &str) -> bool {
        self.plan.flags.iter().any(|flag| flag == name)
    }

    fn is_garbage(&self, body: &str) -> bool {
        self.plan.acts.iter().any(|(_, a)| matches!(a, Act::Garbage { body: b } if b == body))
    }

    async fn bring_in(mut self) -> Evidence {
        for ended in self.parting.drain(..) {
            ended.await.unwrap();
        }
        self.look();
        if self.has_flag("--delete-node") {
            // Until Sundown has deleted the last Node: nothing else shows that it will.
            self.stage.pass(150).await;
            self.look();
        }
        let before = (self.stage.world.kube.request_count(), self.stage.world.aws.call_count());
        self.stage.pass(60).await;
        self.look();
        self.forget_pauses();
        let world = &self.stage.world;
        self.evidence.ended = self.stage.clock.now();
        self.evidence.entries = world.kube.journal();
        self.evidence.requests = world.kube.requests();
        self.evidence.calls = world.aws.calls();
        self.evidence.service_changes = world.aws.service_changes();
        self.evidence.check_changes = world.aws.check_changes();
        self.evidence.scheduled = world.aws.scheduled();
        let quiet =
            |r: &&Request| r.resource == "leases" || r.verb == "watch" || r.resource == "events";
        let idle = self.evidence.requests[before.0..].iter().filter(|r| !quiet(r)).count();
        let poll = |c: &&Call| c.api.starts_with("sqs:");
        self.evidence.idle =
            idle + self.evidence.calls[before.1..].iter().filter(|c| !poll(c)).count();
        self.evidence.actions = world.aws.actions();
        self.evidence.messages = world.aws.messages();
        self.evidence.deletions = world.aws.deletions();
        self.evidence.disturbances = self.stage.disturbances();
        self.evidence.events = self.stage.events();
        for replica in self.replicas.into_iter().flatten() {
            replica.stop().await;
        }
        self.evidence.panics = self.stage.panics();
        self.stage.end_unjudged();
        self.evidence
    }

    fn perform(&mut self, todo: Todo) {
        let kube = self.stage.world.kube.clone();
        match todo {
            Todo::Act(act) => self.act(&act),
            Todo::Lift(rule) => kube.lift(rule),
            Todo::KubeBack => kube.come_back(),
            Todo::Calm => kube.overload(None),
            Todo::Authorize => kube.unauthorized(false),
            Todo::Thaw => kube.freeze_disruption_controller(false),
            Todo::Start(replica) => self.start(replica),
            Todo::Resume(node) => {
                self.annotate("nodes", "", &node, "sundown.dev/pause", None);
            }
            Todo::ResumeAll => {
                // Who finds no Lease to write on tries again.
                if self.annotate("leases", "kube-system", "sundown", "sundown.dev/pause", None) {
                    self.no_pause();
                } else {
                    self.after(2, Todo::ResumeAll);
                }
            }
            Todo::Announce(notice) => self.stage.world.aws.health(&notice),
            Todo::Stop(instance) => self.stage.world.aws.stop(&instance),
            Todo::Reboot(instance) => self.reboot(&instance),
            Todo::ShowInEc2(instance, event) => self.stage.world.aws.schedule(&instance, event),
            Todo::EndKeepCordoned(node) => {
                self.annotate("nodes", "", &node, KEEP_CORDONED, None);
            }
            Todo::Unset(node, key) => {
                self.annotate("nodes", "", &node, key, None);
            }
            Todo::Detach(pod) => self.detach(&pod),
            Todo::NewRoot(instance) => self.boot_from_new_root(instance),
            Todo::FailRootVolume(instance) => self.stage.world.aws.fail_root_volume(&instance),
            Todo::ExitStandby(instance) => drop(self.stage.world.aws.exit_standby(&instance)),
            Todo::EndInPool { instance, leaves } => self.end_in_pool(instance, leaves),
            Todo::LeavePool { instance, with_event } => self.leave_pool(instance, with_event),
            Todo::KubeletBack(node) => {
                self.hand(&node, "back");
                kube.kubelet_back(&node);
            }
            Todo::PassCheck(instance) => {
                self.stage.world.aws.fail_check(&instance, Check::Instance, false);
            }
            fault => self.end_fault(fault),
        }
    }

    fn act(&mut self, act: &Act) {
        let world = self.stage.world.clone();
        let (aws, kube) = (&world.aws, &world.kube);
        let now = self.now();
        match act {
            Act::ScaleIn { group, count } => {
                drop(aws.scale_in(&self.plan.groups[*group].name, *count));
            }
            Act::Spot { pick, what } => {
                let what = [SpotAction::Terminate, SpotAction::Stop, SpotAction::Hibernate]
                    [usize::from(*what)];
                self.with_instance(*pick, |id| aws.spot_interruption(id, what));
            }
            Act::Capacity { pick } => self.with_instance(*pick, |id| aws.capacity_interruption(id)),
            Act::Block { picks } => self.end_block(picks),
            Act::Change { pick, starts, end, code } => self.announce(*pick, *starts, *end, code),
            Act::ChangeInEc2 { pick, starts, canceled, code } => {
                self.schedule_in_ec2(*pick, *starts, *canceled, code);
            }
            Act::MadeUp { pick } => self.make_up(*pick),
            Act::RootVolume { pick } => self.replace_root_volume(*pick),
            Act::NewRootVolume { pick, fails } => self.new_root_volume(*pick, *fails),
            Act::Standby { pick, lower_desired, seconds } => {
                self.stand_by(*pick, *lower_desired, *seconds);
            }
            Act::WarmPool { pick, is_new, seconds, ends_there } => {
                self.use_warm_pool(*pick, *is_new, *seconds, *ends_there);
            }
            Act::IntoPool { pick, seconds, with_event } => {
                self.return_to_pool(*pick, *seconds, *with_event);
            }
            Act::LoseEvents { seconds } => aws.lose_events(now + Duration::from_secs(*seconds)),
            Act::EndInEc2 { pick, stop } => self.with_instance(*pick, |id| {
                if *stop { aws.stop(id) } else { aws.terminate_in_ec2(id) }
            }),
            Act::Rebalance { pick } => {
                self.with_instance(*pick, |id| aws.rebalance_recommendation(id));
            }
            Act::FailCheck { pick, seconds } => {
                let mut sick = None;
                self.with_instance(*pick, |id| {
                    aws.fail_check(id, Check::Instance, true);
                    sick = Some(id.to_owned());
                });
                if let Some(instance) = sick.filter(|_| *seconds < 10_000) {
                    self.after(*seconds, Todo::PassCheck(instance));
                }
            }
            Act::FalseState { pick } => {
                self.with_instance(*pick, |id| aws.state_change_event(id, State::Stopping));
            }
            Act::OldNotice { pick, age } => {
                self.with_instance(*pick, |id| {
                    drop(aws.send_event(
                        world.queue(),
                        &old_notice(id, now - Duration::from_secs(*age)),
                    ));
                });
            }
            Act::Again { pick } => {
                let all = aws.deletions();
                if !all.is_empty() {
                    aws.send_event(world.queue(), &all[pick % all.len()].body);
                }
            }
            Act::Garbage { body } => drop(aws.send_event(world.queue(), body)),
            Act::Stranger => {
                drop(aws.send_event(world.queue(), &old_notice("i-0123456789abcdef0", now)));
            }
            Act::Aws { api, fault, share, seconds } => {
                let until = now + Duration::from_secs(*seconds);
                aws.fault(FaultRule::new(api, *fault, How::ProbabilityUntil(*share, until)));
            }
            Act::Kube { matching, fault, share, seconds } => {
                let rule = kube.inject(Rule {
                    share: *share,
                    ..Rule::always(matching.clone(), fault.clone())
                });
                self.after(*seconds, Todo::Lift(rule));
            }
            Act::KubeAway { how, seconds } => {
                kube.go_away(*how);
                self.after(*seconds, Todo::KubeBack);
            }
            Act::Overload { retry_after, seconds } => {
                kube.overload(Some(*retry_after));
                self.after(*seconds, Todo::Calm);
            }
            Act::Unauthorized { seconds } => {
                kube.unauthorized(true);
                self.after(*seconds, Todo::Authorize);
            }
            Act::CutWatches { broken, compact } => {
                if *compact {
                    kube.compact();
                }
                if *broken {
                    kube.break_watches(&Match::all());
                } else {
                    kube.cut_watches(&Match::all());
                }
            }
            Act::FreezeDisruption { seconds } => {
                kube.freeze_disruption_controller(true);
                self.evidence.frozen.push((now, now + Duration::from_secs(*seconds)));
                self.after(*seconds, Todo::Thaw);
            }
            Act::Kill { replica, down } | Act::Term { replica, down } => {
                let replica = replica % self.replicas.len();
                if let Some(process) = self.replicas[replica].take() {
                    self.end_life(replica, now);
                    if matches!(act, Act::Kill { .. }) {
                        process.kill();
                    } else {
                        // Beside what comes next: it stays for as long as its long poll.
                        self.parting.push(tokio::spawn(process.stop()));
                    }
                    self.after(*down, Todo::Start(replica));
                }
            }
            Act::DeleteLease => {
                self.evidence.thefts += 1;
                self.leases_deleted.push(now);
                kube.delete("leases", "kube-system", "sundown");
            }
            Act::StealLease => {
                self.evidence.thefts += 1;
                let time = now.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string();
                kube.edit("leases", "kube-system", "sundown", |l| {
                    l["spec"]["holderIdentity"] = json!("thief");
                    l["spec"]["renewTime"] = json!(time);
                });
            }
            person if person.is_by_a_person() => self.person(person),
            fault => self.fault(fault),
        }
    }
}

fn remember(known: &mut BTreeMap<String, String>, key: &str, value: &str) {
    if known.get(key).is_none_or(|before| before != value) {
        known.insert(key.to_owned(), value.to_owned());
    }
}

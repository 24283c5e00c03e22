//! The expected verdict, derived only from flags and facts. Nothing here calls the code under test:
//! neither the table nor the functions that the table uses.

use super::*;

/// How long a verdict waits for a description of hooks, for a proof, and for a Node, in seconds.
const WAITS_FOR_HOOKS: i64 = 1;
const WAITS_FOR_PROOF: i64 = 10;
const WAITS_FOR_NODE: i64 = 300;

/// Flags as an operator gives them, and the policy that follows from them.
#[derive(Debug, Clone)]
pub(super) struct Flags {
    /// `--lifecycle-hook`
    pub(super) globs: Vec<&'static str>,
    pub(super) policy: Policy,
}

/// The kind of a verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Expected {
    Accept(Certainty),
    Complete,
    AnswerLaunch,
    Wait,
    Delete(Reason),
    Leave(Reason),
}

impl Expected {
    pub(super) fn of(verdict: &Verdict) -> Self {
        match verdict {
            Verdict::Accept(accept) | Verdict::Plan(accept) => Self::Accept(accept.certainty),
            Verdict::Complete(_) => Self::Complete,
            Verdict::AnswerLaunch(_) => Self::AnswerLaunch,
            Verdict::Wait(_) => Self::Wait,
            Verdict::Delete(reason) => Self::Delete(*reason),
            Verdict::GiveBack(reason) => Self::Leave(*reason),
        }
    }
}

/// One interruption, what is known about it, and the flags.
pub(super) struct Model<'a> {
    pub(super) i: &'a Interruption,
    pub(super) known: &'a Knowledge,
    pub(super) flags: &'a Flags,
    pub(super) now: Moment,
}

/// Whether a glob with at most one `*` matches.
fn glob_matches(glob: &str, name: &str) -> bool {
    match glob.split_once('*') {
        None => glob == name,
        Some((start, end)) => {
            name.len() >= start.len() + end.len() && name.starts_with(start) && name.ends_with(end)
        }
    }
}

/// Whether tags name a cluster, and whether they name this one.
fn names(tags: &BTreeMap<String, String>) -> (bool, bool) {
    let owner = tags.keys().any(|key| key.starts_with("kubernetes.io/cluster/"));
    let eks = tags.get("eks:cluster-name");
    let ours =
        tags.contains_key("kubernetes.io/cluster/prod") || eks.is_some_and(|name| name == "prod");
    (owner || eks.is_some(), ours)
}

/// `sundown.dev/ignore` and the node selector of [`policy`] allow that the Node is drained.
pub(super) fn may_touch(node: &Node) -> bool {
    let ignored = node.annotations.get("sundown.dev/ignore").is_some_and(|value| value == "true");
    let karpenter = node.labels.contains_key("karpenter.sh/nodepool");
    let auto =
        node.labels.get("eks.amazonaws.com/compute-type").is_some_and(|value| value == "auto");
    !ignored && !karpenter && !auto
}

fn later(moment: Moment, seconds: i64) -> Moment {
    moment + jiff::SignedDuration::from_secs(seconds)
}

impl Model<'_> {
    fn action(&self) -> Option<&HookAction> {
        match &self.i.cause {
            Cause::Terminate(action) | Cause::Launch(action) => Some(action),
            _ => None,
        }
    }

    fn facts(&self) -> Option<&InstanceFacts> {
        self.known.instance.as_ref()?.facts.as_ref()
    }

    /// Whether Sundown answers the hook; `Ours` without a hook.
    pub(super) fn claim(&self) -> HookClaim {
        let claim = self.claim_by(self.known.hooks.as_ref());
        let was_foreign = self.claim_by(self.known.hooks_before.as_ref()) == HookClaim::Foreign;
        if claim == HookClaim::Unchecked && was_foreign { HookClaim::Undecided } else { claim }
    }

    /// The hooks were asked for less than a second ago or not at all, or the hook was another
    /// party's by their last description.
    fn waits_for_hooks(&self) -> bool {
        let is_over = self
            .known
            .hooks_asked_at
            .is_some_and(|asked| self.now >= later(asked, WAITS_FOR_HOOKS));
        !is_over || self.claim_by(self.known.hooks_before.as_ref()) == HookClaim::Foreign
    }

    fn claim_by(&self, hooks: Option<&HooksAnswer>) -> HookClaim {
        let Some(action) = self.action() else { return HookClaim::Ours };
        let name = action.hook.as_str();
        let of_eks = ["Terminate-LC-Hook", "Launch-LC-Hook"].contains(&name);
        if !self.flags.globs.is_empty() {
            let is_named = self
                .flags
                .globs
                .iter()
                .any(|glob| if of_eks { *glob == name } else { glob_matches(glob, name) });
            return if is_named { HookClaim::Ours } else { HookClaim::Foreign };
        }
        if of_eks {
            return HookClaim::Foreign;
        }
        if name.starts_with("sundown") {
            return HookClaim::Ours;
        }
        let transition = if matches!(self.i.cause, Cause::Launch(_)) {
            Transition::Launching
        } else {
            Transition::Terminating
        };
        match hooks {
            None => HookClaim::Undecided,
            Some(HooksAnswer::Denied) => HookClaim::Unchecked,
            Some(HooksAnswer::Described(all)) => {
                let another = all
                    .iter()
                    .any(|(hook, of)| *of == transition && hook.as_str().starts_with("sundown"));
                if another { HookClaim::Foreign } else { HookClaim::Ours }
            }
        }
    }

    /// The tags of the instance or of its group name this cluster; `None` until they have been
    /// read.
    pub(super) fn is_ours(&self) -> Option<bool> {
        let (named, ours) = self.facts().map_or((false, false), |facts| names(&facts.tags));
        if named || ours {
            return Some(ours);
        }
        if self.group_is_ours() == Some(true) {
            return Some(true);
        }
        let all_read = self.known.instance.is_some()
            && (self.action().is_none() || self.known.group.is_some());
        all_read.then_some(false)
    }

    fn group_is_ours(&self) -> Option<bool> {
        self.known
            .group
            .as_ref()
            .map(|answer| matches!(answer, GroupAnswer::Tags(tags) if names(tags).1))
    }

    /// The instance has the tag of `--managed-tag`; `None` until that is known.
    pub(super) fn is_managed(&self) -> Option<bool> {
        let Some(key) = &self.flags.policy.managed_tag else { return Some(true) };
        let _answer = self.known.instance.as_ref()?;
        if self.facts().is_some_and(|facts| facts.tags.contains_key(key)) {
            return Some(true);
        }
        // A terminated instance soon loses its tags. Then those of its group count, if a hook names
        // the group.
        let lives = self.facts().is_some_and(|facts| facts.state != InstanceState::Terminated);
        if lives || self.action().is_none() {
            return Some(false);
        }
        self.known
            .group
            .as_ref()
            .map(|answer| matches!(answer, GroupAnswer::Tags(tags) if tags.contains_key(key)))
    }

    /// The interruption is stale.
    pub(super) fn is_late(&self) -> bool {
        let age = self.now.duration_since(self.known.happened).as_secs();
        let stale_after = match (&self.i.cause, &self.known.hook) {
            (Cause::Spot(_) | Cause::CapacityReservation { .. }, _) => 120,
            (Cause::CapacityBlock { .. }, _) => 2400,
            (Cause::StateChange(_), _) => 60,
            (Cause::Terminate(_), Some(HookAnswer::Described(hook))) => {
                i64::try_from(hook.heartbeat_timeout.as_secs()).unwrap()
            }
            (Cause::Terminate(_), _) => 30,
            _ => i64::MAX,
        };
        let stops = [InstanceState::Stopping, InstanceState::Stopped];
        let is_stop = matches!(&self.i.cause, Cause::StateChange(state) if stops.contains(state));
        let has_newer_node =
            self.known.nodes.iter().any(|node| node.created > Some(self.known.happened));
        age > stale_after || (is_stop && has_newer_node)
    }

    /// The instance stops or has ended, according to EC2, asked after the message was received;
    /// `None` without such an answer.
    fn ends(&self) -> Option<bool> {
        let answer =
            self.known.instance.as_ref().filter(|answer| answer.at >= self.known.received)?;
        let lives = |facts: &InstanceFacts| {
            [InstanceState::Pending, InstanceState::Running].contains(&facts.state)
        };
        Some(!answer.facts.as_ref().is_some_and(lives))
    }

    /// EC2 showed half a minute ago that the instance stops: it may run again.
    fn stopped_long_ago(&self, now: Moment) -> bool {
        let stops = |facts: &InstanceFacts| {
            [InstanceState::Stopping, InstanceState::Stopped].contains(&facts.state)
        };
        self.known.instance.as_ref().is_some_and(|answer| {
            answer.facts.as_ref().is_some_and(stops) && now > answer.at.plus(seconds(30))
        })
    }

    /// The interruption is proved (`true`) or disproved (`false`); `None` if it is neither.
    pub(super) fn holds(&self) -> Option<bool> {
        self.holds_at(self.now)
    }

    fn holds_at(&self, now: Moment) -> Option<bool> {
        let heartbeat =
            self.known.heartbeat.filter(|_| matches!(self.i.cause, Cause::Terminate(_)));
        let ends = self.ends() == Some(true) && !self.stopped_long_ago(now);
        if ends || heartbeat.is_some_and(|heartbeat| heartbeat.accepted) {
            return Some(true);
        }
        let runs = self.ends() == Some(false);
        match &self.i.cause {
            // The instance was asked for after the hook: it did not end in between.
            Cause::Terminate(_) => {
                let is_over = heartbeat.is_some_and(|heartbeat| {
                    self.known.instance.as_ref().is_some_and(|answer| answer.at >= heartbeat.at)
                });
                (runs && is_over).then_some(false)
            }
            _ => runs.then_some(false),
        }
    }

    /// The expected answer of [`super::holds`]. A hook that was read within its timeout holds, too.
    pub(super) fn holds_after_accept(&self) -> Option<bool> {
        let read_in_time = match (&self.i.cause, &self.known.hook) {
            (Cause::Terminate(_), Some(HookAnswer::Described(hook))) => {
                let age = self.known.received.duration_since(self.known.happened).as_secs();
                age <= i64::try_from(hook.heartbeat_timeout.as_secs()).unwrap()
            }
            _ => false,
        };
        let answered = self.known.instance.as_ref().map_or(self.now, |answer| answer.at);
        self.holds_at(answered).or_else(|| read_in_time.then_some(true))
    }

    fn dropped(&self, reason: Reason) -> Expected {
        let others_may_want_it = [
            Reason::Foreign,
            Reason::ForeignHook,
            Reason::NotManaged,
            Reason::Unknown,
            Reason::Irrelevant,
        ]
        .contains(&reason);
        if self.flags.policy.shared_queue && others_may_want_it {
            Expected::Leave(reason)
        } else {
            Expected::Delete(reason)
        }
    }

    /// The expected verdict if at most one Node claims the instance: `node`, with its providerID.
    pub(super) fn expected(&self, node: Option<&Node>) -> Expected {
        let claim = self.claim();
        if self.action().is_some() && claim == HookClaim::Foreign {
            return self.dropped(Reason::ForeignHook);
        }
        let is_undecided = claim == HookClaim::Undecided;
        match &self.i.cause {
            Cause::Terminate(_) if self.known.action_end == ActionEndSeen::Completed => {
                self.dropped(Reason::Stale)
            }
            Cause::Rebalance if self.known.age(self.now) > self.flags.policy.rebalance_ttl => {
                self.not_acted_on(node, Reason::Stale)
            }
            Cause::StateChange(InstanceState::Running | InstanceState::Pending) => {
                self.dropped(Reason::Irrelevant)
            }
            Cause::Launch(action) => match self.launch(node, action) {
                Expected::AnswerLaunch if is_undecided => Expected::Wait,
                decided => decided,
            },
            _ => match node.map_or_else(|| self.without_node(), |node| self.with_node(node)) {
                Expected::Complete if is_undecided => Expected::Wait,
                Expected::Accept(_) if is_undecided && self.waits_for_hooks() => Expected::Wait,
                decided => decided,
            },
        }
    }

    fn not_acted_on(&self, node: Option<&Node>, reason: Reason) -> Expected {
        let others_may_act = self.flags.policy.shared_queue && node.is_none();
        if others_may_act { Expected::Leave(reason) } else { Expected::Delete(reason) }
    }

    fn launch(&self, node: Option<&Node>, action: &HookAction) -> Expected {
        let is_ignored = |node: &Node| {
            node.annotations.get("sundown.dev/ignore").is_some_and(|value| value == "true")
        };
        if node.is_some_and(is_ignored) || self.is_managed() == Some(false) {
            return self.dropped(Reason::NotManaged);
        }
        if self.is_managed().is_none() {
            return Expected::Wait;
        }
        if self.flags.globs.iter().any(|glob| glob_matches(glob, action.hook.as_str())) {
            return self.launch_of_ours(node);
        }
        if self.flags.policy.cluster_name.is_none() {
            return self.not_acted_on(node, Reason::NothingToDo);
        }
        match self.group_is_ours() {
            Some(true) => self.launch_of_ours(node),
            Some(false) => self.dropped(Reason::Foreign),
            None => Expected::Wait,
        }
    }

    /// Until its node is ready, its time is over, or nothing is left to wait for.
    fn launch_of_ours(&self, node: Option<&Node>) -> Expected {
        let is_gone = self.known.instance.as_ref().is_some_and(|answer| {
            let state = answer.facts.as_ref().map_or(InstanceState::Terminated, |f| f.state);
            let is_over = [InstanceState::ShuttingDown, InstanceState::Terminated].contains(&state);
            answer.at >= self.known.received && is_over
        });
        let is_over = self.known.action_end != ActionEndSeen::NotKnown || is_gone;
        let timed_out = self.now >= later(self.known.happened, 300)
            && self.now >= later(self.known.received, 15);
        let is_renewed = |node: &Node| {
            self.known.lease().is_some_and(|lease| {
                lease.node == node.name && lease.renewed >= Some(self.known.happened)
            })
        };
        let is_selected = node.is_none_or(may_touch);
        let is_ready = node.is_some_and(|node| node.ready == Ready::True);
        if !is_over && timed_out && is_ready && !is_selected {
            return self.dropped(Reason::NotManaged);
        }
        let is_ready = is_ready && is_selected && node.is_some_and(is_renewed);
        if is_over || timed_out || is_ready { Expected::AnswerLaunch } else { Expected::Wait }
    }

    fn with_node(&self, node: &Node) -> Expected {
        if !may_touch(node) || self.is_managed() == Some(false) {
            return self.dropped(Reason::NotManaged);
        }
        if self.is_managed().is_none() {
            return Expected::Wait;
        }
        if !self.is_late() {
            return Expected::Accept(Certainty::Timely);
        }
        let given_up = self
            .known
            .proof_asked_at
            // A stop that is too old is asked about anew.
            .filter(|asked| !self.stopped_long_ago(self.now) || self.stopped_long_ago(*asked))
            .is_some_and(|asked| self.now >= later(asked, WAITS_FOR_PROOF));
        match self.holds() {
            Some(true) => Expected::Accept(Certainty::Proved),
            Some(false) => self.dropped(Reason::Stale),
            None if given_up => Expected::Accept(Certainty::Unproved),
            None => Expected::Wait,
        }
    }

    /// Until when a running instance may still become a Node.
    fn joins_until(&self) -> Moment {
        later(
            self.facts().and_then(|facts| facts.launched).unwrap_or(self.known.received),
            WAITS_FOR_NODE,
        )
    }

    fn without_node(&self) -> Expected {
        let Some(answer) = self.known.instance.as_ref().filter(|_| self.known.index_trusted) else {
            return Expected::Wait;
        };
        if self.flags.policy.cluster_name.is_none() {
            // It cannot be found out to which cluster the instance belongs.
            if answer.facts.is_none() && self.action().is_none() {
                return self.dropped(Reason::Foreign);
            }
            let waits = !self.flags.policy.shared_queue && self.now < self.joins_until();
            return if waits { Expected::Wait } else { self.dropped(Reason::Unknown) };
        }
        match (self.is_ours(), self.is_managed()) {
            (Some(false), _) => return self.dropped(Reason::Foreign),
            (Some(true), Some(false)) => return self.dropped(Reason::NotManaged),
            (None, _) | (_, None) => return Expected::Wait,
            (Some(true), Some(true)) => {}
        }
        let Some(ends) = self.ends() else { return Expected::Wait };
        let due = if ends { self.known.received } else { self.joins_until() };
        if self.now < due {
            return Expected::Wait;
        }
        if self.action().is_none() {
            return self.dropped(Reason::NoNode);
        }
        // The LIST lacks the Node. It counts if it began once the Node could no longer join, and
        // after EC2 was asked.
        let is_listed =
            self.known.listed.as_ref().is_some_and(|(at, _)| *at >= due && *at >= answer.at);
        if is_listed { Expected::Complete } else { Expected::Wait }
    }

    /// The hook is expected to get heartbeats, under the same condition.
    pub(super) fn heartbeats(&self, node: Option<&Node>) -> bool {
        let ours = match &self.i.cause {
            Cause::Terminate(_) => node.map_or_else(
                || self.flags.policy.cluster_name.is_some() && self.is_ours() == Some(true),
                may_touch,
            ),
            Cause::Launch(action) => {
                let mut globs = self.flags.globs.iter();
                let is_named = globs.any(|glob| glob_matches(glob, action.hook.as_str()));
                let by_tags = || {
                    self.flags.policy.cluster_name.is_some() && self.group_is_ours() == Some(true)
                };
                let is_ignored = |node: &Node| {
                    node.annotations.get("sundown.dev/ignore").is_some_and(|v| v == "true")
                };
                !node.is_some_and(is_ignored) && (is_named || by_tags())
            }
            _ => false,
        };
        self.claim() != HookClaim::Foreign && ours && self.is_managed() == Some(true)
    }
}

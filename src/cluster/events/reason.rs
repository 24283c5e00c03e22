//! All reasons of Events, and what each means. `docs/events.md` is generated from this table.

use super::Severity;

/// The kind of object that has the Events of a reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Object {
    /// `kubectl describe node` shows the Event.
    Node,
    /// `kubectl describe pod` shows the Event.
    Pod,
}

impl Object {
    /// The word for the table in `docs/events.md`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Node => "node",
            Self::Pod => "pod",
        }
    }
}

/// The description of a reason, for `docs/events.md`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Meaning {
    /// The types of its Events.
    pub severities: &'static [Severity],
    /// The objects that have its Events.
    pub objects: &'static [Object],
    /// When an Event is written, and what its message contains.
    pub when: &'static str,
    /// What to do about it. Links are relative to `docs`.
    pub remedy: &'static str,
}

macro_rules! reasons {
    ($($(#[$doc:meta])* $variant:ident [$($severity:ident),+] [$($object:ident),+] $when:literal => $remedy:literal;)+) => {
        /// The reason of an Event.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum EventReason {
            $($(#[$doc])* $variant),+
        }

        impl EventReason {
            /// All reasons, roughly in the order of a drain.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// `reason` of the Event.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => stringify!($variant)),+
                }
            }

            /// The description of this reason.
            #[must_use]
            pub const fn meaning(self) -> Meaning {
                match self {
                    $(Self::$variant => Meaning {
                        severities: &[$(Severity::$severity),+],
                        objects: &[$(Object::$object),+],
                        when: $when,
                        remedy: $remedy,
                    }),+
                }
            }
        }
    };
}

reasons! {
    /// Sundown accepted an interruption of the node.
    InterruptionAccepted [Normal, Warning] [Node]
        "Sundown accepted an interruption, or joined it to one that the node already has. The \
         message names its kind and the instance. The node is cordoned, and its drain begins. \
         `Normal` for a terminate hook, `Warning` for interruptions that leave less time."
        => "Nothing. If the node should not go: [pause or release its \
            drain](operations.md#pausing-drains).";
    /// A test event for the node arrived.
    TestReceived [Normal] [Node]
        "A test event for the instance of the node arrived. The message reports what Sundown would \
         do if the event were real. Sundown did nothing."
        => "Nothing: it is the answer to [`sundown send-test`](commands.md#sundown-send-test).";
    /// The evictions of a node do not begin at once.
    EvictionsWait [Normal] [Node]
        "The node is cordoned, and its pods stay for now, because `--evict-after` is set for the \
         kind of its interruption. The message names what the evictions wait for, and until when at \
         the latest."
        => "Nothing. To evict at once, remove [`--evict-after`](interruptions.md#evict-later).";
    /// Gates delay a drain or the completion of its lifecycle actions.
    GatesHold [Warning] [Node]
        "Annotations `pre-drain.sundown.dev/NAME` delay the evictions of the node, or annotations \
         `pre-release.sundown.dev/NAME` delay the completion of its lifecycle actions. The message \
         names the annotations, their values, and until when they delay it at the latest."
        => "Wait for whoever set the annotation, or remove it: [gates](operations.md#gates).";
    /// The evictions of a node wait for other drains.
    DrainHeldBack [Normal] [Node]
        "The node is cordoned, and its pods stay for now, because other nodes are being drained: as \
         many as `--max-drains-per-group` or `--max-voluntary` allows, or another control-plane \
         node. The message names the reason, and until when the evictions wait at the latest."
        => "Nothing. To evict at once: [how many nodes at \
            once](interruptions.md#how-many-nodes-at-once).";
    /// The evictions of a node no longer wait for other drains.
    DrainBegins [Normal] [Node]
        "The evictions of a node that was held back (`DrainHeldBack`) begin: fewer nodes are being \
         drained now, the drain has waited for as long as it can, or something has come that \
         leaves no time."
        => "Nothing.";
    /// Gates hold nothing.
    GatesIgnored [Normal] [Node]
        "The drain, or the completion of its lifecycle actions, does not wait for the gates on the \
         node, or no longer: the deadline is 5 minutes or less after the event (as for spot), the \
         longest time for gates has passed, the deadline has passed, or a person forces the drain. \
         The message names the gates and the reason."
        => "Nothing: [how long gates hold](operations.md#gates).";
    /// A person forces a drain.
    DrainForced [Warning] [Node]
        "A person forces the drain, with `sundown force` or the annotation `sundown.dev/force`. \
         Sundown no longer waits for budgets, gates or other drains. It evicts each pod first, and \
         deletes it if the eviction is refused, or finds no slot within two seconds."
        => "Nothing. To let the drain wait again, remove the annotation: \
            [force a drain](operations.md#force-a-drain).";
    /// Settings of the node or of its hook are not used.
    SettingsIgnored [Warning] [Node]
        "A setting in the NotificationMetadata of the node's lifecycle hook, or in an annotation of \
         the Node, cannot be read or is not allowed by the flags. The message names the setting, its \
         value and what to write instead. The drain goes on with the next source of the setting."
        => "Correct the setting: [settings of a group or a node](settings.md).";
    /// Several Nodes claim one instance.
    DuplicateProviderID [Warning] [Node]
        "The providerIDs of several nodes name the same instance, and that instance is \
         interrupted. The message names the nodes, which of them is drained, and which is only \
         cordoned."
        => "Find out which node has a wrong providerID or is a leftover, and delete it: [several \
            nodes that claim one instance](security.md#several-nodes-that-claim-one-instance). \
            Uncordon a node that was cordoned by mistake.";
    /// The eviction of a pod was accepted.
    Evicted [Normal] [Pod]
        "The API server accepted the eviction of the pod. The message gives the time that the pod \
         has to stop. Only with `--pod-events=all`."
        => "Nothing.";
    /// A pod has less time to stop than it asks for.
    ShortenedGrace [Warning] [Pod]
        "The pod has less time to stop than its grace period, because its node goes earlier. Only \
         with `--pod-events=all`."
        => "Nothing now. A pod that needs longer than a spot notice gives (120 s in all) does not \
            belong on spot instances.";
    /// A pod waits because it asks for that.
    EvictionDelayed [Normal] [Pod]
        "The node of the pod is being drained, and the pod asks to wait, or a rule asks that. The \
         message names the annotation, the label or `--rules-file`, and until when the pod waits at \
         the latest. Written once for each pod and leader."
        => "Nothing: [what a pod can ask for](pods.md#what-a-pod-can-ask-for).";
    /// What a pod asks for has no meaning.
    PodSettingIgnored [Warning] [Pod]
        "The node of the pod is being drained, and an annotation or label of the pod has an \
         unknown value, which the message names. The pod is drained as if it were absent. Written \
         once for each pod and leader."
        => "Correct the value: [what a pod can ask for](pods.md#what-a-pod-can-ask-for).";
    /// Pods have been blocked for a while.
    Blocked [Warning] [Node, Pod]
        "A pod has been blocked for more than 30 s. The Event on the pod gives the reason and the \
         API server's message. The Event on the node names the pods, their budgets, when they are \
         deleted by force, and when the drain ends. It comes again every 5 to 9 minutes."
        => "It depends on the [reason](operations.md#reasons-of-blocked-pods).";
    /// Volumes of drained pods are attached to the node.
    VolumesAttached [Normal, Warning] [Node]
        "No pod is left on the node, and volumes of its pods are still attached. Sundown completes \
         the lifecycle action when they are detached, or at the drain's deadline. The message \
         names the volumes. It comes again every 5 to 9 minutes. `Warning`: the drain has ended, \
         and the volumes were still attached."
        => "If they stay: [volumes stay attached](operations.md#volumes-stay-attached).";
    /// The volumes of drained pods are detached from the node.
    VolumesDetached [Normal] [Node]
        "The volumes that the Event `VolumesAttached` named are detached from the node. The drain \
         ends."
        => "Nothing.";
    /// Sundown does not know which volumes are attached to the node.
    VolumesUnknown [Warning] [Node]
        "Sundown may not read which volumes are attached (a permission is missing), or got no \
         usable answer in time. It completes the lifecycle action without waiting. The message \
         has the error."
        => "If a permission is missing: [volumes stay \
            attached](operations.md#volumes-stay-attached).";
    /// A drain is paused.
    Paused [Warning] [Node]
        "The drain of the node is paused, by the annotation of the node or of the Lease."
        => "To go on: [`sundown resume`](operations.md#pausing-drains).";
    /// A drain goes on after a pause.
    Resumed [Normal] [Node]
        "The pause of the node's drain has ended; its deadline counts from then."
        => "Nothing.";
    /// Heartbeats keep a hook open.
    HookKeptOpen [Normal] [Node]
        "Auto Scaling has accepted a heartbeat for a lifecycle action of the node. Written every 9 \
         minutes for drains that last longer than 5 minutes."
        => "Nothing: [`sundown status`](commands.md#sundown-status) shows it as the last known \
            heartbeat.";
    /// A pod was deleted because it could not be evicted.
    Forced [Warning] [Node, Pod]
        "Sundown deleted the pod because it could not be evicted before the force time, or because \
         a person forced the drain. At the end of the drain, one Event on the node names all such \
         pods."
        => "Find out [what blocked it](operations.md#stuck-on-a-budget).";
    /// The DaemonSet of a pod does not exist.
    OrphanedDaemonSetPod [Warning] [Node]
        "The DaemonSet that owns a pod does not exist; the pod is drained like any other."
        => "Find out who deleted the DaemonSet and left its pods (`--cascade=orphan`).";
    /// Pods of one owner come back on the node.
    PodsComeBack [Warning] [Node]
        "More than three new pods of one owner have come to the node since the `accepted` time in \
         its record. The Event names the owner and the number of new pods. From then on Sundown \
         leaves new pods of this owner alone and does not wait for them. It still drains the pods \
         that were on the node before."
        => "[Keep its pods off cordoned nodes](operations.md#pods-come-back-on-the-node).";
    /// Somebody uncordoned a node that is being drained.
    Uncordoned [Warning] [Node]
        "Somebody uncordoned the node during its drain. The taint still keeps new pods away, and \
         the drain goes on."
        => "To end the drain: [`sundown release`](operations.md#pausing-drains).";
    /// Sundown no longer manages a node that it is draining.
    NoLongerManaged [Warning] [Node]
        "During its drain the node got the annotation `sundown.dev/ignore`, or `--node-selector` \
         no longer matches it. The drain ends as if the node were released, and its \
         lifecycle actions are completed."
        => "Nothing, if this was intended: the pods stay until the instance goes.";
    /// An interruption that was read late no longer applies.
    InterruptionDisproved [Normal] [Node]
        "Sundown received the interruption late, and AWS reports that it no longer applies. The \
         drain ends, and Sundown restores the earlier state of the node."
        => "Nothing. When it happens often, find out why messages are [read \
            late](operations.md#interruptions-are-accepted-late).";
    /// AWS contradicted the lifecycle actions of a record.
    InterruptionContradicted [Warning] [Node]
        "Sundown received an event about a lifecycle action, and AWS contradicts it: AWS answered \
         \"No active Lifecycle Action\", EC2 reports the instance as running, and its Auto Scaling \
         group reports it as `InService` or `Standby`, twice within 15 s. The drain ends, and \
         Sundown restores the earlier state of the node."
        => "[Find out who sent the event](operations.md#an-event-is-contradicted).";
    /// No interruption followed a recommendation.
    RecommendationExpired [Normal] [Node]
        "EC2 sent a rebalance recommendation, and no interruption of the instance followed within \
         `--rebalance-ttl`. Sundown restores the earlier state of the node."
        => "Nothing.";
    /// AWS announced, moved or closed a scheduled change.
    ScheduledChange [Normal] [Node]
        "AWS Health announced, moved or closed a scheduled change of the instance. The message has \
         its code and its start. The drain begins `--scheduled-lead` before the start. Sundown \
         only reports a change whose code asks for no drain."
        => "Nothing. To keep the pods, set [`--on \
            scheduled-change=cordon`](interruptions.md#scheduled-changes).";
    /// AWS canceled the scheduled change for which the node was drained.
    ScheduledChangeCanceled [Normal] [Node]
        "AWS canceled the scheduled change for which the node is drained, or now sends it only for \
         information, and the node has no other interruption. Sundown restores the earlier state \
         of the node."
        => "Nothing.";
    /// AWS moved the scheduled change for which the node was drained.
    ScheduledChangeMoved [Normal] [Node]
        "AWS moved the scheduled change for which the node is drained, and no other interruption of \
         the node holds. Sundown restores the earlier state of the node, and drains the node again \
         before the new start."
        => "Nothing.";
    /// An annotation that asks for a drain is not obeyed.
    RequestRefused [Warning] [Node]
        "An annotation `drain.sundown.dev/NAME` asks for the drain of the node, and Sundown does not \
         obey it: its value is not understood, its deadline had passed when Sundown first saw it, \
         the node has more than 16 requests, `sundown.dev/ignore`, or no EC2 instance. The message \
         names what is wrong."
        => "Correct the annotation as the message tells, or remove it.";
    /// Requests for the drain are gone.
    RequestWithdrawn [Normal] [Node]
        "The annotation of a request for the drain was removed, or changed to something that is no \
         request. If nothing else holds, the drain ends, and Sundown restores the earlier state of \
         the node. Otherwise the drain goes on for what is left."
        => "Nothing.";
    /// A node is drained because its instance is sick.
    InstanceImpaired [Warning] [Node]
        "A status check of EC2 has failed, or the node has been NotReady, for `--impaired-after`. \
         Sundown does what `--on impaired` sets. The message names what is wrong, and since when."
        => "Nothing. To know more, look at the status checks of the instance in EC2. \
            [Sick instances](interruptions.md#sick-instances).";
    /// A sick instance is healthy again.
    InstanceRecovered [Normal] [Node]
        "The node of a sick instance has been Ready for 5 minutes, and no status check fails. \
         Sundown restores the earlier state of the node."
        => "Nothing. To keep it cordoned, annotate the node with `sundown.dev/keep-cordoned`.";
    /// Auto Scaling was asked to replace a sick instance.
    InstanceSetUnhealthy [Normal] [Node]
        "The drain of a sick instance has ended, and Sundown has reported the instance to Auto \
         Scaling as unhealthy (`--then impaired=unhealthy`). The group terminates and replaces it."
        => "Nothing.";
    /// A sick instance is drained and is not replaced.
    InstanceNotSetUnhealthy [Warning] [Node]
        "The drain of a sick instance has ended, and the instance keeps running: the role may not \
         call `SetInstanceHealth`, pods are left, an annotation keeps the node, the group has \
         suspended `ReplaceUnhealthy` or `Terminate`, or it has not replaced the instance for an \
         hour. Written once for each reason, node and leader."
        => "The message has the reason. [What to do](operations.md#a-sick-node-is-not-drained).";
    /// A node stays cordoned.
    RestoreHeld [Normal] [Node]
        "The annotation `sundown.dev/keep-cordoned` keeps Sundown from restoring the earlier state \
         of the node: the cordon, the taint and the label stay."
        => "`kubectl annotate node NODE sundown.dev/keep-cordoned-` when the node may serve again.";
    /// An instance is back in service.
    InstanceReturned [Normal] [Node]
        "The instance is back without a new boot: Auto Scaling has put it into service (out of a \
         warm pool), or EC2 has started it again (out of hibernation). Sundown restores the earlier \
         state of the node."
        => "Nothing.";
    /// An instance goes into a warm pool.
    WarmPoolCordoned [Normal] [Node]
        "The instance is launched into the warm pool of its group. Sundown cordons and taints the \
         node before it completes the launch hook, and restores the node when the instance leaves \
         the pool."
        => "Nothing.";
    /// Nothing shows that a machine that has booted is back.
    ReturnNotShown [Warning] [Node]
        "The machine has booted since its drain, and the node is `Ready`. But for 10 minutes \
         Sundown has not been able to confirm that the instance is back. The node stays cordoned. \
         The message names what is missing."
        => "If Sundown has no answer, allow the permission that the message names. If the node is \
            fine, `kubectl uncordon` it.";
    /// Kubernetes may delete the pods of a terminated instance and detach their volumes.
    OutOfServiceTaintSet [Normal] [Node]
        "EC2 has terminated the instance of a drained node, and Sundown has set the taint \
         `node.kubernetes.io/out-of-service` (`--out-of-service-taint`)."
        => "Nothing.";
    /// The Node of a terminated instance is deleted.
    NodeDeleted [Normal] [Node]
        "EC2 has terminated the instance of a drained node, and Sundown has deleted the Node \
         (`--delete-node`)."
        => "Nothing.";
    /// Sundown has not deleted or tainted a Node, and no longer tries.
    NodeKept [Warning] [Node]
        "An hour after the end of the drain, Sundown no longer waits until it can taint or delete \
         the Node (`--out-of-service-taint`, `--delete-node`). The message has the reason: the \
         instance is not terminated, the Node is `Ready`, or a permission is missing."
        => "Once the instance has ended, delete the Node by hand. \
            [Nodes of instances that are gone](interruptions.md#nodes-of-instances-that-are-gone).";
    /// A node was only tainted or cordoned.
    NotEvicted [Normal] [Node]
        "Because of `--on`, Sundown only tainted or cordoned the node. Its pods stay, and Sundown \
         completes its lifecycle actions."
        => "Nothing. To drain such nodes, change \
            [`--on`](interruptions.md#choose-what-happens-for-a-kind).";
    /// A drain ended with no pod left.
    Drained [Normal] [Node]
        "The drain ended: no pod that counts is left, or the instance has ended. The message gives \
         the duration, and how many pods were left alone because they or rules ask for it."
        => "Nothing.";
    /// A drain ended with pods left, or before the pods were known.
    DrainEnded [Warning] [Node]
        "The drain ended with pods left, or before Sundown had listed the pods of the node. The \
         message gives the way it ended, the duration, the pods that are left, and how many were \
         left alone because they or rules ask for it."
        => "`deadline_reached`, `timed_out`: [deadline misses](operations.md#deadline-misses). \
            The others: [how drains end](operations.md#ends-of-drains).";
    /// A lifecycle action was completed.
    LifecycleCompleted [Normal] [Node]
        "Sundown completed a lifecycle action with CONTINUE: Auto Scaling takes the instance now."
        => "Nothing.";
    /// The group retains the instance.
    InstanceRetained [Warning] [Node]
        "Pods were left at the deadline, and Sundown completed the lifecycle action with ABANDON \
         (`--hook-result-on-failure=abandon`). Or the sweep found the instance in the state \
         `Terminating:Retained`: a terminate hook of it was abandoned, or timed out. The group \
         retains the instance."
        => "[Look after the pods, then terminate the instance](operations.md#retained-instances): \
            it costs money until then.";
    /// A lifecycle action had ended before Sundown completed it.
    LifecycleOver [Normal] [Node]
        "A lifecycle action had already ended when Sundown tried to complete it: it timed out, or \
         somebody else completed it."
        => "If nobody else completes it: [heartbeats \
            fail](operations.md#heartbeats-or-completions-fail).";
    /// DescribeLifecycleHooks is denied.
    HooksNotChecked [Warning] [Node]
        "The role may not call `DescribeLifecycleHooks`, so Sundown cannot see whether a hook of \
         the group belongs to another tool. It completes the hook after the drain. Written once \
         for each group and leader."
        => "Allow `autoscaling:DescribeLifecycleHooks`, or name your hooks with \
            `--lifecycle-hook`.";
    /// Several hooks of a group are completed by default.
    SeveralHooks [Warning] [Node]
        "With the default of `--lifecycle-hook`, Sundown completes several hooks of one group, \
         because the name of none starts with `sundown`. If another tool answers one of them, \
         Sundown completes that hook too early. Written once for each group and leader."
        => "Add a hook for Sundown ([`sundown enroll`](commands.md#sundown-enroll)): from then on \
            it leaves the others alone. Or name yours with `--lifecycle-hook`.";
    /// An action that only a record names was completed without a confirmation by AWS.
    HookNotConfirmed [Warning] [Node]
        "Sundown completed a lifecycle action that it knew only from the node's record, and could \
         not first ask AWS whether the instance waits in its group or its warm pool: \
         `DescribeAutoScalingGroups` or `DescribeWarmPool` is denied, or went unanswered for 30 s."
        => "Allow `autoscaling:DescribeAutoScalingGroups` and `autoscaling:DescribeWarmPool`.";
    /// A hook turned out to belong to another tool.
    HookNotOurs [Normal] [Node]
        "AWS did not describe the hooks of the group when the interruption was accepted. Now it \
         has, and the hook belongs to another tool: Sundown sends no more heartbeats for it and \
         does not complete it."
        => "Nothing.";
    /// A record cannot be read.
    RecordDamaged [Warning] [Node]
        "Sundown cannot read the annotation `sundown.dev/record`, and leaves it as it is."
        => "[A record is damaged](operations.md#a-record-is-damaged).";
    /// A record is not valid for the machine of the node.
    RecordVoid [Normal] [Node]
        "The record belongs to another instance or to an earlier boot. Sundown ignores the record, \
         and restores the earlier state of the node. For another instance it does so at once; \
         after a boot, as soon as the instance is back."
        => "Nothing. If a node stays cordoned after a boot, see \
            [what Sundown waits for](interruptions.md#after-a-boot).";
    /// A record was written back.
    RecordRestored [Warning] [Node]
        "Somebody deleted the record during a drain, and Sundown wrote it back, once. Or somebody \
         replaced it by a record without an open lifecycle action, and Sundown added the action."
        => "To end a drain, use [`sundown release`](operations.md#pausing-drains). Deleting the \
            record again ends it too.";
}

/// The page `docs/events.md`.
#[must_use]
pub fn document() -> String {
    let words = |all: Vec<&str>| all.join(", ");
    let rows = EventReason::ALL.iter().map(|reason| {
        let meaning = reason.meaning();
        let types = words(meaning.severities.iter().map(|s| s.as_str()).collect());
        let on = words(meaning.objects.iter().map(|o| o.as_str()).collect());
        format!(
            "| `{}` | {types} | {on} | {} | {} |\n",
            reason.as_str(),
            meaning.when,
            meaning.remedy
        )
    });
    HEAD.to_owned() + &rows.collect::<String>()
}

const HEAD: &str = "# Events

Every reason of the Kubernetes Events that Sundown writes, roughly in the order of a drain. This
page is generated from the code, and a test keeps the two equal.

`kubectl describe node NODE` shows the Events on a node (they are in the namespace `default`),
`kubectl describe pod` those on a pod, and
`kubectl get events -A --field-selector reportingComponent=sundown` all of them. Equal Events within
ten minutes are one Event with a count. Sundown writes at most 20 Events a second. It drops Events
if too many wait or if the leader is asked to stop, and counts them
(`sundown_events_dropped_total`). A dry run writes none.

| reason | type | on | when | what to do |
| --- | --- | --- | --- | --- |
";

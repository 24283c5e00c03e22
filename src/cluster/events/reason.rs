//! Why an Event is written: every reason there is, with what people are to know of it.
//! `docs/events.md` is made of this table.

use super::Severity;

/// What kind of object Events of a reason are on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Object {
    /// A Node.
    Node,
    /// A pod.
    Pod,
}

impl Object {
    /// In a sentence.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Node => "node",
            Self::Pod => "pod",
        }
    }
}

/// What people are to know of a reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Meaning {
    /// The types that its Events have.
    pub severities: &'static [Severity],
    /// What they are on.
    pub objects: &'static [Object],
    /// When one is written.
    pub when: &'static str,
    /// What to do about it. Links are those of a page in `docs`.
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
            /// All of them, in the order of a drain.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The word in the Event.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => stringify!($variant)),+
                }
            }

            /// What people are to know of it.
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
    /// An interruption was taken on.
    InterruptionAccepted [Normal, Warning] [Node]
        "An interruption was accepted, or joined to the one that the node has: what AWS sent. The \
         node is cordoned, and its drain begins. `Normal` of a terminate hook, `Warning` of what \
         leaves less time."
        => "Nothing. If the node should not go: [pause or release its \
            drain](operations.md#pausing-drains).";
    /// A test event came.
    TestReceived [Normal] [Node]
        "A test event for its instance came. The message reports what would be done were it real; \
         nothing was."
        => "Nothing: it is the answer to [`sundown send-test`](commands.md#sundown-send-test).";
    /// Several Nodes claim one instance.
    DuplicateProviderID [Warning] [Node]
        "The providerIDs of several nodes name the same instance, and that instance is \
         interrupted. The message names the nodes, which of them is drained, and which is only \
         cordoned."
        => "Find out which node lies or was left behind, and delete it: [several nodes that claim \
            one instance](security.md#several-nodes-that-claim-one-instance). Uncordon a node that \
            was cordoned by mistake.";
    /// The eviction of a pod was accepted.
    Evicted [Normal] [Pod]
        "Its eviction was accepted: how long it has to stop. Only with `--pod-events=all`."
        => "Nothing.";
    /// A pod has less time to stop than it asks for.
    ShortenedGrace [Warning] [Pod]
        "It has less time to stop than its grace period, because its node goes earlier. Only with \
         `--pod-events=all`."
        => "Nothing now. A pod that needs longer than a spot notice gives (120 s in all) does not \
            belong on spot instances.";
    /// Pods have been blocked for a while.
    Blocked [Warning] [Node, Pod]
        "A pod has been blocked for more than 30 s. The Event on the pod gives the reason and the \
         API server's message. The Event on the node names the pods, their budgets, when they are \
         deleted by force, and when the drain ends. It comes again every 5 to 9 minutes."
        => "By [what holds it](operations.md#reasons-of-blocked-pods).";
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
        "Auto Scaling has accepted a heartbeat for a lifecycle action of the node. Written of \
         drains that last longer than 5 minutes, every 9 minutes."
        => "Nothing: [`sundown status`](commands.md#sundown-status) shows it as the last known \
            heartbeat.";
    /// A pod was deleted because a deadline came.
    Forced [Warning] [Node, Pod]
        "The pod was deleted although it could not be evicted, because its deadline came. At the \
         end of the drain the node has one that names all of them."
        => "[What held it](operations.md#stuck-on-a-budget) until then.";
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
    /// A node that is being drained is not ours any more.
    NoLongerManaged [Warning] [Node]
        "During its drain the node got the annotation `sundown.dev/ignore`, or `--node-selector` \
         does not match it any more. The drain ends as if the node were released, and its \
         lifecycle actions are completed."
        => "Nothing, if this was intended: the pods stay until the instance goes.";
    /// An interruption that was read late does not hold.
    InterruptionDisproved [Normal] [Node]
        "Sundown received the interruption late, and AWS reports that it no longer applies. The \
         drain ends, and Sundown restores the earlier state of the node."
        => "Nothing. When it happens often, find out why messages are [read \
            late](operations.md#interruptions-are-taken-on-late).";
    /// An instance is back in service.
    InstanceReturned [Normal] [Node]
        "Auto Scaling has put the instance back into service (out of a warm pool, or out of \
         hibernation) without a new boot: the node is put back as it was."
        => "Nothing.";
    /// A drain ended with nothing left.
    Drained [Normal] [Node]
        "The drain ended: no pod that counts is left, or the instance has ended. Says after how \
         long."
        => "Nothing.";
    /// A drain ended with pods left, or before they were known.
    DrainEnded [Warning] [Node]
        "The drain ended with pods left: how, after how long, and which. Or it ended before \
         Sundown had listed the pods of the node."
        => "`deadline_reached`, `timed_out`: [deadline misses](operations.md#deadline-misses). \
            The others: [how drains end](operations.md#ends-of-drains).";
    /// A hook was completed.
    LifecycleCompleted [Normal] [Node]
        "A lifecycle action was completed with CONTINUE: Auto Scaling takes the instance now."
        => "Nothing.";
    /// A hook was over before it was completed.
    LifecycleOver [Normal] [Node]
        "A lifecycle action was over when it was to be completed: it timed out, or somebody else \
         completed it."
        => "If nobody else does: [heartbeats fail](operations.md#heartbeats-or-completions-fail).";
    /// DescribeLifecycleHooks is denied.
    HooksNotChecked [Warning] [Node]
        "The role may not call `DescribeLifecycleHooks`, so Sundown cannot see whether a hook of \
         the group is another party's. It completes the hook after the drain. Once for each group \
         and leader."
        => "Allow `autoscaling:DescribeLifecycleHooks`, or name your hooks with \
            `--lifecycle-hook`.";
    /// Several hooks of a group are completed by default.
    SeveralHooks [Warning] [Node]
        "By the default of `--lifecycle-hook`, Sundown completes several hooks of one group, \
         because none of them starts with `sundown`. One that another tool answers is cut short. \
         Once for each group and leader."
        => "Add a hook of Sundown's own ([`sundown enroll`](commands.md#sundown-enroll)): from \
            then on the others are left alone. Or name yours with `--lifecycle-hook`.";
    /// An action that only a record names was completed unseen.
    HookNotConfirmed [Warning] [Node]
        "A lifecycle action was completed that only the node's record names, and AWS could not be \
         asked before whether the instance waits in its group: `DescribeAutoScalingGroups` is \
         denied, or went unanswered for 30 s."
        => "Allow `autoscaling:DescribeAutoScalingGroups`.";
    /// A hook turned out not to be ours.
    HookNotOurs [Normal] [Node]
        "AWS did not describe the hooks of the group when the interruption was accepted. It has \
         now, and the hook is somebody else's: it gets no more heartbeats and is not completed."
        => "Nothing.";
    /// A record cannot be read.
    RecordDamaged [Warning] [Node]
        "The annotation `sundown.dev/record` cannot be read, and is left as it is."
        => "[A record is damaged](operations.md#a-record-is-damaged).";
    /// A record does not count.
    RecordVoid [Normal] [Node]
        "The record is of another instance, or of an earlier boot: it does not count, and what \
         Sundown had changed on the node is put back."
        => "Nothing.";
    /// A record was written back.
    RecordRestored [Warning] [Node]
        "The record was deleted by hand during a drain and is written back, once; or the record \
         that replaced it lacked an open lifecycle action, which Sundown added to it."
        => "To end a drain use [`sundown release`](operations.md#pausing-drains). To delete the \
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
page is generated from the code and held against it by a test.

Those on a node are shown by `kubectl describe node NODE` (they lie in the namespace `default`),
those on a pod by `kubectl describe pod`. All of them:
`kubectl get events -A --field-selector reportingComponent=sundown`. Equal ones are counted up on
one Event for ten minutes. At most 20 a second are written, and what is dropped because too many
wait, or because the leader was asked to stop, is counted (`sundown_events_dropped_total`). A dry
run writes none.

| reason | type | on | when | what to do |
| --- | --- | --- | --- | --- |
";

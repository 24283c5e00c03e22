//! The flags under "Drains".

use std::{path::PathBuf, time::Duration};

use clap::Args;

use crate::{
    config::{
        defaults as d,
        values::{parse_count, parse_duration, parse_switch},
    },
    domain::{
        Compat, DaemonSetName, Exclusion, ForceAfter, HookResult, KindEvictAfter, KindResponse,
        KindThen, NodeShare, PodOrder, WaitForVolumes, WeeklyWindow, WishSource,
    },
};

/// The flags under "Drain": how nodes are drained.
#[allow(clippy::struct_excessive_bools, reason = "flags that do not exclude each other")]
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Drain")]
pub struct DrainArgs {
    /// What to do about a kind of interruption: `drain` (cordon and evict), `cordon` (the pods
    /// stay), `prefer` (only a taint with the effect PreferNoSchedule) or `ignore`; repeatable (in
    /// the variable: separated by commas). Without it, each kind has the default of
    /// docs/responses.md. In the chart: the list `config.responses`
    #[arg(long, env = "SUNDOWN_ON", value_name = "KIND=RESPONSE", value_delimiter = ',')]
    pub on: Vec<KindResponse>,
    /// How long a node stays tainted (or cordoned) for a rebalance recommendation that no
    /// interruption follows, 1m to 24h. Only with `--on rebalance=...`
    #[arg(
        long,
        env = "SUNDOWN_REBALANCE_TTL",
        value_name = "DURATION",
        default_value = d::REBALANCE_TTL,
        value_parser = parse_duration,
    )]
    pub rebalance_ttl: Duration,
    /// Delay the evictions for a kind of interruption (`terminate-hook` or `rebalance`). WHEN is
    /// `replacement-ready` (its Auto Scaling group has another node for the pods) or a duration up
    /// to 24h. Sundown evicts after half of the drain's time at the latest. Repeatable (in the
    /// variable: separated by commas). In the chart: the list `config.evictAfter`
    #[arg(long, env = "SUNDOWN_EVICT_AFTER", value_name = "KIND=WHEN", value_delimiter = ',')]
    pub evict_after: Vec<KindEvictAfter>,
    /// The most nodes of one Auto Scaling group that are drained at once for causes that can wait
    /// (terminate hooks, scheduled changes, rebalance recommendations and sick instances), 1 to
    /// 1000. The others are cordoned, and their evictions wait for half of the drain's time at most.
    /// Without it: no limit
    #[arg(long, env = "SUNDOWN_MAX_DRAINS_PER_GROUP", value_name = "N", value_parser = parse_count)]
    pub max_drains_per_group: Option<usize>,
    /// The most nodes that are drained at once for causes that can wait, as a number, or as a share
    /// of the managed nodes such as `10%` (rounded down, 1 at least). Without it: no limit, but control-plane
    /// nodes are always drained one at a time
    #[arg(long, env = "SUNDOWN_MAX_VOLUNTARY", value_name = "N[%]")]
    pub max_voluntary: Option<NodeShare>,
    /// How long before a scheduled change of AWS Health the drain of its node begins, 1m to 168h
    #[arg(
        long,
        env = "SUNDOWN_SCHEDULED_LEAD",
        value_name = "DURATION",
        default_value = d::SCHEDULED_LEAD,
        value_parser = parse_duration,
    )]
    pub scheduled_lead: Duration,
    /// Weekly window in which drains for scheduled changes begin, such as `Sat 02:00-06:00 UTC`: in
    /// the last window that opens more than `--scheduled-lead` before the start. If that window is
    /// already over, the drain begins `--scheduled-lead` before the start
    #[arg(long, env = "SUNDOWN_SCHEDULED_WINDOW", value_name = "WINDOW")]
    pub scheduled_window: Option<WeeklyWindow>,
    /// How often Sundown asks EC2 for scheduled events of instances, to find changes whose message
    /// was lost, 1m to 1h; 0s: never. Needs ec2:DescribeInstanceStatus
    #[arg(
        long,
        env = "SUNDOWN_SCHEDULED_EVENT_INTERVAL",
        value_name = "DURATION",
        default_value = d::SCHEDULED_EVENT_INTERVAL,
        value_parser = parse_duration,
    )]
    pub scheduled_event_interval: Duration,
    /// How long a status check of an instance must fail, or its Node be NotReady, before its drain
    /// begins, 2m to 24h. Only with `--on impaired=...`
    #[arg(
        long,
        env = "SUNDOWN_IMPAIRED_AFTER",
        value_name = "DURATION",
        default_value = d::IMPAIRED_AFTER,
        value_parser = parse_duration,
    )]
    pub impaired_after: Duration,
    /// The most drains of sick instances that begin within an hour, and the most sick instances
    /// that Sundown reports to Auto Scaling within an hour, 1 to 100
    #[arg(
        long,
        env = "SUNDOWN_MAX_IMPAIRED",
        value_name = "COUNT",
        default_value = d::MAX_IMPAIRED,
    )]
    pub max_impaired: usize,
    /// What follows the drain of a sick instance: `impaired=unhealthy` reports it to Auto Scaling
    /// as unhealthy, so that its group replaces it. Needs `--on impaired=drain`
    #[arg(long, env = "SUNDOWN_THEN", value_name = "KIND=STEP")]
    pub then: Option<KindThen>,
    /// How long the drain for a lifecycle hook may take
    #[arg(
        long,
        env = "SUNDOWN_DRAIN_TIMEOUT",
        value_name = "DURATION",
        value_parser = parse_duration,
    )]
    pub drain_timeout: Option<Duration>,
    /// The longest drain timeout that the NotificationMetadata of a lifecycle hook or an annotation
    /// of a Node may set. Without it: `--drain-timeout`, or 48h without both
    #[arg(
        long,
        env = "SUNDOWN_MAX_DRAIN_TIMEOUT",
        value_name = "DURATION",
        value_parser = parse_duration,
    )]
    pub max_drain_timeout: Option<Duration>,
    /// Result with which Sundown completes a terminate hook if pods are left at the deadline:
    /// `continue`, or `abandon`, but only where the group's lifecycle policy retains instances
    /// whose terminate hook was abandoned. Elsewhere ABANDON would only cut other hooks short, so
    /// Sundown completes with `continue`
    #[arg(
        long,
        env = "SUNDOWN_HOOK_RESULT_ON_FAILURE",
        value_name = "RESULT",
        default_value = d::HOOK_RESULT_ON_FAILURE,
        value_enum,
    )]
    pub hook_result_on_failure: HookResult,
    /// How long before the deadline the pods of a node should be gone. Sundown forces pods
    /// towards that moment, but waits for them until 2 s before the deadline. At most half
    /// of the time that AWS gives (a stopping instance has 30 s, so at most 15 s)
    #[arg(
        long,
        env = "SUNDOWN_DEADLINE_MARGIN",
        value_name = "DURATION",
        default_value = d::DEADLINE_MARGIN,
        value_parser = parse_duration,
    )]
    pub deadline_margin: Duration,
    /// `--deadline-margin` for a deadline that a spot notice sets
    #[arg(
        long,
        env = "SUNDOWN_SPOT_DEADLINE_MARGIN",
        value_name = "DURATION",
        default_value = d::SPOT_DEADLINE_MARGIN,
        value_parser = parse_duration,
    )]
    pub spot_deadline_margin: Duration,
    /// When to delete a pod whose eviction is refused: `never`, `deadline` (in the last second
    /// before it, which is all the time that the pod then gets to stop), or a share of the time to
    /// the deadline, 0 to 1: as late as the pod's grace period allows, but not before this share
    /// has passed
    #[arg(long, env = "SUNDOWN_FORCE_AFTER", value_name = "WHEN", default_value = d::FORCE_AFTER)]
    pub force_after: ForceAfter,
    /// Force pods at the deadline of a request for a drain (annotation `drain.sundown.dev/NAME`), as
    /// for a deadline of AWS. Without it, no request forces pods: at its deadline the drain ends,
    /// and the pods that are left stay
    #[arg(long, env = "SUNDOWN_REQUESTS_MAY_FORCE", value_parser = parse_switch)]
    pub requests_may_force: bool,
    /// In which order the pods of a node are evicted: `together`, `critical-last` (ordinary pods, then
    /// pods of `--drain-daemonset`, then critical pods, then critical pods of `--drain-daemonset`)
    /// or, by pod priority, the 2 to 8 priorities at which pod groups begin, such as
    /// `priority:0,1000,2000000000`. A pod group waits until the pods of the groups before it are
    /// gone, but its latest start leaves it at least half of the drain's time. If a gate, other
    /// drains or `--evict-after` delay the evictions, the groups share the first half of the time
    /// that is left then
    #[arg(long, env = "SUNDOWN_POD_ORDER", value_name = "ORDER", default_value = d::POD_ORDER)]
    pub pod_order: PodOrder,
    /// Also evict the pods of this DaemonSet (NAMESPACE/NAME, repeatable, at most 16; in the
    /// variable: separated by commas). If it tolerates every taint, its controller creates the pod
    /// again, and Sundown leaves the new pod alone
    #[arg(
        long,
        env = "SUNDOWN_DRAIN_DAEMONSET",
        value_name = "NAMESPACE/NAME",
        value_delimiter = ','
    )]
    pub drain_daemonset: Vec<DaemonSetName>,
    /// What pods ask other tools for, and Sundown honors, too: `cluster.x-k8s.io/drain`,
    /// `karpenter.sh/do-not-disrupt` or `cluster-autoscaler.kubernetes.io/safe-to-evict`;
    /// repeatable (in the variable: separated by commas). It always honors the annotation
    /// `sundown.dev/drain` of a pod
    #[arg(long, env = "SUNDOWN_HONOR", value_name = "KEY", value_delimiter = ',')]
    pub honor: Vec<WishSource>,
    /// YAML file with rules about pods: which ones stay, are waited for, and go in which order.
    /// Sundown reads the file again every 10 s. A file that is bad at the start is an error; if it
    /// turns bad later, the last good rules stay in force
    #[arg(long, env = "SUNDOWN_RULES_FILE", value_name = "FILE")]
    pub rules_file: Option<PathBuf>,
    /// Set the condition `DisruptionTarget` of a pod before deleting it despite a refused eviction,
    /// so that a Job's pod failure policy does not count a failure. Needs the permission to patch
    /// `pods/status`. The delete follows within 1 s, whatever the answer is
    #[arg(long, env = "SUNDOWN_DISRUPTION_TARGET", value_parser = parse_switch)]
    pub disruption_target: bool,
    /// Set the condition `MaintenancePlanned` of a Node while AWS announces a scheduled change of
    /// its instance. Needs the permission to patch `nodes/status`. No drain depends on it
    #[arg(long, env = "SUNDOWN_MAINTENANCE_CONDITION", value_parser = parse_switch)]
    pub maintenance_condition: bool,
    /// Show each drain in the conditions `DrainInProgress` and `Drained` of its Node. Needs the
    /// permission to patch `nodes/status`. No drain depends on it
    #[arg(long, env = "SUNDOWN_DRAIN_CONDITIONS", value_parser = parse_switch)]
    pub drain_conditions: bool,
    /// Once EC2 shows the instance of a drained node as terminated, set the taint
    /// `node.kubernetes.io/out-of-service=nodeshutdown:NoExecute`: Kubernetes then deletes the pods
    /// that are left and detaches their volumes at once. Not for instances that may come back
    #[arg(long, env = "SUNDOWN_OUT_OF_SERVICE_TAINT", value_parser = parse_switch)]
    pub out_of_service_taint: bool,
    /// Once EC2 shows the instance of a drained node as terminated, delete the Node. Needs the
    /// permission to delete `nodes`. Not for instances that may come back
    #[arg(long, env = "SUNDOWN_DELETE_NODE", value_parser = parse_switch)]
    pub delete_node: bool,
    /// When a node gets the label `node.kubernetes.io/exclude-from-external-load-balancers`:
    /// `early` (when Sundown accepts the interruption), `late` (when the last pod is terminating, or
    /// 60 s before the drain ends) or `never`
    #[arg(long, env = "SUNDOWN_EXCLUDE_FROM_LOAD_BALANCERS", value_name = "WHEN", value_enum)]
    pub exclude_from_load_balancers: Option<Exclusion>,
    /// Also set the taints and the label of another handler, for tools that look for them: `nth`
    /// adds the taints of aws-node-termination-handler and uses its value of the load balancer
    /// label. Sundown removes them together with its own
    #[arg(long, env = "SUNDOWN_COMPAT", value_name = "HANDLER")]
    pub compat: Option<Compat>,
    /// Whether a drain waits until the volumes of its pods are detached from the node, until its
    /// deadline at the latest: `hooks` (before Sundown completes a lifecycle action) or `never`.
    /// Needs the permissions to list `volumeattachments` and to get `persistentvolumeclaims`
    #[arg(
        long,
        env = "SUNDOWN_WAIT_FOR_VOLUMES",
        value_name = "WHEN",
        default_value = d::WAIT_FOR_VOLUMES,
        value_enum,
    )]
    pub wait_for_volumes: WaitForVolumes,
    /// How long to wait after a drain before completing its lifecycle actions, so that log shippers
    /// can finish
    #[arg(
        long,
        env = "SUNDOWN_COMPLETE_DELAY",
        value_name = "DURATION",
        default_value = d::COMPLETE_DELAY,
        value_parser = parse_duration,
    )]
    pub complete_delay: Duration,
    /// Shortest time from the cordon to the end of a drain, so that pods which were just scheduled
    /// are seen
    #[arg(
        long,
        env = "SUNDOWN_MIN_DRAIN_TIME",
        value_name = "DURATION",
        default_value = d::MIN_DRAIN_TIME,
        value_parser = parse_duration,
    )]
    pub min_drain_time: Duration,
    /// The most evictions in flight over all drains. Deletes may use a quarter more. Evictions that
    /// an admission webhook leaves unanswered are counted apart, up to the same number
    #[arg(
        long,
        env = "SUNDOWN_MAX_EVICTIONS",
        value_name = "N",
        default_value = d::MAX_EVICTIONS,
        value_parser = parse_count,
    )]
    pub max_evictions: usize,
    /// Most evictions in flight for one PodDisruptionBudget
    #[arg(
        long,
        env = "SUNDOWN_MAX_EVICTIONS_PER_BUDGET",
        value_name = "N",
        default_value = d::MAX_EVICTIONS_PER_BUDGET,
        value_parser = parse_count,
    )]
    pub max_evictions_per_budget: usize,
}

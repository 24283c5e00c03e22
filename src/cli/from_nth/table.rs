//! The table of all flags and Helm values of aws-node-termination-handler (NTH) with their
//! counterparts here. `sundown from-nth` and `docs/from-nth.md` are made from it.

/// The version of NTH whose flags and values these are.
pub(super) const VERSION: &str = "v1.25.6";

/// One setting of NTH.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row {
    /// Its flag, without dashes.
    pub(super) flag: Option<&'static str>,
    /// Its environment variable. `None`: it has none.
    pub(super) variable: Option<&'static str>,
    /// Its Helm value, by its path.
    pub(super) value: Option<&'static str>,
    /// Its default. If the chart and the program differ, the chart's.
    pub(super) default: &'static str,
    pub(super) answer: Answer,
    /// Our counterparts: flags of `sundown run` and values of our chart. Empty if we have none.
    pub(super) here: &'static [&'static str],
    pub(super) why: &'static str,
}

/// How a setting of NTH's is translated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Answer {
    /// We have the same setting.
    Same,
    /// Our default does it already, or Sundown finds the value out.
    Better,
    /// It is not needed here, or would do harm.
    Dropped,
    /// We have nothing like it.
    Missing,
    /// NTH ignores it in queue mode.
    Imds,
}

impl Answer {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Better => "better default",
            Self::Dropped => "dropped",
            Self::Missing => "no counterpart",
            Self::Imds => "IMDS mode only",
        }
    }
}

impl Row {
    /// The name of the row: the path of its Helm value, or else its flag.
    pub(super) fn name(&self) -> &'static str {
        self.value.or(self.flag).unwrap_or_default()
    }
}

const fn both(
    flag: &'static str,
    variable: &'static str,
    value: &'static str,
    default: &'static str,
    answer: Answer,
    here: &'static [&'static str],
    why: &'static str,
) -> Row {
    Row {
        flag: Some(flag),
        variable: Some(variable),
        value: Some(value),
        default,
        answer,
        here,
        why,
    }
}

const fn flag(
    flag: &'static str,
    variable: &'static str,
    default: &'static str,
    answer: Answer,
    here: &'static [&'static str],
    why: &'static str,
) -> Row {
    Row { flag: Some(flag), variable: Some(variable), value: None, default, answer, here, why }
}

const fn value(
    value: &'static str,
    default: &'static str,
    answer: Answer,
    here: &'static [&'static str],
    why: &'static str,
) -> Row {
    Row { flag: None, variable: None, value: Some(value), default, answer, here, why }
}

const TAG: &str = "aws-node-termination-handler/managed";
const IMDS_SWITCH: &str =
    "in queue mode NTH acts on whatever reaches the queue; so do rules here: leave the rule out";

use Answer::{Better, Dropped, Imds, Missing, Same};

/// All settings of NTH.
pub(super) const ROWS: &[Row] = &[
    // Settings of the queue
    both(
        "enable-sqs-termination-draining",
        "ENABLE_SQS_TERMINATION_DRAINING",
        "enableSqsTerminationDraining",
        "false",
        Better,
        &["--queue-url"],
        "there is no other mode",
    ),
    both(
        "queue-url",
        "QUEUE_URL",
        "queueURL",
        "",
        Same,
        &["--queue-url", "config.queueUrls"],
        "several may be given",
    ),
    both(
        "aws-region",
        "AWS_REGION",
        "awsRegion",
        "",
        Same,
        &["--region", "aws.region"],
        "found from the queue's URL if it is not given",
    ),
    both(
        "aws-endpoint",
        "AWS_ENDPOINT",
        "awsEndpoint",
        "",
        Same,
        &["--aws-endpoint-url", "config.awsEndpointUrl"],
        "",
    ),
    both(
        "workers",
        "WORKERS",
        "workers",
        "10",
        Dropped,
        &["--max-evictions", "config.maxEvictions"],
        "a drain takes no worker: all nodes drain at once, and evictions in flight are bounded \
         instead",
    ),
    both(
        "sqs-msg-visibility-timeout-sec",
        "SQS_MSG_VISIBILITY_TIMEOUT_SEC",
        "sqsMsgVisibilityTimeoutSec",
        "20",
        Dropped,
        &[],
        "a message is deleted when its interruption is accepted, and extended while it is undecided",
    ),
    both(
        "delete-sqs-msg-if-node-not-found",
        "DELETE_SQS_MSG_IF_NODE_NOT_FOUND",
        "deleteSqsMsgIfNodeNotFound",
        "false",
        Better,
        &["--cluster-name", "config.clusterName"],
        "an instance without a node is proved to be ours by its tags, then its hook is completed \
         and the message deleted",
    ),
    // Settings of the choice of nodes
    both(
        "check-tag-before-draining",
        "CHECK_TAG_BEFORE_DRAINING",
        "checkTagBeforeDraining",
        "true",
        Same,
        &["--managed-tag", "config.managedTag"],
        "no tag is asked for unless one is named",
    ),
    both(
        "check-asg-tag-before-draining",
        "CHECK_ASG_TAG_BEFORE_DRAINING",
        "checkASGTagBeforeDraining",
        "true",
        Same,
        &["--managed-tag", "config.managedTag"],
        "the same as `checkTagBeforeDraining`, which wins",
    ),
    both(
        "managed-tag",
        "MANAGED_TAG",
        "managedTag",
        TAG,
        Same,
        &["--managed-tag", "config.managedTag"],
        "the key of a tag of the instance, here too; nodes of Karpenter and Auto Mode are left \
         alone in any case",
    ),
    both(
        "managed-asg-tag",
        "MANAGED_ASG_TAG",
        "managedAsgTag",
        TAG,
        Same,
        &["--managed-tag", "config.managedTag"],
        "the same as `managedTag`, which wins",
    ),
    both(
        "use-provider-id",
        "USE_PROVIDER_ID",
        "useProviderId",
        "false",
        Better,
        &[],
        "a node is always found by its providerID, or by its name if it has none",
    ),
    // Settings of the drain
    both(
        "node-termination-grace-period",
        "NODE_TERMINATION_GRACE_PERIOD",
        "nodeTerminationGracePeriod",
        "120",
        Better,
        &["--drain-timeout", "config.drainTimeout"],
        "the deadline is the interruption's own: 120 s of a spot notice, the hook's time; carried \
         over where it was changed",
    ),
    both(
        "pod-termination-grace-period",
        "POD_TERMINATION_GRACE_PERIOD",
        "podTerminationGracePeriod",
        "-1",
        Missing,
        &[],
        "every pod has its own grace period, shortened only where its node goes earlier, or by \
         `max-grace-period` of a group or a node",
    ),
    flag(
        "grace-period",
        "GRACE_PERIOD",
        "-1",
        Missing,
        &[],
        "the same as `podTerminationGracePeriod`, which wins",
    ),
    both(
        "ignore-daemon-sets",
        "IGNORE_DAEMON_SETS",
        "ignoreDaemonSets",
        "true",
        Dropped,
        &[],
        "pods of DaemonSets always stay; without it NTH fails every drain",
    ),
    both(
        "delete-local-data",
        "DELETE_LOCAL_DATA",
        "deleteLocalData",
        "true",
        Dropped,
        &[],
        "pods with an emptyDir are always evicted: their node goes",
    ),
    both(
        "cordon-only",
        "CORDON_ONLY",
        "cordonOnly",
        "false",
        Missing,
        &[],
        "--on KIND=cordon for each kind that is only to be cordoned, such as --on \
         spot=cordon,terminate-hook=cordon,state-change=cordon (docs/interruptions.md)",
    ),
    both(
        "dry-run",
        "DRY_RUN",
        "dryRun",
        "false",
        Same,
        &["--dry-run", "config.dryRun"],
        "reads AWS and the cluster, writes nothing",
    ),
    both(
        "complete-lifecycle-action-delay-seconds",
        "COMPLETE_LIFECYCLE_ACTION_DELAY_SECONDS",
        "completeLifecycleActionDelaySeconds",
        "-1",
        Same,
        &["--complete-delay", "config.completeDelay"],
        "never beyond the drain's deadline",
    ),
    both(
        "heartbeat-interval",
        "HEARTBEAT_INTERVAL",
        "heartbeatInterval",
        "-1",
        Better,
        &[],
        "always on, derived from the hook's own timeout",
    ),
    both(
        "heartbeat-until",
        "HEARTBEAT_UNTIL",
        "heartbeatUntil",
        "-1",
        Better,
        &["--drain-timeout", "config.drainTimeout"],
        "heartbeats go on until the hook is completed; a drain may take `--drain-timeout`",
    ),
    // Settings of what NTH writes on nodes
    both(
        "taint-node",
        "TAINT_NODE",
        "taintNode",
        "false",
        Better,
        &["--compat", "config.compat"],
        "our own taint is always written; NTH's beside it with `nth`",
    ),
    flag(
        "taint-effect",
        "TAINT_EFFECT",
        "NoSchedule",
        Dropped,
        &[],
        "always NoSchedule: NoExecute would delete pods past their budgets",
    ),
    both(
        "enable-out-of-service-taint",
        "ENABLE_OUT_OF_SERVICE_TAINT",
        "enableOutOfServiceTaint",
        "false",
        Same,
        &["--out-of-service-taint", "config.outOfServiceTaint"],
        "set once EC2 shows the instance as terminated, not while it still runs",
    ),
    both(
        "exclude-from-load-balancers",
        "EXCLUDE_FROM_LOAD_BALANCERS",
        "excludeFromLoadBalancers",
        "false",
        Better,
        &["--exclude-from-load-balancers", "config.excludeFromLoadBalancers"],
        "early for spot, when the last pod goes for hooks, never more than half of the nodes; \
         `never` switches it off",
    ),
    // Settings of Events, logs, metrics and the webhook
    both(
        "emit-kubernetes-events",
        "EMIT_KUBERNETES_EVENTS",
        "emitKubernetesEvents",
        "false",
        Better,
        &["--pod-events", "config.podEvents"],
        "Events on nodes always, on pods where something is notable; `all` for every eviction",
    ),
    both(
        "kubernetes-events-extra-annotations",
        "KUBERNETES_EVENTS_EXTRA_ANNOTATIONS",
        "kubernetesEventsExtraAnnotations",
        "",
        Missing,
        &[],
        "Events have no annotations",
    ),
    both(
        "webhook-url",
        "WEBHOOK_URL",
        "webhookURL",
        "",
        Same,
        &["--webhook-url", "webhook.urlSecretName"],
        "from a Secret, since it is one; once for each drain, with bounded retries, from the \
         leader alone",
    ),
    value(
        "webhookURLSecretName",
        "",
        Same,
        &["webhook.urlSecretName"],
        "the same Secret, with the same key",
    ),
    both(
        "webhook-headers",
        "WEBHOOK_HEADERS",
        "webhookHeaders",
        "",
        Same,
        &["--webhook-headers-file", "config.webhookHeadersFile"],
        "from a file, since they hold secrets; one `Name: value` a line",
    ),
    both(
        "webhook-proxy",
        "WEBHOOK_PROXY",
        "webhookProxy",
        "",
        Same,
        &["--webhook-proxy", "config.webhookProxy"],
        "`HTTPS_PROXY` and `NO_PROXY` count if it is not given",
    ),
    both(
        "webhook-template",
        "WEBHOOK_TEMPLATE",
        "webhookTemplate",
        "",
        Same,
        &["--webhook-template", "config.webhookTemplate"],
        "no Go template: JSON with names inside its strings",
    ),
    flag(
        "webhook-template-file",
        "WEBHOOK_TEMPLATE_FILE",
        "",
        Same,
        &["--webhook-template-file", "config.webhookTemplateFile"],
        "the same, from a file",
    ),
    value(
        "webhookTemplateConfigMapName",
        "",
        Same,
        &["--webhook-template-file", "extraVolumes", "extraVolumeMounts"],
        "mount it; its text has to be rewritten",
    ),
    value(
        "webhookTemplateConfigMapKey",
        "",
        Same,
        &["--webhook-template-file", "config.webhookTemplateFile"],
        "the name of the file",
    ),
    both(
        "enable-prometheus-server",
        "ENABLE_PROMETHEUS_SERVER",
        "enablePrometheusServer",
        "false",
        Better,
        &["--metrics-listen", "metrics.port"],
        "always on",
    ),
    both(
        "prometheus-server-port",
        "PROMETHEUS_SERVER_PORT",
        "prometheusServerPort",
        "9092",
        Better,
        &["--metrics-listen", "metrics.port"],
        "9808; carried over where it was changed",
    ),
    flag(
        "enable-probes-server",
        "ENABLE_PROBES_SERVER",
        "false",
        Better,
        &["--probe-listen", "probes.port"],
        "always on",
    ),
    both(
        "probes-server-port",
        "PROBES_SERVER_PORT",
        "probes.httpGet.port",
        "8080",
        Better,
        &["--probe-listen", "probes.port"],
        "9809",
    ),
    both(
        "probes-server-endpoint",
        "PROBES_SERVER_ENDPOINT",
        "probes.httpGet.path",
        "/healthz",
        Better,
        &["livenessProbe", "readinessProbe"],
        "`/livez` shows loops that are stuck, `/readyz` a queue that does not answer",
    ),
    value(
        "probes.initialDelaySeconds",
        "5",
        Better,
        &["livenessProbe"],
        "the listener is up before anything else",
    ),
    value("probes.periodSeconds", "5", Better, &["livenessProbe", "readinessProbe"], ""),
    both(
        "json-logging",
        "JSON_LOGGING",
        "jsonLogging",
        "false",
        Better,
        &["--log-format", "config.logFormat"],
        "JSON wherever it is not a terminal; `pretty` for text",
    ),
    both(
        "log-level",
        "LOG_LEVEL",
        "logLevel",
        "info",
        Same,
        &["--log-level", "config.logLevel"],
        "",
    ),
    both(
        "log-format-version",
        "LOG_FORMAT_VERSION",
        "logFormatVersion",
        "1",
        Dropped,
        &[],
        "the log lines are others",
    ),
    // Settings of the API server and the pod
    flag(
        "use-apiserver-cache",
        "USE_APISERVER_CACHE",
        "false",
        Better,
        &[],
        "pods of a draining node are watched, not listed again and again",
    ),
    flag(
        "kube-api-qps",
        "KUBE_API_QPS",
        "5",
        Dropped,
        &["--max-evictions"],
        "calls are not throttled by rate: accepting an interruption never waits behind evictions",
    ),
    flag(
        "kube-api-burst",
        "KUBE_API_BURST",
        "10",
        Dropped,
        &["--max-evictions"],
        "calls are not throttled by rate",
    ),
    flag(
        "kubernetes-service-host",
        "KUBERNETES_SERVICE_HOST",
        "",
        Same,
        &["--kubeconfig"],
        "the pod's own variable, or a kubeconfig",
    ),
    flag(
        "kubernetes-service-port",
        "KUBERNETES_SERVICE_PORT",
        "",
        Same,
        &["--kubeconfig"],
        "the same",
    ),
    flag("node-name", "NODE_NAME", "", Same, &["--node-name"], "set by the chart"),
    flag("pod-name", "POD_NAME", "", Same, &["--pod-name"], "set by the chart"),
    flag("pod-namespace", "NAMESPACE", "", Same, &["--pod-namespace"], "set by the chart"),
    // Values that only the chart has
    value(
        "replicas",
        "1",
        Better,
        &["replicas"],
        "2: one leads, one stands by; nothing is done or reported twice",
    ),
    value(
        "image.repository",
        "public.ecr.aws/aws-ec2/aws-node-termination-handler",
        Dropped,
        &["image.repository"],
        "another program",
    ),
    value("image.tag", "", Dropped, &["image.tag"], "another program"),
    value("image.pullPolicy", "IfNotPresent", Same, &["image.pullPolicy"], ""),
    value("image.pullSecrets", "[]", Same, &["imagePullSecrets"], ""),
    value(
        "nameOverride",
        "",
        Dropped,
        &["nameOverride"],
        "the objects should not be called after NTH",
    ),
    value(
        "fullnameOverride",
        "",
        Dropped,
        &["fullnameOverride"],
        "the objects should not be called after NTH",
    ),
    value(
        "serviceAccount.create",
        "true",
        Dropped,
        &["serviceAccount.create"],
        "an account of its own, which the chart makes; set it again if you make accounts yourself",
    ),
    value(
        "serviceAccount.name",
        "",
        Dropped,
        &["serviceAccount.name"],
        "an account of its own: NTH's role trusts NTH's, and lacks actions",
    ),
    value(
        "serviceAccount.annotations",
        "{}",
        Same,
        &["serviceAccount.annotations"],
        "but not the ARN of NTH's role",
    ),
    value(
        "rbac.create",
        "true",
        Dropped,
        &["rbac.create"],
        "roles of its own, which the chart makes; set it again if you make roles yourself",
    ),
    value(
        "rbac.pspEnabled",
        "true",
        Dropped,
        &[],
        "Kubernetes 1.25 has removed it; the pod fits Pod Security `restricted`",
    ),
    value("customLabels", "{}", Same, &["commonLabels"], ""),
    value("podLabels", "{}", Same, &["podLabels"], ""),
    value("podAnnotations", "{}", Same, &["podAnnotations"], ""),
    value(
        "podSecurityContext",
        "fsGroup: 1000",
        Better,
        &["podSecurityContext"],
        "user 65532, seccomp `RuntimeDefault`",
    ),
    value(
        "securityContext",
        "runAsUser: 1000 …",
        Better,
        &["securityContext"],
        "all capabilities dropped",
    ),
    value(
        "terminationGracePeriodSeconds",
        "",
        Better,
        &["terminationGracePeriodSeconds"],
        "nothing is lost when the pod ends: its successor reads the nodes",
    ),
    value("resources", "{}", Better, &["resources"], "measured for Sundown"),
    value("nodeSelector", "{}", Same, &["nodeSelector"], ""),
    value("affinity", "{}", Same, &["affinity"], "replicas keep apart without it"),
    value(
        "tolerations",
        "[]",
        Same,
        &["tolerations"],
        "but for one that tolerates everything: it would land on nodes that go",
    ),
    value(
        "topologySpreadConstraints",
        "[]",
        Same,
        &["topologySpreadConstraints"],
        "zones are spread over without it",
    ),
    value(
        "extraEnv",
        "[]",
        Same,
        &["extraEnv", "proxy.https", "proxy.http", "proxy.noProxy"],
        "variables of NTH are read as its flags, those of a proxy go to `proxy`",
    ),
    value("dnsConfig", "{}", Same, &["dnsConfig"], ""),
    value("strategy", "{}", Better, &[], "one replica after the other, without a surge"),
    value(
        "podDisruptionBudget",
        "{}",
        Better,
        &["podDisruptionBudget.enabled"],
        "there is one with more than one replica",
    ),
    value("priorityClassName", "system-cluster-critical", Same, &["priorityClassName"], ""),
    value(
        "serviceMonitor.create",
        "false",
        Same,
        &["metrics.serviceMonitor.enabled", "service.enabled"],
        "",
    ),
    value("serviceMonitor.namespace", "", Missing, &[], "it is made in the release's namespace"),
    value("serviceMonitor.labels", "{}", Same, &["metrics.serviceMonitor.labels"], ""),
    value("serviceMonitor.interval", "30s", Same, &["metrics.serviceMonitor.interval"], ""),
    value("serviceMonitor.sampleLimit", "5000", Dropped, &[], "the number of series is bounded"),
    value(
        "awsAccessKeyID",
        "",
        Dropped,
        &["serviceAccount.annotations", "extraEnvFrom"],
        "a role of the service account (Pod Identity or IRSA), else a Secret that `extraEnvFrom` \
         names",
    ),
    value(
        "awsSecretAccessKey",
        "",
        Dropped,
        &["serviceAccount.annotations", "extraEnvFrom"],
        "a role of the service account (Pod Identity or IRSA), else a Secret that `extraEnvFrom` \
         names",
    ),
    // Settings without effect in queue mode
    flag(
        "enable-spot-interruption-draining",
        "ENABLE_SPOT_INTERRUPTION_DRAINING",
        "true",
        Imds,
        &[],
        IMDS_SWITCH,
    ),
    flag(
        "enable-scheduled-event-draining",
        "ENABLE_SCHEDULED_EVENT_DRAINING",
        "true",
        Imds,
        &[],
        IMDS_SWITCH,
    ),
    flag(
        "enable-asg-lifecycle-draining",
        "ENABLE_ASG_LIFECYCLE_DRAINING",
        "false",
        Imds,
        &[],
        IMDS_SWITCH,
    ),
    flag(
        "enable-rebalance-monitoring",
        "ENABLE_REBALANCE_MONITORING",
        "false",
        Imds,
        &[],
        IMDS_SWITCH,
    ),
    flag("enable-rebalance-draining", "ENABLE_REBALANCE_DRAINING", "false", Imds, &[], IMDS_SWITCH),
    flag("metadata-tries", "METADATA_TRIES", "3", Imds, &[], ""),
    flag("metadata-url", "INSTANCE_METADATA_URL", "http://169.254.169.254", Imds, &[], ""),
    flag("uptime-from-file", "UPTIME_FROM_FILE", "", Imds, &[], ""),
];

/// Path prefixes of Helm values that only IMDS mode uses.
pub(super) const IMDS_VALUES: &[&str] = &[
    "targetNodeOs",
    "linuxPodLabels",
    "windowsPodLabels",
    "linuxPodAnnotations",
    "windowsPodAnnotations",
    "updateStrategy",
    "daemonsetPriorityClassName",
    "podMonitor",
    "useHostNetwork",
    "dnsPolicy",
    "linuxDnsPolicy",
    "windowsDnsPolicy",
    "daemonsetNodeSelector",
    "linuxNodeSelector",
    "windowsNodeSelector",
    "daemonsetAffinity",
    "linuxAffinity",
    "windowsAffinity",
    "daemonsetTolerations",
    "linuxTolerations",
    "windowsTolerations",
    "enableProbesServer",
    "metadataTries",
    "enableSpotInterruptionDraining",
    "enableASGLifecycleDraining",
    "enableScheduledEventDraining",
    "enableRebalanceMonitoring",
    "enableRebalanceDraining",
    "instanceMetadataURL",
    "procUptimeFile",
];

/// The row of a flag.
pub(super) fn of_flag(flag: &str) -> Option<&'static Row> {
    ROWS.iter().find(|row| row.flag == Some(flag))
}

/// The row of a variable.
pub(super) fn of_variable(variable: &str) -> Option<&'static Row> {
    ROWS.iter().find(|row| row.variable == Some(variable))
}

/// The row of a Helm value.
pub(super) fn of_value(path: &str) -> Option<&'static Row> {
    ROWS.iter().find(|row| row.value == Some(path))
}

/// The table of `docs/from-nth.md`.
#[cfg(test)]
pub(super) fn document() -> String {
    let code = |text: &str| if text.is_empty() { "–".to_owned() } else { format!("`{text}`") };
    let mut lines = vec![
        "| flag of NTH | Helm value of NTH | its default | answer | here | why |".to_owned(),
        "| --- | --- | --- | --- | --- | --- |".to_owned(),
    ];
    for row in ROWS {
        let flag = row.flag.map_or("–".to_owned(), |f| format!("`--{f}`"));
        let here = if row.here.is_empty() {
            "–".to_owned()
        } else {
            row.here.iter().map(|h| code(h)).collect::<Vec<_>>().join(", ")
        };
        let (value, default, why) = (
            code(row.value.unwrap_or_default()),
            code(row.default),
            if row.why.is_empty() { "–" } else { row.why },
        );
        lines.push(format!(
            "| {flag} | {value} | {default} | {} | {here} | {why} |",
            row.answer.as_str()
        ));
    }
    lines.join("\n") + "\n"
}

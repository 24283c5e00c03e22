//! Translates NTH's settings to ours.

use serde_json::{Map, Value, json};

use super::{
    ours::{Answered, Ours, add_table_answers},
    read::{Given, plain},
    secrets, table, webhook,
};

/// Rows that this file translates. The other rows get the table's explanation.
const HANDLED: &[&str] = &[
    "enableSqsTerminationDraining",
    "queueURL",
    "deleteSqsMsgIfNodeNotFound",
    "checkTagBeforeDraining",
    "checkASGTagBeforeDraining",
    "managedTag",
    "managedAsgTag",
    "nodeTerminationGracePeriod",
    "heartbeatUntil",
    "cordonOnly",
    "taintNode",
    "taint-effect",
    "enableOutOfServiceTaint",
    "excludeFromLoadBalancers",
    "prometheusServerPort",
    "enablePrometheusServer",
    "jsonLogging",
    "replicas",
    "serviceAccount.create",
    "serviceAccount.annotations",
    "rbac.create",
    "awsAccessKeyID",
    "awsSecretAccessKey",
    "tolerations",
    "podDisruptionBudget",
    "probes.httpGet.port",
    "probes.httpGet.path",
    "podSecurityContext",
    "securityContext",
    "image.repository",
    "enable-probes-server",
    "metadata-tries",
];

/// The range that `--drain-timeout` accepts, in seconds.
const DRAIN_TIMEOUT: std::ops::RangeInclusive<i64> = 30..=172_800;

pub(super) fn translate(given: &Given) -> Ours {
    let mut ours = Ours { imds_mode: given.is_imds, ..Ours::default() };
    queue(given, &mut ours);
    nodes(given, &mut ours);
    drain(given, &mut ours);
    taints_and_labels(given, &mut ours);
    observability(given, &mut ours);
    webhook::translate(given, &mut ours);
    pod(given, &mut ours);
    environment(given, &mut ours);
    unread(given, &mut ours);
    add_table_answers(given, HANDLED, &mut ours);
    let answered = given.rows().map(|(row, _)| Answered {
        setting: row.name(),
        answer: row.answer.as_str(),
        here: row.here,
    });
    ours.settings = answered.collect();
    ours.ignored =
        given.of_imds.iter().map(|name| format!("{name}: only IMDS mode looks at it")).collect();
    ours.ignored.extend(
        given.unknown.iter().map(|name| format!("{name}: NTH {} does not know it", table::VERSION)),
    );
    ours
}

/// Adds a step for each setting whose value could not be read.
fn unread(given: &Given, ours: &mut Ours) {
    for name in &given.unreadable {
        ours.do_this(unreadable(name));
    }
    // These settings are translated with their `valueFrom`.
    let taken = ["queueURL", "webhookURL", "webhookHeaders"];
    for (name, from) in given.elsewhere.iter().filter(|(name, _)| !taken.contains(name)) {
        ours.do_this(format!(
            "{name}: its value is in another object ({from}) and was not read; look it up{}",
            of_ours(name)
        ));
    }
}

/// Does not repeat the value, which may be a secret.
fn unreadable(name: &str) -> String {
    format!("{name}: its value cannot be read and is not carried over; look it up{}", of_ours(name))
}

/// Our names of a setting of NTH's, for the end of a sentence.
fn of_ours(name: &str) -> String {
    let row =
        table::of_value(name).or_else(|| table::of_flag(name)).filter(|row| !row.here.is_empty());
    row.map(|row| format!(" (here: {})", row.here.join(", "))).unwrap_or_default()
}

fn queue(given: &Given, ours: &mut Ours) {
    if let Some(url) = given.text("queueURL") {
        ours.set("config.queueUrls", json!([url]));
        ours.do_this(format!(
            "config.queueUrls names NTH's queue. One handler at a time may receive from it: for a \
             trial, and for a queue with a dead-letter queue that keeps events for days, let \
             terraform/ make one, and name that ({url} is NTH's)"
        ));
    } else {
        ours.set("config.queueUrls", json!([]));
        let from = given
            .elsewhere
            .get("queueURL")
            .map(|from| format!("; NTH's is in {from}"))
            .unwrap_or_default();
        ours.do_this(format!(
            "config.queueUrls: the URL of the queue, as `aws sqs get-queue-url` prints it{from}"
        ));
    }
    ours.set("config.clusterName", "");
    ours.do_this(
        "config.clusterName: the NAME in the tags kubernetes.io/cluster/NAME of your instances \
         and groups. NTH has no such setting; without it hooks of instances that never became \
         nodes time out",
    );
    ours.set("image.repository", "");
    ours.do_this(
        "image.repository: where you keep the image of Sundown (deploy/Dockerfile builds it)",
    );
    if let Some(region) = given.text("awsRegion") {
        ours.set("aws.region", region);
    }
    if let Some(url) = given.text("awsEndpoint") {
        ours.set("config.awsEndpointUrl", url);
    }
    if given.is_on("deleteSqsMsgIfNodeNotFound") {
        ours.changes(
            "deleteSqsMsgIfNodeNotFound: true",
            "an instance without a node is completed once its tags prove that it is this \
             cluster's, and not before",
        );
    }
}

/// The value of a setting with two names: the newer name wins. NTH's chart always sets the newer
/// one.
fn newer(given: &Given, new: &str, old: &str, ours: &mut Ours) -> Option<String> {
    if given.is_workload && given.get(new).is_none() {
        return given.text(old);
    }
    if given
        .text(old)
        .is_some_and(|text| table::of_value(old).is_some_and(|row| row.default != text))
    {
        ours.changes(old.to_owned(), format!("it has no effect today: {new} is set too, and wins"));
    }
    given.text(new)
}

fn nodes(given: &Given, ours: &mut Ours) {
    let check = newer(given, "checkTagBeforeDraining", "checkASGTagBeforeDraining", ours);
    let tag = newer(given, "managedTag", "managedAsgTag", ours);
    if matches!(check.as_deref(), Some("false" | "0" | "f" | "F" | "FALSE" | "False")) {
        return;
    }
    let tag = tag.unwrap_or_else(|| MANAGED.to_owned());
    // In IMDS mode NTH does not read tags, so most likely nobody has set this one.
    if given.is_imds && tag == MANAGED {
        return;
    }
    ours.do_this(format!(
        "config.managedTag: interruptions of instances without the tag {tag} are left alone. See \
         that all that are to be drained carry it, or take the setting away: the cluster's own tag \
         is enough for Sundown"
    ));
    ours.set("config.managedTag", tag);
}

/// The tag that NTH looks for by default.
const MANAGED: &str = "aws-node-termination-handler/managed";

fn drain(given: &Given, ours: &mut Ours) {
    let of_node = given.number("nodeTerminationGracePeriod").filter(|s| *s != 120 && *s > 0);
    let of_heartbeats = given.number("heartbeatUntil").filter(|s| *s > 0);
    if let Some(wanted) = of_node.max(of_heartbeats) {
        let seconds = wanted.clamp(*DRAIN_TIMEOUT.start(), *DRAIN_TIMEOUT.end());
        ours.set("config.drainTimeout", format!("{seconds}s"));
        let why = "how long a drain under a lifecycle hook may take; then its hook is completed. \
            (NTH gives up, leaves the hook open and tries again.) Spot notices have 120 s in \
            any case";
        let setting = if of_node.max(of_heartbeats) == of_heartbeats {
            "heartbeatUntil"
        } else {
            "nodeTerminationGracePeriod"
        };
        ours.changes(format!("{setting}: {wanted} → config.drainTimeout: {seconds}s"), why);
    }
    if let Some(delay) = given.number("completeLifecycleActionDelaySeconds").filter(|s| *s > 0) {
        ours.set("config.completeDelay", format!("{}s", delay.min(3600)));
        if delay > 3600 {
            ours.changes(
                format!("completeLifecycleActionDelaySeconds: {delay}"),
                "an hour is the most here: every scale-in waits for it",
            );
        }
    }
    if given.is_on("cordonOnly") {
        ours.misses(
            "cordonOnly: true",
            "Sundown drains what it cordons. Do not switch over without a look at this: pods that \
             NTH leaves running are evicted",
        );
    }
    if given.is_on("dryRun") {
        ours.set("config.dryRun", true);
    }
}

/// Translates the settings about taints and labels.
fn taints_and_labels(given: &Given, ours: &mut Ours) {
    if given.is_on("taintNode") {
        ours.set("config.compat", "nth");
        ours.changes(
            "taintNode: true → config.compat: nth",
            "our own taint sundown.dev/interruption is always there; with this NTH's stand beside \
             it, with NTH's values",
        );
    }
    if let Some(effect) = given.text("taint-effect").filter(|e| e != "NoSchedule") {
        ours.changes(
            format!("taint-effect: {effect}"),
            "the effect is always NoSchedule; NoExecute would delete pods past their budgets",
        );
    }
    if given.is_on("enableOutOfServiceTaint") {
        ours.set("config.outOfServiceTaint", true);
        ours.changes(
            "enableOutOfServiceTaint: true → config.outOfServiceTaint: true",
            "the taint comes once EC2 shows the instance as terminated, not right after the drain, \
             and never if the instance may come back",
        );
    }
    if given.is_on("excludeFromLoadBalancers") {
        ours.changes(
            "excludeFromLoadBalancers: true",
            "nodes leave early after a spot notice, and when the last pod is going under a hook; \
             never more than half of the nodes. `config.excludeFromLoadBalancers: early` is always \
             with the cordon",
        );
    } else {
        ours.changes(
            "excludeFromLoadBalancers: false",
            "nodes leave load balancers by default; `config.excludeFromLoadBalancers: never` \
             keeps them in, as now",
        );
    }
}

fn observability(given: &Given, ours: &mut Ours) {
    if given.is_on("jsonLogging") {
        ours.set("config.logFormat", "json");
    }
    if let Some(level) = given.text("logLevel") {
        let level = level.to_lowercase();
        if ["error", "warn", "info", "debug", "trace"].contains(&level.as_str()) {
            ours.set("config.logLevel", level);
        } else {
            ours.do_this(unreadable("logLevel"));
        }
    }
    if let Some(port) = given.number("prometheusServerPort").filter(|p| *p != 9092) {
        ours.set("metrics.port", port);
    } else if given.is_on("enablePrometheusServer") {
        ours.changes(
            "prometheusServerPort: 9092",
            "the metrics are at 9808, and their names are others (docs/operations.md)",
        );
    }
    if given.is_on("serviceMonitor.create") {
        ours.set("metrics.serviceMonitor.enabled", true);
        ours.set("service.enabled", true);
        for (theirs, name) in
            [("serviceMonitor.labels", "labels"), ("serviceMonitor.interval", "interval")]
        {
            if let Some(value) = given.get(theirs) {
                let path = format!("metrics.serviceMonitor.{name}");
                let value = without_secrets(&path, value, ours);
                ours.set(&path, value);
            }
        }
    }
}

/// Values that both charts have: the path in NTH's, the path in ours.
const CARRIED: &[(&str, &str)] = &[
    ("image.pullPolicy", "image.pullPolicy"),
    ("image.pullSecrets", "imagePullSecrets"),
    ("customLabels", "commonLabels"),
    ("podLabels", "podLabels"),
    ("podAnnotations", "podAnnotations"),
    ("nodeSelector", "nodeSelector"),
    ("affinity", "affinity"),
    ("topologySpreadConstraints", "topologySpreadConstraints"),
    ("dnsConfig", "dnsConfig"),
    ("priorityClassName", "priorityClassName"),
];

/// A value to carry over. From a mapping with the user's own keys, entries that may be secrets by
/// their name are left out, and a step names them.
fn without_secrets(path: &str, value: &Value, ours: &mut Ours) -> Value {
    let Value::Object(map) = value else { return value.clone() };
    let (hidden, kept): (Map<String, Value>, Map<String, Value>) =
        map.clone().into_iter().partition(|(name, _)| secrets::smells(name));
    if !hidden.is_empty() {
        let names = hidden.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
        ours.do_this(format!(
            "{path}: {names} may be a secret by its name, so its value is left out here. Put it \
             in again if it is none"
        ));
    }
    Value::Object(kept)
}

fn pod(given: &Given, ours: &mut Ours) {
    if given
        .get("image.pullSecrets")
        .and_then(Value::as_array)
        .is_some_and(|names| !names.is_empty())
    {
        ours.do_this(
            "imagePullSecrets: these Secrets are where NTH runs; Sundown's namespace needs them \
             too",
        );
    }
    for (theirs, path) in CARRIED {
        if let Some(value) = given
            .get(theirs)
            .filter(|v| table::of_value(theirs).is_some_and(|row| row.default != plain(v)))
        {
            let value = without_secrets(path, value, ours);
            ours.set(path, value);
        }
    }
    match given.number("replicas") {
        Some(n) if n > 1 => ours.set("replicas", n),
        _ => ours.changes(
            "replicas: 1",
            "two: one leads, one stands by, and what was begun goes on when either ends. More \
             replicas send nothing twice",
        ),
    }
    accounts(given, ours);
    let (everything, some): (Vec<_>, Vec<_>) = given
        .get("tolerations")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .cloned()
        .partition(|t| t.get("key").is_none_or(Value::is_null));
    if !everything.is_empty() {
        ours.changes(
            "tolerations",
            "one that tolerates every taint is left out: Sundown would land on the very nodes \
             that go, and not be drained from them",
        );
    }
    if !some.is_empty() {
        ours.set("tolerations", some);
    }
}

/// Translates the service account and its roles. `create: false` is not carried over, because the
/// pods would wait for an account that nobody makes.
fn accounts(given: &Given, ours: &mut Ours) {
    let is_off = |name: &str| given.get(name).is_some() && !given.is_on(name);
    if is_off("serviceAccount.create") {
        let theirs = given
            .text("serviceAccount.name")
            .map(|name| format!(" (it runs as {name})"))
            .unwrap_or_default();
        ours.do_this(format!(
            "serviceAccount.create: NTH's chart makes no account{theirs}; ours makes one of its \
             own, `sundown`, which the IAM role has to know. Who makes accounts by other means: \
             make one in Sundown's namespace, and set serviceAccount.create: false and \
             serviceAccount.name to it. Not NTH's: its role lacks what is listed below"
        ));
    }
    if is_off("rbac.create") {
        ours.do_this(
            "rbac.create: NTH's chart makes no roles; ours makes what Sundown needs, which is not \
             what NTH has. Who makes roles by other means: set rbac.create: false, and bind \
             Sundown's account to the roles that `helm template deploy/helm/sundown --show-only \
             templates/rbac.yaml` prints; `sundown check` names what is missing (point `rights`)",
        );
    }
    let Some(annotations) = given.get("serviceAccount.annotations").and_then(Value::as_object)
    else {
        return;
    };
    let mut kept = annotations.clone();
    let role = kept.remove("eks.amazonaws.com/role-arn");
    if !kept.is_empty() {
        let kept = without_secrets("serviceAccount.annotations", &Value::Object(kept), ours);
        ours.set("serviceAccount.annotations", kept);
    }
    if let Some(role) = role {
        ours.do_this(format!(
            "serviceAccount.annotations: a role of its own for Sundown, not NTH's ({}): that one \
             trusts NTH's service account, and lacks what is listed below",
            plain(&role)
        ));
    }
}

/// Translates variables that are not NTH's: for a proxy, for the AWS SDK, and others.
fn environment(given: &Given, ours: &mut Ours) {
    let mut keys: Vec<_> = ["awsAccessKeyID", "awsSecretAccessKey"]
        .into_iter()
        .filter(|name| given.text(name).is_some())
        .collect();
    for entry in &given.environment {
        let name = entry.get("name").and_then(Value::as_str).unwrap_or_default();
        let value = entry.get("value").map(plain).unwrap_or_default();
        match name.to_ascii_uppercase().as_str() {
            "HTTPS_PROXY" if !value.is_empty() => proxy("proxy.https", value, ours),
            "HTTP_PROXY" if !value.is_empty() => proxy("proxy.http", value, ours),
            "NO_PROXY" if !value.is_empty() => {
                // The chart adds these itself.
                let own =
                    ["169.254.169.254", "169.254.170.23", "fd00:ec2::23", "localhost", "127.0.0.1"];
                let hosts: Vec<_> = value
                    .split(',')
                    .map(str::trim)
                    .filter(|h| !h.is_empty() && !own.contains(h))
                    .collect();
                ours.set("proxy.noProxy", json!(hosts));
            }
            // EKS's own webhook sets these.
            "AWS_ROLE_ARN"
            | "AWS_WEB_IDENTITY_TOKEN_FILE"
            | "AWS_CONTAINER_CREDENTIALS_FULL_URI"
            | "AWS_CONTAINER_AUTHORIZATION_TOKEN"
            | "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"
            | "AWS_STS_REGIONAL_ENDPOINTS"
            | "AWS_DEFAULT_REGION" => {}
            "AWS_ACCESS_KEY_ID" | "AWS_SECRET_ACCESS_KEY" | "AWS_SESSION_TOKEN" => keys.push(name),
            _ if name.starts_with("AWS_")
                && entry.get("value").is_some()
                && secrets::smells(name) =>
            {
                ours.do_this(format!(
                    "extraEnv: {name} may be a secret by its name, so it is left out here; give \
                     it from a Secret if it is needed"
                ));
            }
            // NTH has no flag for it, so the AWS SDK or a custom image reads it.
            _ if name.starts_with("AWS_") => ours.push("extraEnv", entry.clone()),
            _ => ours.misses(
                format!("variable {name}"),
                "neither NTH nor Sundown looks at it; put it into extraEnv if the image does",
            ),
        }
    }
    if !keys.is_empty() {
        ours.do_this(format!(
            "{}: keys are neither carried over nor repeated here. Give the account `sundown` a \
             role (EKS Pod Identity, or IAM roles for service accounts); where there is none, put \
             AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY into a Secret in Sundown's namespace and \
             name it in extraEnvFrom",
            keys.join(", ")
        ));
    }
}

/// Sets a proxy's URL, without the user and the password in it.
fn proxy(path: &str, url: String, ours: &mut Ours) {
    let bare = secrets::without_user(&url);
    if bare.is_some() {
        ours.do_this(format!(
            "{path}: the user and the password in the proxy's URL are left out here. If it asks \
             for them, keep that value where you keep secrets, and add it when you install"
        ));
    }
    ours.set(path, bare.unwrap_or(url));
}

//! Validates flags, alone and against each other, and builds a [`Config`] from them.

mod drain;

use std::{collections::BTreeSet, time::Duration};

pub(super) use self::drain::drain;
use super::{
    AwsConfig, Config, DrainConfig, ElectionConfig, KubeConfig, OursConfig, QueueConfig,
    ServiceConfig,
    args::{LaunchArgs, LeaseArgs, RunArgs},
    defaults as d,
    error::ConfigError,
    read_rules,
    validate_outputs::{traces, trial, webhook},
    values::{Environment, duration_text, given},
};
use crate::{
    domain::{NodeName, PodKey, PodRules, seconds},
    election,
    observe::logs,
    triage::{HookGlobs, LONGEST_PAUSE, LaunchPolicy},
};

/// How long a call on the Lease may take: it must end before another replica may lead.
const LEASE_CALL: Duration = seconds(5);

impl RunArgs {
    /// Validates the flags. `environment` looks up the variables that a pod spec sets: `NODE_NAME`,
    /// `POD_NAME`, `POD_NAMESPACE`. Errs with the first flag that cannot be used.
    pub fn config(
        self,
        environment: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Config, ConfigError> {
        let queue = queue(&self)?;
        let ours = ours(&self)?;
        let launch = launch(&self.launch)?;
        let drain = drain(&self.drain)?;
        let pod_rules = pod_rules(&drain)?.into();
        if drain.impaired.is_some() && ours.sweep_interval.is_none() {
            let remedy =
                "the sweep finds sick instances; use 30s to 10m, or remove --on impaired=…";
            return Err(ConfigError::duration("sweep-interval", Duration::ZERO, remedy));
        }
        let election = election(&self, environment)?;
        let aws = aws(&self, &queue)?;
        let service = service(&self)?;
        let webhook = webhook(&self)?;
        let trial = trial(&self)?;
        let kube = KubeConfig {
            kubeconfig: self.kube.kubeconfig.filter(|p| !p.as_os_str().is_empty()),
            context: given(self.kube.context),
        };
        let accept_real_tests = self.accept_real_tests.filter(|length| !length.is_zero());
        if let Some(length) = accept_real_tests.filter(|length| *length > seconds(24 * 3600)) {
            let remedy = "anybody who may send a test event can drain nodes during that time; use 24h or less";
            return Err(ConfigError::duration("accept-real-tests", length, remedy));
        }
        Ok(Config {
            queue,
            ours,
            launch,
            drain,
            pod_rules,
            election,
            aws,
            kube,
            service,
            webhook,
            dry_run: self.dry_run,
            accept_real_tests,
            trial,
        })
    }
}

/// The rules about pods. Errs if their file is bad.
fn pod_rules(drain: &DrainConfig) -> Result<PodRules, ConfigError> {
    let Some(path) = &drain.rules_file else { return Ok(PodRules::default()) };
    let path_text = path.display().to_string();
    read_rules(path).map_err(|error| ConfigError::new("rules-file", Some(&path_text), error))
}

impl LeaseArgs {
    /// Namespace and name of the Lease. The namespace is the flag's, else that of this process's
    /// pod (`POD_NAMESPACE`), else `kube-system`.
    #[must_use]
    pub fn place(&self, environment: &dyn Fn(&str) -> Option<String>) -> (String, String) {
        self.place_or_default(environment).0
    }

    /// [`Self::place`], and `true` if the namespace is from the flag or `POD_NAMESPACE`.
    #[must_use]
    pub fn place_or_default(
        &self,
        environment: &dyn Fn(&str) -> Option<String>,
    ) -> ((String, String), bool) {
        let namespace =
            given(self.lease_namespace.clone()).or_else(|| given(environment("POD_NAMESPACE")));
        let is_given = namespace.is_some();
        (
            (namespace.unwrap_or_else(|| d::LEASE_NAMESPACE.to_owned()), self.lease_name.clone()),
            is_given,
        )
    }
}

fn within(
    flag: &'static str,
    value: usize,
    least: usize,
    most: usize,
) -> Result<usize, ConfigError> {
    if (least..=most).contains(&value) {
        return Ok(value);
    }
    Err(ConfigError::new(
        flag,
        Some(&value.to_string()),
        format!("out of range; use {least} to {most}"),
    ))
}

fn queue(args: &RunArgs) -> Result<QueueConfig, ConfigError> {
    let q = &args.queue;
    // Printing the configuration needs no queue.
    if q.queue_url.is_empty() && !args.print_config {
        return Err(ConfigError::new(
            "queue-url",
            None,
            "there is nothing to receive from; give the URL of the cluster's SQS queue, as `aws \
             sqs get-queue-url` prints it",
        ));
    }
    let mut seen = BTreeSet::new();
    for url in &q.queue_url {
        if !seen.insert(&url.url) {
            return Err(ConfigError::new(
                "queue-url",
                Some(&url.url),
                "given twice; name each queue once",
            ));
        }
    }
    for url in &q.dlq_url {
        if q.queue_url.iter().any(|queue| queue.url == url.url) {
            let remedy =
                "the queue that is received from; give the dead-letter queue in its redrive policy";
            return Err(ConfigError::new("dlq-url", Some(&url.url), remedy));
        }
        if !seen.insert(&url.url) {
            return Err(ConfigError::new(
                "dlq-url",
                Some(&url.url),
                "given twice; name each queue once",
            ));
        }
        let name = |url: &str| url.rsplit('/').next().unwrap_or_default().to_owned();
        if q.dlq_url.iter().any(|other| other.url != url.url && name(&other.url) == name(&url.url))
        {
            let remedy = "two of the same name would be told as one series; name one of them, or \
                give queues other names";
            return Err(ConfigError::new("dlq-url", Some(&url.url), remedy));
        }
    }
    Ok(QueueConfig {
        urls: q.queue_url.clone(),
        dead: q.dlq_url.clone(),
        shared: q.shared_queue,
        max_pollers: within("max-pollers", q.max_pollers, 1, 16)?,
        // SQS allows 120 000 messages in flight per standard queue.
        max_held: within("max-held", q.max_held, 10, 100_000)?,
    })
}

fn ours(args: &RunArgs) -> Result<OursConfig, ConfigError> {
    let o = &args.ours;
    // The default `*` means all hooks; triage expects an empty list for that.
    let explicit = !matches!(o.lifecycle_hook.as_slice(), [only] if only == d::LIFECYCLE_HOOK);
    let given_hooks: &[String] = if explicit { &o.lifecycle_hook } else { &[] };
    let hooks = HookGlobs::new(given_hooks).map_err(|bad| {
        let remedy = "matches no hook; use letters, digits, - _ / and the wildcards * and ?, such \
            as sundown*";
        ConfigError::new("lifecycle-hook", Some(&bad.0), remedy)
    })?;
    if o.join_timeout > seconds(3600) {
        return Err(ConfigError::duration(
            "join-timeout",
            o.join_timeout,
            "an instance that has not joined after an hour never will; use 1h or less",
        ));
    }
    let is_off = o.sweep_interval.is_zero();
    if !is_off && !(seconds(30)..=LONGEST_PAUSE).contains(&o.sweep_interval) {
        let remedy = "out of range; use 30s to 10m (its calls share their rate with other tools), \
            or 0s for no sweep";
        return Err(ConfigError::duration("sweep-interval", o.sweep_interval, remedy));
    }
    let managed_tag = given(o.managed_tag.clone());
    if let Some(tag) = managed_tag.as_deref().filter(|t| t.chars().count() > 128 || t.contains('='))
    {
        return Err(ConfigError::new(
            "managed-tag",
            Some(tag),
            "that is no tag key; give the key alone, 128 characters at most",
        ));
    }
    let cluster_name = given(o.cluster_name.clone());
    // The characters that EKS and kops allow and that fit into the key of a tag. No tag has any
    // other name, so Sundown would silently treat every instance as another cluster's.
    let fits = |name: &&str| {
        name.len() <= 100 && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
    };
    if let Some(name) = cluster_name.as_deref().filter(|name| !fits(name)) {
        let remedy = "no name of a cluster; give it as it stands in the tags \
            kubernetes.io/cluster/NAME: letters, digits, - _ and . (no ARN, no wildcard)";
        return Err(ConfigError::new("cluster-name", Some(name), remedy));
    }
    Ok(OursConfig {
        cluster_name,
        hooks,
        nodes: o.node_selector.clone(),
        managed_tag,
        join_timeout: o.join_timeout,
        sweep_interval: Some(o.sweep_interval).filter(|interval| !interval.is_zero()),
    })
}

/// Bounds a flag whose values are a line of the log, or are looked for at each pod.
fn at_most_16(flag: &'static str, count: usize) -> Result<(), ConfigError> {
    if count <= 16 {
        return Ok(());
    }
    Err(ConfigError::new(flag, Some(&count.to_string()), "too many; give at most 16"))
}

fn launch(a: &LaunchArgs) -> Result<LaunchPolicy, ConfigError> {
    if a.launch_timeout < seconds(30) || a.launch_timeout > seconds(11 * 3600) {
        return Err(ConfigError::duration(
            "launch-timeout",
            a.launch_timeout,
            "out of range; use 30s to 11h (SQS hides a message for at most 12h)",
        ));
    }
    let taints = &a.launch_startup_taint;
    let is_key = |key: &&String| (1..=317).contains(&key.len()) && !key.contains([':', '=', ' ']);
    if let Some(key) = taints.iter().find(|key| !is_key(key)) {
        let remedy = "no key of a taint; give the key alone, such as \
            node.cilium.io/agent-not-ready";
        return Err(ConfigError::new("launch-startup-taint", Some(key), remedy));
    }
    at_most_16("launch-daemonset", a.launch_daemonset.len())?;
    at_most_16("launch-startup-taint", taints.len())?;
    Ok(LaunchPolicy {
        timeout: a.launch_timeout,
        on_timeout: a.launch_on_timeout,
        daemon_sets: a.launch_daemonset.clone(),
        startup_taints: taints.clone(),
    })
}

fn election(args: &RunArgs, environment: Environment<'_>) -> Result<ElectionConfig, ConfigError> {
    let s = &args.election;
    let (lease_namespace, lease_name) = args.lease.place(environment);
    for (flag, name, most) in
        [("lease-name", &lease_name, 253), ("lease-namespace", &lease_namespace, 63)]
    {
        let fine = !name.is_empty()
            && name.len() <= most
            && name
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-.".contains(&b))
            && !name.starts_with(['-', '.'])
            && !name.ends_with(['-', '.']);
        if !fine {
            return Err(ConfigError::new(
                flag,
                Some(name),
                "not a Kubernetes name; use lower-case letters, digits, - and .",
            ));
        }
    }
    let lease = lease_timing(args)?;
    let own = |flag: &Option<String>, variable| {
        given(flag.clone()).or_else(|| given(environment(variable)))
    };
    let node = own(&s.node_name, "NODE_NAME").map(NodeName::from);
    let pod = match (own(&s.pod_name, "POD_NAME"), own(&s.pod_namespace, "POD_NAMESPACE")) {
        (Some(name), Some(namespace)) => Some(PodKey { namespace: namespace.into(), name }),
        (Some(name), None) => {
            let remedy = format!(
                "the pod `{name}` is found by name and namespace; set POD_NAMESPACE from the \
                 field metadata.namespace"
            );
            return Err(ConfigError::new("pod-namespace", None, remedy));
        }
        (None, _) => None,
    };
    Ok(ElectionConfig { lease_name, lease_namespace, lease, node, pod })
}

fn lease_timing(args: &RunArgs) -> Result<election::Settings, ConfigError> {
    let s = &args.election;
    let (duration, renew_deadline, retry) =
        (s.lease_duration, s.lease_renew_deadline, s.lease_retry);
    if duration.subsec_nanos() != 0 || duration.is_zero() || duration > seconds(3600) {
        return Err(ConfigError::duration(
            "lease-duration",
            duration,
            "use whole seconds, 1h at most; 15s is usual",
        ));
    }
    if renew_deadline + LEASE_CALL > duration {
        let remedy = format!(
            "a call of the old leader may take {} more, and must be over before another leads; \
             use at most --lease-duration ({}) less that",
            duration_text(LEASE_CALL),
            duration_text(duration)
        );
        return Err(ConfigError::duration("lease-renew-deadline", renew_deadline, remedy));
    }
    if retry < Duration::from_millis(100) || retry * 2 > renew_deadline {
        let remedy = format!(
            "use 100ms to half of --lease-renew-deadline ({})",
            duration_text(renew_deadline)
        );
        return Err(ConfigError::duration("lease-retry", retry, remedy));
    }
    Ok(election::Settings { duration, renew_deadline, retry })
}

fn aws(args: &RunArgs, queue: &QueueConfig) -> Result<AwsConfig, ConfigError> {
    let endpoint_url = given(args.aws.aws_endpoint_url.clone());
    if let Some(text) = &endpoint_url {
        let fine = url::Url::parse(text)
            .is_ok_and(|u| matches!(u.scheme(), "http" | "https") && u.host_str().is_some());
        if !fine {
            return Err(ConfigError::new(
                "aws-endpoint-url",
                Some(text),
                "not an http(s) URL; use one such as http://localhost:4566",
            ));
        }
    }
    let flag = given(args.aws.region.clone());
    let fits = |region: &&str| {
        // An availability zone (eu-west-1a) ends with a letter after a digit; a local zone's does
        // too.
        let is_zone = region.rsplit('-').next().is_some_and(|end| {
            end.len() > 1
                && end.starts_with(|c: char| c.is_ascii_digit())
                && !end.ends_with(|c: char| c.is_ascii_digit())
        });
        !is_zone
            && region.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
    };
    if let Some(region) = flag.as_deref().filter(|region| !fits(region)) {
        return Err(ConfigError::new(
            "region",
            Some(region),
            "not a region; use a name such as eu-west-1 (not an availability zone's)",
        ));
    }
    let regions: BTreeSet<&str> = queue.urls.iter().filter_map(|u| u.region.as_deref()).collect();
    if flag.is_none() && regions.len() > 1 {
        let named = regions.into_iter().collect::<Vec<_>>().join(" and ");
        return Err(ConfigError::new(
            "region",
            None,
            format!(
                "the queues are in {named}, a cluster is in one region; give the region of its \
                 instances"
            ),
        ));
    }
    let region = flag.or_else(|| regions.first().map(|r| (*r).to_owned()));
    Ok(AwsConfig { region, endpoint_url })
}

fn service(args: &RunArgs) -> Result<ServiceConfig, ConfigError> {
    let (s, l) = (&args.service, &args.log);
    logs::filter(&l.log_level)
        .map_err(|e| ConfigError::new("log-level", Some(&l.log_level), e.to_string()))?;
    let (metrics, probes) = (s.metrics_listen.address(), s.probe_listen.address());
    if let Some(address) = probes.filter(|address| metrics == Some(*address) && address.port() != 0)
    {
        let remedy = "also the address of --metrics-listen; give each a port of its own";
        return Err(ConfigError::new("probe-listen", Some(&address.to_string()), remedy));
    }
    Ok(ServiceConfig {
        metrics,
        probes,
        pod_events: s.pod_events,
        traces: traces(args)?,
        log_level: l.log_level.clone(),
        log_format: l.log_format,
    })
}

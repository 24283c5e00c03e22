//! Checks RBAC rights, other programs in the cluster that get in Sundown's way, and the pause. The
//! functions that judge an answer are pure; those that ask are at the end.

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::api::{
    authorization::v1::{ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec},
    coordination::v1::Lease,
    core::v1::Pod,
};
use kube::{
    Api, Client,
    api::{ListParams, PostParams},
};

use super::finding::Finding;
use crate::{
    cli::words::count,
    cluster::{LEASE_VERBS, Right, Target, rights},
    config::Config,
    domain::{ForceAfter, Kind, PAUSE, Response, WaitForVolumes, seconds, with_causes},
};

/// How long one request may take.
const LIMIT: Duration = seconds(10);
/// Pods on a page, and the most pages that are read, so that a check of a huge cluster ends.
const PAGE: u32 = 500;
const PAGES: usize = 60;

/// A right, and the namespace and object for which it is needed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Needed {
    pub(super) right: Right,
    /// Empty: in all namespaces.
    pub(super) namespace: String,
    /// Empty: objects of any name.
    pub(super) name: String,
}

/// All rights that `sundown run` needs with this configuration.
pub(super) fn needed(config: &Config) -> Vec<Needed> {
    let everywhere =
        |right: &Right| Needed { right: *right, namespace: String::new(), name: String::new() };
    let of_pods = [Target::ListPods, Target::WatchPods];
    let may_force = config.drain.force_after != ForceAfter::Never || config.pod_rules.may_force();
    // A dry run drains nothing and holds no Lease.
    let used = Target::ALL.into_iter().filter(|t| match t {
        Target::DeletePod => may_force,
        // Only before a forced deletion.
        Target::PatchPodStatus => config.drain.disruption_target && may_force,
        Target::PatchNodeStatus => {
            let of_changes = config.drain.maintenance_condition
                && config.drain.responses.of(Kind::ScheduledChange) != Response::Ignore;
            !config.dry_run && (of_changes || config.drain.drain_conditions)
        }
        Target::DeleteNode => config.drain.gone_nodes.delete && !config.dry_run,
        Target::ListVolumeAttachments | Target::GetVolumeClaim => {
            config.drain.wait_for_volumes != WaitForVolumes::Never && !config.dry_run
        }
        Target::ListNamespaces => {
            !config.dry_run && config.pod_rules.namespace_label_keys().next().is_some()
        }
        // A dry run does not wait for launches.
        Target::GetDaemonSet | Target::GetNodeLease => !config.dry_run,
        _ => !config.dry_run || !of_pods.contains(t),
    });
    let mut all: Vec<Needed> =
        used.flat_map(rights).filter(|r| !config.dry_run || !r.writes()).map(everywhere).collect();
    if !config.dry_run {
        all.extend(LEASE_VERBS.map(|verb| Needed {
            right: Right {
                group: "coordination.k8s.io",
                resource: "leases",
                subresource: "",
                verb,
            },
            namespace: config.election.lease_namespace.clone(),
            // An authorizer does not see the object's name in a create request.
            name: if verb == "create" { String::new() } else { config.election.lease_name.clone() },
        }));
    }
    all
}

/// Judges the API server's answers about rights: one finding for each missing or unknown right, and
/// one for all granted ones.
pub(super) fn judge_rights(answers: &[(Needed, Result<bool, String>)]) -> Vec<Finding> {
    const POINT: &str = "rights";
    let words = |n: &Needed| {
        let place =
            if n.namespace.is_empty() { String::new() } else { format!(" in {}", n.namespace) };
        let name = if n.name.is_empty() { String::new() } else { format!("/{}", n.name) };
        format!("{}{name}{place}", n.right.words())
    };
    let allowed = answers.iter().filter(|(_, a)| *a == Ok(true)).count();
    let mut found = Vec::new();
    if allowed > 0 {
        found.push(Finding::yes(
            POINT,
            "",
            format!("{allowed} of {} rights are granted", answers.len()),
        ));
    }
    for (right, answer) in answers {
        match answer {
            Ok(true) => {}
            Ok(false) => {
                let remedy = "compare the roles with those of the chart or of deploy/manifests, \
                    and their bindings with the account of the pods";
                let missing = Finding::no(POINT, words(right), "RBAC does not allow it", remedy);
                found.push(if is_for_volumes(right) { missing.advice() } else { missing });
            }
            Err(why) => found.push(Finding::cannot_tell(
                POINT,
                words(right),
                why,
                "ask again; the API server answers such questions to everybody",
            )),
        }
    }
    found
}

/// Without this right Sundown works, and waits for no volume (`--wait-for-volumes`).
fn is_for_volumes(needed: &Needed) -> bool {
    [Target::ListVolumeAttachments, Target::GetVolumeClaim]
        .into_iter()
        .any(|target| rights(target).contains(&needed.right))
}

/// What a pod's object shows of the program that runs in it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct PodSummary {
    pub(super) namespace: String,
    pub(super) name: String,
    /// The kind of its owner.
    pub(super) owner: String,
    pub(super) images: Vec<String>,
    /// Commands and arguments.
    pub(super) words: Vec<String>,
    pub(super) env: BTreeMap<String, String>,
    pub(super) address: Option<String>,
    pub(super) is_over: bool,
}

/// Queues (URLs) and Lease (namespace, name) of this Sundown, by which its own pods are recognized.
#[derive(Debug, Clone)]
pub(super) struct Own<'a> {
    pub(super) queues: Vec<&'a str>,
    pub(super) lease: (&'a str, &'a str),
}

impl Own<'_> {
    /// Whether its command line or its environment names one of our queues.
    fn names_our_queue(&self, pod: &PodSummary) -> bool {
        // The URL may be part of a list or of a shell command. A longer URL that begins with ours
        // is another queue.
        let is_part = |c: char| !(c.is_whitespace() || ",;='\"".contains(c));
        let whole = |text: &str| {
            text.split(|c| !is_part(c))
                .any(|word| self.queues.iter().any(|url| word.trim_end_matches('/') == *url))
        };
        // The bare name counts only where the flag or variable is called a queue, because other
        // things may have the same name.
        let by_name = |what: &str, value: &str| {
            let is_ours = |url: &&str| {
                url.rsplit('/').next().is_some_and(|name| {
                    value
                        .strip_suffix(name)
                        .is_some_and(|before| before.is_empty() || before.ends_with(['/', ':']))
                })
            };
            what.to_ascii_lowercase().contains("queue") && self.queues.iter().any(is_ours)
        };
        pod.words.iter().chain(pod.env.values()).any(|text| whole(text))
            || pod.env.iter().any(|(name, value)| by_name(name, value))
            || pod
                .words
                .iter()
                .filter_map(|word| word.split_once('='))
                .any(|(flag, value)| by_name(flag, value))
            || pod
                .words
                .iter()
                .zip(pod.words.iter().skip(1))
                .any(|(flag, value)| flag.starts_with('-') && by_name(flag, value))
    }

    /// Whether it is a replica of this Sundown: they share one Lease, so only one of them receives.
    fn is_ours(&self, pod: &PodSummary) -> bool {
        let (namespace, name) = self.lease;
        let of =
            |variable: &str| pod.env.get(variable).map(String::as_str).filter(|v| !v.is_empty());
        pod.env.contains_key("SUNDOWN_QUEUE_URL")
            && of("SUNDOWN_LEASE_NAMESPACE").unwrap_or(&pod.namespace) == namespace
            && of("SUNDOWN_LEASE_NAME").unwrap_or("sundown") == name
            && !of("SUNDOWN_DRY_RUN").is_some_and(|v| v.eq_ignore_ascii_case("true"))
    }
}

/// Finds programs that receive from our queues, also drain nodes, or scale the groups.
pub(super) fn judge_pods(own: &Own<'_>, pods: &[PodSummary]) -> Vec<Finding> {
    let living = || pods.iter().filter(|p| !p.is_over);
    let has_image = |pod: &PodSummary, word: &str| pod.images.iter().any(|i| i.contains(word));
    let readers: Vec<_> = living().filter(|p| own.names_our_queue(p) && !own.is_ours(p)).collect();
    let mut found = Vec::new();
    for (workload, pods) in by_workload(&readers) {
        let message = format!(
            "{} of it {} from our queue: each takes messages that the other needs",
            count(pods, "pod"),
            if pods == 1 { "receives" } else { "receive" }
        );
        let remedy = "one queue belongs to one reader: give it another, a second target of the \
            same rules, or take it away";
        found.push(Finding::no("no-other-handler", workload, message, remedy));
    }
    let is_handler =
        |p: &&PodSummary| has_image(p, "aws-node-termination-handler") && !own.names_our_queue(p);
    for (workload, _) in by_workload(&living().filter(is_handler).collect::<Vec<_>>()) {
        let message =
            "aws-node-termination-handler runs too: where both act, each ends the other's drains";
        found.push(
            Finding::no(
                "no-other-handler",
                workload,
                message,
                "take it away once this check is good",
            )
            .advice(),
        );
    }
    if found.is_empty() {
        found.push(Finding::yes("no-other-handler", "", no_reader(pods.len())));
    }
    for (workload, _) in
        by_workload(&living().filter(|p| has_image(p, "cluster-autoscaler")).collect::<Vec<_>>())
    {
        let message = "cluster-autoscaler scales groups too; whether it waits for instances in \
            long hooks cannot be seen from here";
        found.push(
            Finding::cannot_tell(
                "autoscaler",
                workload,
                message,
                "keep --drain-timeout as short as your slowest pod allows",
            )
            .advice(),
        );
    }
    found
}

fn no_reader(pods: usize) -> String {
    match pods {
        0 => "there are no pods, so none receives from our queue".to_owned(),
        1 => "the only pod is not known to receive from our queue".to_owned(),
        many => format!("none of {many} pods is known to receive from our queue"),
    }
}

/// Counts pods by workload: namespace and pod name, without the suffix that the owner's kind adds.
fn by_workload(pods: &[&PodSummary]) -> BTreeMap<String, usize> {
    let mut all = BTreeMap::new();
    for pod in pods {
        let cut = match pod.owner.as_str() {
            "ReplicaSet" => 2,
            "DaemonSet" | "StatefulSet" | "Job" => 1,
            _ => 0,
        };
        let parts: Vec<_> = pod.name.split('-').collect();
        let kept = parts
            .get(..parts.len().saturating_sub(cut))
            .filter(|p| !p.is_empty())
            .unwrap_or(&parts)
            .join("-");
        *all.entry(format!("{}/{kept}", pod.namespace)).or_default() += 1;
    }
    all
}

fn summary(pod: Pod) -> PodSummary {
    let (metadata, spec, status) =
        (pod.metadata, pod.spec.unwrap_or_default(), pod.status.unwrap_or_default());
    let owner = metadata
        .owner_references
        .unwrap_or_default()
        .into_iter()
        .next()
        .map(|o| o.kind)
        .unwrap_or_default();
    let mut summary = PodSummary {
        namespace: metadata.namespace.unwrap_or_default(),
        name: metadata.name.unwrap_or_default(),
        owner,
        address: status.pod_ip,
        is_over: matches!(status.phase.as_deref(), Some("Succeeded" | "Failed")),
        ..PodSummary::default()
    };
    for container in spec.containers {
        summary.images.extend(container.image);
        summary.words.extend(container.command.into_iter().chain(container.args).flatten());
        summary
            .env
            .extend(container.env.into_iter().flatten().filter_map(|e| Some((e.name, e.value?))));
    }
    summary
}

/// Waits for an answer of the API server, at most `LIMIT`.
pub(super) async fn within<T>(
    request: impl Future<Output = kube::Result<T>>,
) -> Result<T, kube::Error> {
    match tokio::time::timeout(LIMIT, request).await {
        Ok(answer) => answer,
        Err(_) => {
            Err(kube::Error::Service(format!("no answer within {} s", LIMIT.as_secs()).into()))
        }
    }
}

pub(super) fn words_of(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => format!("{} ({})", status.message, status.code),
        other => with_causes(other),
    }
}

/// Asks for the version, for which no right is needed.
pub(super) async fn reach(client: &Client) -> Finding {
    match within(client.apiserver_version()).await {
        Ok(version) => Finding::yes(
            "kubernetes",
            "",
            format!("the API server answers: {}", version.git_version),
        ),
        Err(error) => {
            let remedy = "look at the kubeconfig, at a proxy between, and at the pod's account";
            Finding::no(
                "kubernetes",
                "",
                format!("the API server does not answer: {}", words_of(&error)),
                remedy,
            )
        }
    }
}

/// Asks the API server about each right.
pub(super) async fn ask_rights(
    client: &Client,
    needed: Vec<Needed>,
) -> Vec<(Needed, Result<bool, String>)> {
    let reviews: Api<SelfSubjectAccessReview> = Api::all(client.clone());
    let mut answers = Vec::new();
    for one in needed {
        let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let attributes = ResourceAttributes {
            group: given(one.right.group),
            resource: given(one.right.resource),
            subresource: given(one.right.subresource),
            verb: given(one.right.verb),
            namespace: given(&one.namespace),
            name: given(&one.name),
            ..ResourceAttributes::default()
        };
        let spec = SelfSubjectAccessReviewSpec {
            resource_attributes: Some(attributes),
            ..SelfSubjectAccessReviewSpec::default()
        };
        let review = SelfSubjectAccessReview { spec, ..SelfSubjectAccessReview::default() };
        let answer = within(reviews.create(&PostParams::default(), &review)).await;
        answers.push((
            one,
            answer.map(|r| r.status.is_some_and(|s| s.allowed)).map_err(|e| words_of(&e)),
        ));
    }
    answers
}

/// All pods of the cluster, page by page.
pub(super) async fn list_pods(client: &Client) -> Result<Vec<PodSummary>, String> {
    let api: Api<Pod> = Api::all(client.clone());
    let (mut pods, mut next) = (Vec::new(), None);
    for _ in 0..PAGES {
        let mut parameters = ListParams::default().limit(PAGE);
        parameters.continue_token = next;
        let page = within(api.list(&parameters)).await.map_err(|e| words_of(&e))?;
        next = page.metadata.continue_.filter(|token| !token.is_empty());
        pods.extend(page.items.into_iter().map(summary));
        if next.is_none() {
            break;
        }
    }
    Ok(pods)
}

/// What the Lease shows about the leader and the pause.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct LeaseSnapshot {
    /// The pod that holds it. `None`: it has no holder, or does not exist.
    pub(super) leader: Option<String>,
    /// A person has paused all drains of the cluster.
    pub(super) is_paused: bool,
}

/// Reads the Lease.
pub(super) async fn lease_state(
    client: &Client,
    namespace: &str,
    name: &str,
) -> Result<LeaseSnapshot, String> {
    let api: Api<Lease> = Api::namespaced(client.clone(), namespace);
    let Some(lease) = within(api.get_opt(name)).await.map_err(|e| words_of(&e))? else {
        return Ok(LeaseSnapshot::default());
    };
    let holder = lease.spec.and_then(|s| s.holder_identity).filter(|h| !h.is_empty());
    Ok(LeaseSnapshot {
        // The holder is `POD_RANDOM`.
        leader: holder.map(|h| h.rsplit_once('_').map_or(h.clone(), |(pod, _)| pod.to_owned())),
        is_paused: lease
            .metadata
            .annotations
            .is_some_and(|a| a.get(PAUSE).is_some_and(|v| v == "true")),
    })
}

/// Whether drains are paused. It is only advice, because a person paused them on purpose.
pub(super) fn judge_pause(lease_state: &LeaseSnapshot, namespace: &str, name: &str) -> Finding {
    const POINT: &str = "not-paused";
    let lease = format!("Lease {namespace}/{name}");
    if !lease_state.is_paused {
        return Finding::yes(POINT, lease, format!("no {PAUSE}=true: drains are not paused"));
    }
    let remedy = format!("to go on: kubectl -n {namespace} annotate lease {name} {PAUSE}-");
    Finding::no(
        POINT,
        lease,
        format!("{PAUSE}=true: nodes are cordoned, and no pod of them is evicted"),
        remedy,
    )
    .advice()
}

#[cfg(test)]
mod tests;

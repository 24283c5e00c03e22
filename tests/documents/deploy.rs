//! The manifests in `deploy/manifests`, as they are committed. (That they are what the chart makes
//! is tested in tests/packaging, which has Helm.)

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{Container, Namespace, PodSpec, ServiceAccount},
    policy::v1::PodDisruptionBudget,
    rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use sundown::{
    config::{Config, RunArgs},
    domain::TAINT,
    observe::{Endpoints, Loops, Readiness},
    runtime::{Clock, Spawner},
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::{
    calls::{self, Grants},
    figures, files, read,
    settings::{flag_of, flags},
};

const BASE: &str = "deploy/manifests/base";
const QUEUE: &str = "https://sqs.eu-west-1.amazonaws.com/123456789012/nodes";

/// The objects of this kind. Every field that the file gives is one of the type: a misspelt one
/// would be ignored by nobody but us.
fn objects<T: DeserializeOwned + Serialize>(file: &str, kind: &str) -> Vec<T> {
    let text = read(&format!("{BASE}/{file}.yaml"));
    let documents = text.split("\n---\n").map(|d| serde_saphyr::from_str::<Value>(d).unwrap());
    documents.filter(|d| d["kind"] == kind).map(|given| typed(&given, kind)).collect()
}

fn typed<T: DeserializeOwned + Serialize>(given: &Value, kind: &str) -> T {
    let typed: T = serde_json::from_value(given.clone()).unwrap();
    let mut known = serde_json::to_value(&typed).unwrap();
    known["kind"] = given["kind"].clone();
    known["apiVersion"] = given["apiVersion"].clone();
    assert_within(given, &known, kind);
    typed
}

/// The one object of this kind.
fn object<T: DeserializeOwned + Serialize>(file: &str, kind: &str) -> T {
    let mut all = objects(file, kind);
    assert_eq!(all.len(), 1, "{kind}s in {file}.yaml");
    all.remove(0)
}

fn assert_within(given: &Value, known: &Value, at: &str) {
    match (given, known) {
        (Value::Object(given), Value::Object(known)) => {
            for (key, value) in given {
                let known = known.get(key).unwrap_or_else(|| panic!("{at}.{key} is no field"));
                assert_within(value, known, &format!("{at}.{key}"));
            }
        }
        (Value::Array(given), Value::Array(known)) => {
            for (n, (value, known)) in given.iter().zip(known).enumerate() {
                assert_within(value, known, &format!("{at}[{n}]"));
            }
        }
        _ => assert_eq!(given, known, "{at}"),
    }
}

fn kustomization() -> Value {
    serde_saphyr::from_str(&read(&format!("{BASE}/kustomization.yaml"))).unwrap()
}

fn pod() -> PodSpec {
    object::<Deployment>("deployment", "Deployment").spec.unwrap().template.spec.unwrap()
}

fn container() -> Container {
    pod().containers.remove(0)
}

/// The configuration that the pod runs with, once its queue is filled in.
fn config() -> Config {
    let value = |name: &str| match name {
        "NODE_NAME" => "ip-10-0-0-1",
        "POD_NAME" => "sundown-6d4cf56db6-abcde",
        "POD_NAMESPACE" => "sundown",
        other => panic!("what is the value of {other}?"),
    };
    let (settings, surroundings): (Vec<_>, Vec<_>) =
        container().env.unwrap().into_iter().partition(|e| e.name.starts_with("SUNDOWN_"));
    let mut flags = vec!["--queue-url".to_owned(), QUEUE.to_owned()];
    for setting in settings {
        flags.extend([format!("--{}", flag_of(&setting.name)), setting.value.unwrap()]);
    }
    let environment: BTreeMap<_, _> =
        surroundings.into_iter().map(|e| (e.name.clone(), value(&e.name).to_owned())).collect();
    RunArgs::from_flags(flags).unwrap().config(&|name| environment.get(name).cloned()).unwrap()
}

#[test]
fn the_cluster_roles_allow_what_is_called_and_nothing_else() {
    let roles: Vec<ClusterRole> = objects("rbac", "ClusterRole");
    let of = |name: &str| {
        roles
            .iter()
            .find(|r| r.metadata.name.as_deref() == Some(name))
            .unwrap()
            .rules
            .clone()
            .unwrap()
    };
    assert_eq!(roles.len(), 2);
    // What takes a pod away against its will is in a role of its own.
    assert_eq!(calls::of_rules(&of("sundown-force")), calls::forcing());
    let all: Grants = calls::of_rules(&of("sundown")).into_iter().chain(calls::forcing()).collect();
    assert_eq!(all, calls::of_cluster());
}

#[test]
fn the_role_allows_what_is_done_with_our_lease_and_with_no_other() {
    let role: Role = object("rbac", "Role");
    let rules = role.rules.unwrap();
    assert_eq!(calls::of_rules(&rules), calls::of_lease());
    for rule in rules {
        let names = rule.resource_names.unwrap_or_default();
        // The name of an object that does not exist yet is not known to who authorises.
        let expected =
            if rule.verbs == ["create"] { vec![] } else { vec![config().election.lease_name] };
        assert_eq!(names, expected, "{:?}", rule.verbs);
    }
}

#[test]
fn the_bindings_bind_the_roles_to_the_account_that_the_pods_run_as() {
    let account: ServiceAccount = object("serviceaccount", "ServiceAccount");
    let (cluster, own): (Vec<ClusterRoleBinding>, RoleBinding) =
        (objects("rbac", "ClusterRoleBinding"), object("rbac", "RoleBinding"));
    let namespace = object::<Namespace>("namespace", "Namespace").metadata.name;
    assert_eq!(kustomization()["namespace"].as_str(), namespace.as_deref());
    assert_eq!(pod().service_account_name, account.metadata.name);
    assert!(
        cluster.iter().all(|b| b.role_ref.kind == "ClusterRole") && own.role_ref.kind == "Role"
    );
    let bound: BTreeSet<_> = cluster.iter().map(|b| b.role_ref.name.clone()).collect();
    assert_eq!(
        bound,
        objects::<ClusterRole>("rbac", "ClusterRole")
            .into_iter()
            .map(|r| r.metadata.name.unwrap())
            .collect()
    );
    assert_eq!(Some(own.role_ref.name), object::<Role>("rbac", "Role").metadata.name);
    for subject in cluster.into_iter().map(|b| b.subjects).chain([own.subjects]).flatten().flatten()
    {
        assert_eq!(
            (Some(subject.name), subject.namespace),
            (account.metadata.name.clone(), namespace.clone())
        );
    }
}

#[test]
fn the_pod_says_who_it_is_and_its_lease_is_in_its_own_namespace() {
    let election = config().election;
    assert_eq!(election.node.unwrap().as_str(), "ip-10-0-0-1");
    assert_eq!(election.pod.unwrap().to_string(), "sundown/sundown-6d4cf56db6-abcde");
    assert_eq!(election.lease_namespace, "sundown");
}

#[test]
fn every_setting_is_the_variable_of_a_flag() {
    let settings = read(&format!("{BASE}/settings.env"));
    let names: Vec<_> = settings
        .lines()
        .filter(|l| !l.starts_with('#'))
        .map(|l| l.split_once('=').unwrap().0)
        .collect();
    assert!(names.contains(&"SUNDOWN_QUEUE_URL"));
    for name in names {
        assert!(flags().iter().any(|(_, variable)| variable == name), "{name}");
    }
    let generated = &kustomization()["configMapGenerator"][0];
    let used = container().env_from.unwrap().remove(0).config_map_ref.unwrap().name;
    assert_eq!(generated["name"].as_str(), Some(used.as_str()));
    assert_eq!(generated["envs"][0], "settings.env");
}

#[tokio::test]
async fn the_probes_and_the_scraper_ask_where_it_listens() {
    let service = config().service;
    let [metrics, probes] =
        [service.metrics, service.probes].map(|address| i32::from(address.unwrap().port()));
    let container = container();
    assert_eq!(container.args.as_deref(), Some(["run".to_owned()].as_slice()));
    let ports = container.ports.unwrap();
    assert_eq!(
        ports.iter().map(|p| (p.name.as_deref(), p.container_port)).collect::<Vec<_>>(),
        [(Some("metrics"), metrics), (Some("probes"), probes)]
    );
    let template =
        object::<Deployment>("deployment", "Deployment").spec.unwrap().template.metadata.unwrap();
    let annotations = template.annotations.unwrap();
    assert_eq!(annotations["prometheus.io/port"], metrics.to_string());

    let probes =
        [container.liveness_probe, container.readiness_probe].map(|p| p.unwrap().http_get.unwrap());
    let mut paths = vec![annotations["prometheus.io/path"].clone()];
    for probe in probes {
        assert_eq!(serde_json::to_value(&probe.port).unwrap(), "probes");
        paths.push(probe.path.unwrap());
    }
    assert_eq!(paths, ["/metrics", "/livez", "/readyz"]);
    let endpoints = Endpoints {
        metrics: std::sync::Arc::default(),
        loops: Loops::new(Clock::system()),
        readiness: Readiness::default(),
    };
    let (stop, any) = (tokio_util::sync::CancellationToken::new(), ([127, 0, 0, 1], 0).into());
    let metrics = endpoints.serve_metrics(any, &Spawner::new(), stop.clone()).await.unwrap();
    let probes = endpoints.serve_probes(any, &Spawner::new(), stop.clone()).await.unwrap();
    for path in paths {
        let address = if path == "/metrics" { metrics } else { probes };
        let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
        stream
            .write_all(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes())
            .await
            .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{path}: {answer}");
    }
    stop.cancel();
}

#[test]
fn the_pods_do_not_tolerate_the_taint_of_nodes_that_go() {
    for toleration in pod().tolerations.unwrap_or_default() {
        let key = toleration.key.expect("a toleration without a key tolerates everything");
        assert_ne!(key, TAINT);
    }
}

#[test]
fn the_pods_run_with_no_more_rights_than_they_need() {
    let namespace = object::<Namespace>("namespace", "Namespace").metadata.labels.unwrap();
    assert_eq!(namespace["pod-security.kubernetes.io/enforce"], "restricted");
    let (pod, container) = (pod().security_context.unwrap(), container().security_context.unwrap());
    assert_eq!(
        (pod.run_as_non_root, pod.seccomp_profile.unwrap().type_.as_str()),
        (Some(true), "RuntimeDefault")
    );
    assert_eq!(
        (container.allow_privilege_escalation, container.read_only_root_filesystem),
        (Some(false), Some(true))
    );
    assert_eq!(container.capabilities.unwrap().drop.unwrap(), ["ALL"]);
    assert_eq!(
        format!("USER {0}:{0}", pod.run_as_user.unwrap()),
        read("deploy/Dockerfile").lines().find(|l| l.starts_with("USER")).unwrap()
    );
}

#[test]
fn two_replicas_of_which_one_may_go_and_one_that_is_not_ready_always_may() {
    let deployment = object::<Deployment>("deployment", "Deployment").spec.unwrap();
    let budget =
        object::<PodDisruptionBudget>("disruption-budget", "PodDisruptionBudget").spec.unwrap();
    assert_eq!(deployment.replicas, Some(2));
    assert_eq!(serde_json::to_value(&budget.max_unavailable).unwrap(), 1);
    assert_eq!(budget.unhealthy_pod_eviction_policy.as_deref(), Some("AlwaysAllow"));
    let (labels, selected) = (
        deployment.template.metadata.unwrap().labels.unwrap(),
        deployment.selector.match_labels.unwrap(),
    );
    assert!(
        !selected.is_empty() && selected.iter().all(|(label, value)| labels[label] == *value),
        "{selected:?} of {labels:?}"
    );
    assert_eq!(budget.selector.unwrap().match_labels, Some(selected));
}

/// Replicas that are kept apart by all means never finish a rollout with a surge where there are as
/// many nodes as replicas.
#[test]
fn the_replicas_are_kept_apart_and_a_rollout_needs_no_third_node() {
    let deployment = object::<Deployment>("deployment", "Deployment").spec.unwrap();
    let rolling =
        serde_json::to_value(deployment.strategy.unwrap().rolling_update.unwrap()).unwrap();
    assert_eq!(rolling, serde_json::json!({ "maxSurge": 0, "maxUnavailable": 1 }));
    let pod = deployment.template.spec.unwrap();
    let apart = pod
        .affinity
        .unwrap()
        .pod_anti_affinity
        .unwrap()
        .required_during_scheduling_ignored_during_execution
        .unwrap();
    assert_eq!(
        apart.iter().map(|t| t.topology_key.as_str()).collect::<Vec<_>>(),
        ["kubernetes.io/hostname"]
    );
    assert_eq!(apart[0].label_selector.clone().unwrap(), deployment.selector);
    let spread = pod.topology_spread_constraints.unwrap();
    assert_eq!(
        (spread[0].topology_key.as_str(), spread[0].when_unsatisfiable.as_str()),
        ("topology.kubernetes.io/zone", "ScheduleAnyway")
    );
}

/// The most memory that was ever measured, in MB, with what an idle process takes where a figure
/// leaves that out.
fn measured_peak() -> f64 {
    let peaks: BTreeMap<_, _> =
        figures::measured().into_iter().filter(|(name, _)| name.contains("memory")).collect();
    assert!(peaks.len() > 4 && peaks.values().all(|figure| figure["unit"] == "MB"), "{peaks:?}");
    let is_above_idle = |figure: &Value| figure["what"].as_str().unwrap().contains("above idle");
    let whole = |figure: &Value| {
        figure["value"].as_f64().unwrap()
            + if is_above_idle(figure) {
                figure["baseline"]["value"].as_f64().unwrap()
            } else {
                0.0
            }
    };
    peaks.values().map(whole).fold(0.0, f64::max)
}

#[test]
fn the_memory_limit_is_at_least_twice_what_was_ever_measured() {
    let resources = container().resources.unwrap();
    let (requests, limits) = (resources.requests.unwrap(), resources.limits.unwrap());
    assert_eq!((requests["memory"].0.as_str(), limits["memory"].0.as_str()), ("64Mi", "320Mi"));
    assert!(320.0 * 1.048_576 >= 2.0 * measured_peak(), "{} MB", measured_peak());
    assert!(!limits.contains_key("cpu"), "a burst of notices is to be read at once");
}

#[test]
fn everything_in_the_directories_is_applied() {
    let listed = kustomization()["resources"]
        .as_array()
        .unwrap()
        .iter()
        .map(|r| format!("{BASE}/{}", r.as_str().unwrap()))
        .collect::<BTreeSet<_>>();
    let ours = |file: &String| {
        !["kustomization.yaml", "values.yaml"].iter().any(|own| file.ends_with(own))
    };
    let there: BTreeSet<_> = files(BASE, ".yaml").into_iter().filter(ours).collect();
    assert_eq!(listed, there);
    let (name, tag) =
        (&kustomization()["images"][0]["name"], &kustomization()["images"][0]["newTag"]);
    assert_eq!(
        container().image.unwrap(),
        format!("{}:{}", name.as_str().unwrap(), env!("CARGO_PKG_VERSION"))
    );
    assert_eq!(tag, env!("CARGO_PKG_VERSION"));
    for overlay in ["admission-policy", "irsa", "monitoring", "request-policy"] {
        let folder = format!("deploy/manifests/overlays/{overlay}");
        let kustomization = read(&format!("{folder}/kustomization.yaml"));
        let unnamed: Vec<_> = files(&folder, ".yaml")
            .into_iter()
            .filter(ours)
            .filter(|f| !kustomization.contains(f.rsplit('/').next().unwrap()))
            .collect();
        assert!(unnamed.is_empty(), "{overlay}: {unnamed:?}");
    }
}

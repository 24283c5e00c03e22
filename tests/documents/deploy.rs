//! The manifests in `deploy/`.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{Container, Namespace, PodSpec, ServiceAccount},
    policy::v1::PodDisruptionBudget,
    rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use sundown::{
    cluster::Target,
    config::{Config, RunArgs, document},
    controller::{Clock, Spawner},
    domain::TAINT,
    observe::{Admin, Loops, Readiness},
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::{files, read};

const QUEUE: &str = "https://sqs.eu-west-1.amazonaws.com/123456789012/nodes";

/// The one object of this kind. Every field that the file gives is one of the type: a misspelt one would be ignored by nobody but us.
fn object<T: DeserializeOwned + Serialize>(file: &str, kind: &str) -> T {
    let text = read(&format!("deploy/{file}.yaml"));
    let documents = text.split("\n---\n").map(|d| serde_saphyr::from_str::<Value>(d).unwrap());
    let mut matching: Vec<Value> = documents.filter(|d| d["kind"] == kind).collect();
    assert_eq!(matching.len(), 1, "{kind}s in {file}.yaml");
    let given = matching.remove(0);
    let typed: T = serde_json::from_value(given.clone()).unwrap();
    let mut known = serde_json::to_value(&typed).unwrap();
    known["kind"] = given["kind"].clone();
    known["apiVersion"] = given["apiVersion"].clone();
    assert_within(&given, &known, kind);
    typed
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
    serde_saphyr::from_str(&read("deploy/kustomization.yaml")).unwrap()
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
    let environment: BTreeMap<_, _> = container().env.unwrap().into_iter().map(|e| (e.name.clone(), value(&e.name).to_owned())).collect();
    RunArgs::from_flags(["--queue-url", QUEUE]).unwrap().config(&|name| environment.get(name).cloned()).unwrap()
}

/// Group, resource and verb of every call for this purpose.
fn calls(target: Target) -> &'static [(&'static str, &'static str, &'static str)] {
    match target {
        Target::ListNodes => &[("", "nodes", "list")],
        Target::WatchNodes => &[("", "nodes", "watch")],
        Target::GetNode => &[("", "nodes", "get")],
        Target::PatchNode => &[("", "nodes", "patch")],
        Target::ListPods => &[("", "pods", "list")],
        Target::WatchPods => &[("", "pods", "watch")],
        Target::Evict => &[("", "pods/eviction", "create")],
        Target::DeletePod => &[("", "pods", "delete")],
        Target::ListBudgets => &[("policy", "poddisruptionbudgets", "list")],
        Target::WatchBudgets => &[("policy", "poddisruptionbudgets", "watch")],
        Target::GetDaemonSet => &[("apps", "daemonsets", "get")],
        Target::Event => &[("", "events", "create"), ("", "events", "patch")],
    }
}

/// What is done with the Lease (`cluster/lease/calls.rs`, `cluster/lease/pause.rs`).
const LEASE: [&str; 5] = ["create", "get", "patch", "update", "watch"];

fn grants(rules: &[PolicyRule]) -> BTreeSet<(String, String, String)> {
    let mut all = BTreeSet::new();
    for rule in rules {
        for group in rule.api_groups.iter().flatten() {
            for resource in rule.resources.iter().flatten() {
                all.extend(rule.verbs.iter().map(|verb| (group.clone(), resource.clone(), verb.clone())));
            }
        }
    }
    all
}

#[test]
fn the_cluster_role_allows_what_is_called_and_nothing_else() {
    let role: ClusterRole = object("rbac", "ClusterRole");
    let needed: BTreeSet<_> = Target::ALL.into_iter().flat_map(calls).map(|(g, r, v)| ((*g).to_owned(), (*r).to_owned(), (*v).to_owned())).collect();
    assert_eq!(grants(&role.rules.unwrap()), needed);
}

#[test]
fn the_role_allows_what_is_done_with_our_lease_and_with_no_other() {
    let role: Role = object("rbac", "Role");
    let rules = role.rules.unwrap();
    let needed: BTreeSet<_> = LEASE.map(|verb| ("coordination.k8s.io".to_owned(), "leases".to_owned(), verb.to_owned())).into();
    assert_eq!(grants(&rules), needed);
    for rule in rules {
        let names = rule.resource_names.unwrap_or_default();
        // The name of an object that does not exist yet is not known to who authorises.
        let expected = if rule.verbs == ["create"] { vec![] } else { vec![config().standing.lease_name] };
        assert_eq!(names, expected, "{:?}", rule.verbs);
    }
}

#[test]
fn the_bindings_bind_the_roles_to_the_account_that_the_pods_run_as() {
    let account: ServiceAccount = object("rbac", "ServiceAccount");
    let (cluster, own): (ClusterRoleBinding, RoleBinding) = (object("rbac", "ClusterRoleBinding"), object("rbac", "RoleBinding"));
    let namespace = object::<Namespace>("namespace", "Namespace").metadata.name;
    assert_eq!(kustomization()["namespace"].as_str(), namespace.as_deref());
    assert_eq!(pod().service_account_name, account.metadata.name);
    assert_eq!((cluster.role_ref.kind.as_str(), own.role_ref.kind.as_str()), ("ClusterRole", "Role"));
    assert_eq!(Some(cluster.role_ref.name), object::<ClusterRole>("rbac", "ClusterRole").metadata.name);
    assert_eq!(Some(own.role_ref.name), object::<Role>("rbac", "Role").metadata.name);
    for subject in cluster.subjects.into_iter().chain(own.subjects).flatten() {
        assert_eq!((Some(subject.name), subject.namespace), (account.metadata.name.clone(), namespace.clone()));
    }
}

#[test]
fn the_pod_says_who_it_is_and_its_lease_is_in_its_own_namespace() {
    let standing = config().standing;
    assert_eq!(standing.node.unwrap().as_str(), "ip-10-0-0-1");
    assert_eq!(standing.pod.unwrap().to_string(), "sundown/sundown-6d4cf56db6-abcde");
    assert_eq!(standing.lease_namespace, "sundown");
}

#[test]
fn every_setting_is_the_variable_of_a_flag() {
    let page = document();
    let settings = read("deploy/settings.env");
    let names: Vec<_> = settings.lines().filter(|l| !l.starts_with('#')).map(|l| l.split_once('=').unwrap().0).collect();
    assert!(names.contains(&"SUNDOWN_QUEUE_URL"));
    for name in names {
        assert!(page.contains(&format!("| `{name}` |")), "{name}");
    }
    let generated = &kustomization()["configMapGenerator"][0];
    let used = container().env_from.unwrap().remove(0).config_map_ref.unwrap().name;
    assert_eq!(generated["name"].as_str(), Some(used.as_str()));
    assert_eq!(generated["envs"][0], "settings.env");
}

#[tokio::test]
async fn the_probes_and_the_scraper_ask_where_it_listens() {
    let port = i32::from(config().service.admin.unwrap().port());
    let container = container();
    assert_eq!(container.args.as_deref(), Some(["run".to_owned()].as_slice()));
    let ports = container.ports.unwrap();
    assert_eq!(ports.iter().map(|p| (p.name.as_deref(), p.container_port)).collect::<Vec<_>>(), [(Some("admin"), port)]);
    let template = object::<Deployment>("deployment", "Deployment").spec.unwrap().template.metadata.unwrap();
    let annotations = template.annotations.unwrap();
    assert_eq!(annotations["prometheus.io/port"], port.to_string());

    let probes = [container.liveness_probe, container.readiness_probe].map(|p| p.unwrap().http_get.unwrap());
    let mut paths = vec![annotations["prometheus.io/path"].clone()];
    for probe in probes {
        assert_eq!(serde_json::to_value(&probe.port).unwrap(), "admin");
        paths.push(probe.path.unwrap());
    }
    assert_eq!(paths, ["/metrics", "/livez", "/readyz"]);
    let admin = Admin { metrics: std::sync::Arc::default(), loops: Loops::new(Clock::system()), readiness: Readiness::default() };
    let stop = tokio_util::sync::CancellationToken::new();
    let address = admin.start(([127, 0, 0, 1], 0).into(), &Spawner::new(), stop.clone()).await.unwrap();
    for path in paths {
        let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
        stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()).await.unwrap();
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
    assert_eq!((pod.run_as_non_root, pod.seccomp_profile.unwrap().type_.as_str()), (Some(true), "RuntimeDefault"));
    assert_eq!((container.allow_privilege_escalation, container.read_only_root_filesystem), (Some(false), Some(true)));
    assert_eq!(container.capabilities.unwrap().drop.unwrap(), ["ALL"]);
    assert_eq!(format!("USER {0}:{0}", pod.run_as_user.unwrap()), read("deploy/Dockerfile").lines().find(|l| l.starts_with("USER")).unwrap());
}

#[test]
fn two_replicas_of_which_one_may_go_and_one_that_is_not_ready_always_may() {
    let deployment = object::<Deployment>("deployment", "Deployment").spec.unwrap();
    let budget = object::<PodDisruptionBudget>("disruption-budget", "PodDisruptionBudget").spec.unwrap();
    assert_eq!(deployment.replicas, Some(2));
    assert_eq!(serde_json::to_value(&budget.max_unavailable).unwrap(), 1);
    assert_eq!(budget.unhealthy_pod_eviction_policy.as_deref(), Some("AlwaysAllow"));
    let labels = deployment.template.metadata.unwrap().labels;
    assert_eq!((deployment.selector.match_labels, budget.selector.unwrap().match_labels), (labels.clone(), labels));
    let apart = deployment.template.spec.unwrap().affinity.unwrap().pod_anti_affinity.unwrap();
    assert!(apart.required_during_scheduling_ignored_during_execution.is_none(), "required, a rollout on two nodes never ends");
}

#[test]
fn everything_in_the_directory_is_applied() {
    let listed = kustomization()["resources"].as_array().unwrap().iter().map(|r| format!("deploy/{}", r.as_str().unwrap())).collect::<BTreeSet<_>>();
    let there: BTreeSet<_> = files("deploy", ".yaml").into_iter().filter(|f| !f.ends_with("kustomization.yaml")).collect();
    assert_eq!(listed, there);
    assert!(kustomization()["images"][0]["name"].as_str() == container().image.as_deref());
}

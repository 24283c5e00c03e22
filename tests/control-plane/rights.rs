//! The rules of `deploy/manifests/base/rbac.yaml` against what Sundown called, as the API server's
//! audit log has it: none is missing, none is never used.

use std::{
    fmt,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use sundown::sim::aws::HookSpec;

use crate::{
    audit::{self, Call, USER, calls},
    cluster::{ADMIN, SUNDOWN},
    hands::{
        accepted, completed_by_sundown, delete, hold, hold_with, node_path, patch, pod, pod_path,
        run_pod, stage_of_ours, wait_for,
    },
    process::{run, sundown},
    stage::{Stage, node_name},
};

/// One verb on one resource that a role allows.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Grant {
    /// `None`: everywhere.
    namespace: Option<String>,
    group: String,
    resource: String,
    verb: String,
    /// Empty: whatever its name.
    names: Vec<String>,
}

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {}/{} in {:?}",
            self.verb,
            self.group,
            self.resource,
            self.namespace.as_deref().unwrap_or("*")
        )
    }
}

impl Grant {
    fn allows(&self, call: &Call) -> bool {
        self.namespace.as_ref().is_none_or(|namespace| *namespace == call.namespace)
            && (&self.group, &self.resource, &self.verb)
                == (&call.group, &call.resource, &call.verb)
            && (self.names.is_empty() || self.names.contains(&call.name))
    }
}

/// All that these roles allow, one verb and resource at a time.
fn grants(roles: &[Value]) -> Vec<Grant> {
    let texts = |value: &Value| -> Vec<String> {
        serde_json::from_value(value.clone()).unwrap_or_default()
    };
    let mut all = Vec::new();
    for role in roles {
        let namespace = role["metadata"]["namespace"].as_str().map(str::to_owned);
        for rule in role["rules"].as_array().unwrap() {
            let names = texts(&rule["resourceNames"]);
            for group in texts(&rule["apiGroups"]) {
                for resource in texts(&rule["resources"]) {
                    let any = Grant {
                        namespace: namespace.clone(),
                        group: group.clone(),
                        resource,
                        verb: String::new(),
                        names: names.clone(),
                    };
                    all.extend(
                        texts(&rule["verbs"]).into_iter().map(|verb| Grant { verb, ..any.clone() }),
                    );
                }
            }
        }
    }
    all
}

/// What does not agree: calls that were refused or that no rule allows, and rules that no call made
/// use of.
fn differences(grants: &[Grant], calls: &[Call]) -> Vec<String> {
    let ours: Vec<_> = calls.iter().filter(|c| c.user == USER).collect();
    let text = |c: &Call| {
        format!(
            "{} {}/{} {:?} in {:?} ({})",
            c.verb, c.group, c.resource, c.name, c.namespace, c.uri
        )
    };
    let refused = ours
        .iter()
        .filter(|c| [401, 403].contains(&c.code))
        .map(|c| format!("refused: {}", text(c)));
    let lacking = ours
        .iter()
        .filter(|c| !grants.iter().any(|g| g.allows(c)))
        .map(|c| format!("no rule: {}", text(c)));
    let unused = grants
        .iter()
        .filter(|g| !ours.iter().any(|c| g.allows(c)))
        .map(|g| format!("never used: {g}"));
    let mut all: Vec<_> = refused.chain(lacking).chain(unused).collect();
    all.dedup();
    all
}

/// The roles that are bound to Sundown's account, whoever bound them.
async fn bound(stage: &Stage) -> Vec<Value> {
    let api = "/apis/rbac.authorization.k8s.io/v1";
    let mut roles = Vec::new();
    for kind in ["clusterrolebindings", "rolebindings"] {
        let list = stage.get(&format!("{api}/{kind}")).await.unwrap();
        for binding in list["items"].as_array().unwrap() {
            let to_us = |s: &Value| {
                (&s["kind"], &s["namespace"], &s["name"])
                    == (&json!("ServiceAccount"), &json!("sundown"), &json!("sundown"))
            };
            if !binding["subjects"].as_array().into_iter().flatten().any(to_us) {
                continue;
            }
            let (name, role) = (
                binding["roleRef"]["name"].as_str().unwrap(),
                binding["roleRef"]["kind"].as_str().unwrap(),
            );
            let path = if role == "Role" {
                let namespace = binding["metadata"]["namespace"].as_str().unwrap();
                format!("{api}/namespaces/{namespace}/roles/{name}")
            } else {
                assert_eq!(kind, "clusterrolebindings", "a ClusterRole in one namespace");
                format!("{api}/clusterroles/{name}")
            };
            let mut found = stage.get(&path).await.unwrap();
            found["kind"] = role.into();
            roles.push(found);
        }
    }
    roles
}

/// The same, from the file.
fn written() -> Vec<Value> {
    let text = std::fs::read_to_string(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/deploy/manifests/base/rbac.yaml"
    ))
    .unwrap();
    let objects =
        text.split("\n---\n").map(|document| serde_saphyr::from_str::<Value>(document).unwrap());
    objects
        .filter(|object| ["Role", "ClusterRole"].map(Value::from).contains(&object["kind"]))
        .collect()
}

/// `sundown` with these arguments, by who has Sundown's own rights, as in its pod.
async fn command(stage: &Stage, args: &[&str]) {
    let folder = stage.cluster.folder.path();
    let output = run(
        folder,
        sundown(folder).args(args).arg("--kubeconfig").arg(stage.cluster.kubeconfig(SUNDOWN)),
    )
    .await;
    assert_eq!(output.code, Some(0), "{args:?}: {}", output.err);
}

/// Everything that Sundown ever calls: evictions, a pod that is forced past its budget, a
/// DaemonSet, a pause, an Event that is counted twice.
/// An instance is launched, and its hook is completed: its node is ready, and its kubelet renews its
/// Lease.
async fn launch(stage: &Stage) {
    stage.world.aws.put_hook("asg", HookSpec::launching("boot"));
    let new = stage.world.aws.launch("asg").unwrap();
    wait_for("its launch hook is open", || {
        stage.world.aws.actions().iter().any(|action| action.instance == new)
    })
    .await;
    // Whatever plays its kubelet also renews its Lease.
    stage.add_node(&node_name(&new), &new, 9).await;
    completed_by_sundown(stage, &new).await;
}

/// A pod that stays with an attached volume, and one with a claim that Sundown evicts: so Sundown
/// asks for volumes, and whose they are.
async fn attach_volume_of_a_pod_that_stays(stage: &Stage, instance: &str) {
    let claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": { "name": "stays" },
        "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": "", "volumeName": "pv-stays",
            "resources": { "requests": { "storage": "1Gi" } }
        },
    });
    stage.create("/api/v1/namespaces/default/persistentvolumeclaims", &claim).await;
    let attachment = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment",
        "metadata": { "name": "stays" },
        "spec": {
            "attacher": "none.example.com", "nodeName": node_name(instance),
            "source": { "persistentVolumeName": "pv-stays" }
        },
    });
    stage.create("/apis/storage.k8s.io/v1/volumeattachments", &attachment).await;
    let toleration = json!([{ "key": "sundown.dev/interruption", "operator": "Exists" }]);
    for (name, tolerations) in [("keeper", toleration), ("database", json!([]))] {
        let mut pod = pod(name, &node_name(instance), 1);
        pod["spec"]["tolerations"] = tolerations;
        pod["spec"]["volumes"] =
            json!([{ "name": "data", "persistentVolumeClaim": { "claimName": "stays" } }]);
        run_pod(stage, &pod).await;
    }
}

async fn everything(stage: &Stage) {
    let instances = stage.group(3).await;
    let agent = json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": { "name": "agent" },
        "spec": {
            "selector": { "matchLabels": { "app": "agent" } },
            "template": {
                "metadata": { "labels": { "app": "agent" } },
                "spec": {
                    "containers": [{ "name": "main", "image": "none" }],
                    "tolerations": [{ "operator": "Exists" }]
                },
            },
        },
    });
    stage.create("/apis/apps/v1/namespaces/default/daemonsets", &agent).await;
    stage
        .until("it runs everywhere", "/apis/apps/v1/namespaces/default/daemonsets/agent", |d| {
            d["status"]["numberReady"] == 3
        })
        .await;
    // With more grace than there is time it may be deleted at once when its eviction is refused.
    hold_with(stage, "stubborn", &instances[0], 7200).await;
    hold(stage, "released", &instances[1]).await;
    attach_volume_of_a_pod_that_stays(stage, &instances[0]).await;
    let mut sundown = stage.leader("sundown", &["--force-after", "0"]).await;

    command(stage, &["pause", "--lease-namespace", "sundown"]).await;
    sundown.counts("paused", 1.0).await;
    command(stage, &["resume", "--lease-namespace", "sundown"]).await;
    stage.world.aws.terminate(&instances[1], true);
    accepted(stage, &instances[1]).await;
    command(stage, &["release", &node_name(&instances[1])]).await;
    completed_by_sundown(stage, &instances[1]).await;
    stage.world.aws.terminate(&instances[0], true);
    wait_for("a pod is forced", || {
        calls(stage).iter().any(|c| c.user == USER && c.is("delete", "pods"))
    })
    .await;
    delete(&stage.cluster.client(ADMIN), &pod_path("stubborn"), Some(0)).await;
    completed_by_sundown(stage, &instances[0]).await;
    assert!(sundown.metric("pods_forced_total").await > 0.5);

    launch(stage).await;

    // Two records that are damaged in the same way are one Event, which is counted up once it is
    // there.
    let (node, events) = (
        node_name(&instances[2]),
        "/api/v1/namespaces/default/events?fieldSelector=reason%3DRecordDamaged",
    );
    for (record, times) in [("nonsense", 1), ("nonsense, too", 2)] {
        let damaged = json!({ "metadata": { "annotations": { "sundown.dev/record": record } } });
        patch(&stage.cluster.client(ADMIN), &node_path(&instances[2]), &damaged).await;
        let is_counted = |e: &Value| e["involvedObject"]["name"] == node && e["count"] == times;
        stage
            .until("the Event is written", events, |list| {
                list["items"].as_array().unwrap().iter().any(is_counted)
            })
            .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_call_has_its_rule_in_deploy_and_every_rule_its_call() {
    let Some(stage) = stage_of_ours(12).await else { return };
    let allowed = grants(&bound(&stage).await);
    assert_eq!(allowed, grants(&written()), "what is bound is what is written");
    everything(&stage).await;
    // The log may be a moment behind.
    let end = Instant::now() + Duration::from_secs(10);
    while !differences(&allowed, &calls(&stage)).is_empty() && Instant::now() < end {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(differences(&allowed, &calls(&stage)), Vec::<String>::new());
}

/// A call that makes use of a grant.
fn use_of(grant: &Grant) -> Call {
    Call {
        user: USER.to_owned(),
        verb: grant.verb.clone(),
        group: grant.group.clone(),
        resource: grant.resource.clone(),
        namespace: grant.namespace.clone().unwrap_or_else(|| "default".to_owned()),
        name: grant.names.first().cloned().unwrap_or_default(),
        code: 200,
        ..Call::default()
    }
}

#[test]
fn a_rule_that_is_missing_or_never_used_and_a_call_that_is_refused_are_found() {
    let all = grants(&written());
    let used: Vec<_> = all.iter().map(use_of).collect();
    assert_eq!(differences(&all, &used), Vec::<String>::new());
    for n in 0..all.len() {
        // The ClusterRole allows `get` of every Lease, so also of the one that the Role names.
        let overlaps = |m: usize| m != n && (all[m].allows(&used[n]) || all[n].allows(&used[m]));
        if (0..all.len()).any(overlaps) {
            continue;
        }
        let (mut fewer, mut less) = (all.clone(), used.clone());
        let grant = fewer.remove(n);
        less.remove(n);
        let found = differences(&fewer, &used);
        assert!(
            found.len() == 1 && found[0].starts_with(&format!("no rule: {} ", grant.verb)),
            "{found:?}"
        );
        assert_eq!(differences(&all, &less), [format!("never used: {grant}")]);
        let mut refused = used.clone();
        refused[n].code = 403;
        let found = differences(&all, &refused);
        assert!(found.len() == 1 && found[0].starts_with("refused: "), "{found:?}");
    }
    let mut more = written();
    more[0]["rules"]
        .as_array_mut()
        .unwrap()
        .push(json!({ "apiGroups": [""], "resources": ["secrets"], "verbs": ["get"] }));
    assert_eq!(differences(&grants(&more), &used), ["never used: get /secrets in \"*\""]);
}

#[test]
fn a_call_on_another_lease_or_in_another_namespace_has_no_rule() {
    let all = grants(&written());
    let mut used: Vec<_> = all.iter().map(use_of).collect();
    let lease = all.iter().position(|g| g.verb == "update").unwrap();
    for stray in [
        Call { name: "other".to_owned(), ..used[lease].clone() },
        Call { namespace: "default".to_owned(), ..used[lease].clone() },
    ] {
        used.push(stray);
        assert_eq!(differences(&all, &used).len(), 1, "{:?}", differences(&all, &used));
        used.pop();
    }
    used.push(Call {
        user: USER.to_owned(),
        verb: "get".to_owned(),
        uri: "/version".to_owned(),
        ..Call::default()
    });
    assert_eq!(differences(&all, &used), ["no rule: get / \"\" in \"\" (/version)"]);
    // What others do is theirs.
    used.pop();
    used.push(Call {
        user: "admin".to_owned(),
        verb: "get".to_owned(),
        code: 403,
        ..Call::default()
    });
    assert_eq!(differences(&all, &used), Vec::<String>::new());
    assert!(audit::evicted(&used).is_empty());
}

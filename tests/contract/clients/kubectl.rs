//! `kubectl`, as it is released.

use std::{
    fs,
    path::PathBuf,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use sundown::{
    runtime::{Clock, Spawner},
    sim::{
        http::{Server, loopback},
        kube::{BudgetSpec, EmbeddedKube, Fact, NodeSpec, Options, PodShape, PodSpec, Workload},
    },
};

use crate::process::{CommandOutput, Folder, LIMIT, Process, run};

/// An embedded cluster of three nodes with a Deployment `web` of three, a DaemonSet `agent` and a
/// budget, and kubectl's way to it.
struct Shop {
    kube: EmbeddedKube,
    _server: Server,
    kubectl: PathBuf,
    folder: Folder,
    tasks: Spawner,
}

impl Shop {
    async fn new() -> Option<Self> {
        let Some(tools) = crate::cluster::tools() else {
            crate::skip::skip(
                "SUNDOWN_CONTROL_PLANE is not set, and kubectl is there; see \
                 tests/control-plane/build",
            );
            return None;
        };
        let (tasks, folder) = (Spawner::new(), Folder::new());
        let kube = EmbeddedKube::start(Options::default(), Clock::system(), 7, &tasks);
        let server = kube.serve(loopback().await.unwrap(), &tasks).unwrap();
        fs::write(folder.path().join("config"), EmbeddedKube::kubeconfig(server.address()))
            .unwrap();
        for n in 0..3 {
            kube.add_node(&NodeSpec::named(format!("n{n}")).instance(format!("i-{n:017}")));
        }
        kube.add_daemon_set(&Workload::new("shop", "agent", 0));
        kube.add_deployment(
            &Workload::new("shop", "web", 3)
                .shape(PodShape { stop: Some(Duration::from_millis(500)), ..PodShape::default() }),
        );
        kube.add_budget(&BudgetSpec {
            min_available: Some(json!(2)),
            ..BudgetSpec::for_app("shop", "web")
        });
        let shop = Self { kube, _server: server, kubectl: tools.join("kubectl"), folder, tasks };
        shop.until("web is ready", |shop| shop.ready() == 3).await;
        Some(shop)
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.kubectl);
        command
            .env_clear()
            .env("HOME", self.folder.path())
            .env("KUBECONFIG", self.folder.path().join("config"));
        command.args(args).stdin(Stdio::null()).current_dir(self.folder.path());
        command
    }

    async fn run(&self, args: &[&str]) -> CommandOutput {
        run(self.folder.path(), &mut self.command(args)).await
    }

    /// Runs kubectl, which must succeed, and returns what it printed.
    async fn stdout_of(&self, args: &[&str]) -> String {
        let output = self.run(args).await;
        assert_eq!(output.code, Some(0), "kubectl {args:?}: {}{}", output.out, output.err);
        output.out
    }

    fn file(&self, name: &str, object: &Value) -> String {
        fs::write(self.folder.path().join(name), object.to_string()).unwrap();
        name.to_owned()
    }

    /// How many pods of `web` are ready.
    fn ready(&self) -> usize {
        self.kube
            .pods()
            .iter()
            .filter(|p| p.name.starts_with("web-") && p.ready && p.deletion.is_none())
            .count()
    }

    async fn until(&self, what: &str, holds: impl Fn(&Self) -> bool) {
        let end = Instant::now() + LIMIT;
        while !holds(self) {
            assert!(Instant::now() < end, "it does not happen that {what}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

impl Drop for Shop {
    fn drop(&mut self) {
        self.tasks.kill();
    }
}

/// The words of each line.
fn rows(text: &str) -> Vec<Vec<&str>> {
    text.lines().map(|line| line.split_whitespace().collect()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_gets_and_describes() {
    let Some(shop) = Shop::new().await else { return };
    let nodes = shop.stdout_of(&["get", "nodes"]).await;
    let nodes = rows(&nodes);
    assert_eq!(nodes[0], ["NAME", "STATUS", "ROLES", "AGE", "VERSION"]);
    assert_eq!(
        nodes[1..].iter().map(|row| (row[0], row[1])).collect::<Vec<_>>(),
        [("n0", "Ready"), ("n1", "Ready"), ("n2", "Ready")]
    );
    let pods =
        shop.stdout_of(&["get", "pods", "-n", "shop", "-l", "app=web", "--no-headers"]).await;
    assert_eq!(
        rows(&pods).iter().map(|row| (row[1], row[2])).collect::<Vec<_>>(),
        [("1/1", "Running"); 3]
    );
    let budget = shop.stdout_of(&["get", "pdb", "-A"]).await;
    let budget = rows(&budget);
    assert_eq!(
        (budget[1][0], budget[1][2], budget[1][3], budget[1][4]),
        ("shop", "2", "N/A", "1"),
        "{budget:?}"
    );
    let all: Value = serde_json::from_str(
        &shop
            .stdout_of(&["get", "pods", "-A", "-o", "json", "--field-selector", "spec.nodeName=n0"])
            .await,
    )
    .unwrap();
    assert_eq!(all["items"].as_array().unwrap().len(), shop.kube.pods_on("n0").len());
    let id = shop.stdout_of(&["get", "node", "n1", "-o", "jsonpath={.spec.providerID}"]).await;
    assert_eq!(id, format!("aws:///eu-west-1a/i-{:017}", 1));
    let sorted = shop
        .stdout_of(&["get", "pods", "-n", "shop", "--sort-by=.metadata.name", "-o", "name"])
        .await;
    assert_eq!(sorted.lines().count(), 6, "{sorted}");

    let node = shop.stdout_of(&["describe", "node", "n0"]).await;
    for text in [
        "Name:               n0",
        "ProviderID:",
        "Non-terminated Pods:",
        "Ready            True",
        "Unschedulable:      false",
    ] {
        assert!(node.contains(text), "no «{text}» in\n{node}");
    }
    let budget = shop.stdout_of(&["describe", "pdb", "-n", "shop", "web"]).await;
    for text in [
        "Min available:  2",
        "Allowed disruptions:  1",
        "Current:  3",
        "Desired:  2",
        "Total:    3",
    ] {
        let squeezed = |t: &str| t.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(squeezed(&budget).contains(&squeezed(text)), "no «{text}» in\n{budget}");
    }
    let gone = shop.run(&["get", "pod", "-n", "shop", "nobody"]).await;
    assert_eq!(
        (gone.code, gone.err.trim()),
        (Some(1), "Error from server (NotFound): pods \"nobody\" not found")
    );
    let unknown = shop.run(&["get", "things"]).await;
    assert!(
        unknown.err.contains("the server doesn't have a resource type \"things\""),
        "{}",
        unknown.err
    );
    assert!(shop.stdout_of(&["version", "-o", "json"]).await.contains("sundown-sim"));
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_applies_patches_and_deletes() {
    let Some(shop) = Shop::new().await else { return };
    let mut budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {
            "name": "agent", "namespace": "shop"
        },
        "spec": { "maxUnavailable": 1, "selector": { "matchLabels": { "app": "agent" } } },
    });
    let file = shop.file("budget.json", &budget);
    assert_eq!(
        shop.stdout_of(&["apply", "-f", &file]).await.trim(),
        "poddisruptionbudget.policy/agent created"
    );
    // For budgets kubectl always reports `configured`: their selectors are patched whole. Nothing
    // changes.
    let before = shop.kube.object("poddisruptionbudgets", "shop", "agent").unwrap();
    assert_eq!(
        shop.stdout_of(&["apply", "-f", &file]).await.trim(),
        "poddisruptionbudget.policy/agent configured"
    );
    assert_eq!(
        shop.kube.object("poddisruptionbudgets", "shop", "agent").unwrap()["spec"],
        before["spec"]
    );
    let other = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "c", "namespace": "shop" },
        "data": { "a": "1", "b": "1" }
    });
    let other_file = shop.file("configmap.json", &other);
    assert_eq!(shop.stdout_of(&["apply", "-f", &other_file]).await.trim(), "configmap/c created");
    assert_eq!(shop.stdout_of(&["apply", "-f", &other_file]).await.trim(), "configmap/c unchanged");
    let other = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "c", "namespace": "shop" },
        "data": { "a": "2" }
    });
    shop.file("configmap.json", &other);
    assert_eq!(
        shop.stdout_of(&["apply", "-f", &other_file]).await.trim(),
        "configmap/c configured"
    );
    assert_eq!(shop.kube.object("configmaps", "shop", "c").unwrap()["data"], json!({ "a": "2" }));
    budget["spec"]["maxUnavailable"] = json!(2);
    shop.file("budget.json", &budget);
    assert_eq!(
        shop.stdout_of(&["apply", "-f", &file]).await.trim(),
        "poddisruptionbudget.policy/agent configured"
    );
    let stored = shop.kube.object("poddisruptionbudgets", "shop", "agent").unwrap();
    assert_eq!(
        (&stored["spec"]["maxUnavailable"], &stored["metadata"]["generation"]),
        (&json!(2), &json!(2))
    );
    assert_eq!(
        shop.stdout_of(&["apply", "--server-side", "-f", &file]).await.trim(),
        "poddisruptionbudget.policy/agent serverside-applied"
    );

    shop.stdout_of(&["annotate", "node", "n0", "sundown.dev/pause=true"]).await;
    shop.stdout_of(&["label", "node", "n0", "team=a"]).await;
    shop.stdout_of(&["taint", "node", "n0", "x=y:NoSchedule"]).await;
    let node = shop.kube.object("nodes", "", "n0").unwrap();
    assert_eq!(
        (
            &node["metadata"]["annotations"]["sundown.dev/pause"],
            &node["metadata"]["labels"]["team"]
        ),
        (&json!("true"), &json!("a"))
    );
    assert!(
        node["spec"]["taints"]
            .as_array()
            .unwrap()
            .contains(&json!({ "key": "x", "value": "y", "effect": "NoSchedule" })),
        "{node}"
    );
    shop.stdout_of(&["taint", "node", "n0", "x-"]).await;
    shop.stdout_of(&["annotate", "node", "n0", "sundown.dev/pause-"]).await;
    let node = shop.kube.object("nodes", "", "n0").unwrap();
    assert_eq!(
        (&node["spec"]["taints"], &node["metadata"]["annotations"]["sundown.dev/pause"]),
        (&Value::Null, &Value::Null)
    );

    shop.stdout_of(&["scale", "deployment", "-n", "shop", "web", "--replicas=4"]).await;
    shop.stdout_of(&["rollout", "status", "deployment", "-n", "shop", "web", "--timeout=60s"])
        .await;
    assert_eq!(shop.ready(), 4);
    shop.stdout_of(&["delete", "deployment", "-n", "shop", "web"]).await;
    shop.until("its pods are gone", |shop| {
        !shop.kube.pods().iter().any(|p| p.name.starts_with("web-"))
    })
    .await;
    let events =
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "other" } });
    let file = shop.file("namespace.json", &events);
    shop.stdout_of(&["create", "-f", &file]).await;
    shop.stdout_of(&["delete", "namespace", "other", "--timeout=60s"]).await;
    assert_eq!(shop.kube.object("namespaces", "", "other"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_drains_within_the_budget() {
    let Some(shop) = Shop::new().await else { return };
    // Two more on the first node, so that the budget refuses some evictions.
    for name in ["web-a", "web-b"] {
        shop.kube.add_pod(&PodSpec::on("n0", "shop", name).label("app", "web"));
    }
    let refused = shop.run(&["drain", "n0"]).await;
    assert_eq!(refused.code, Some(1));
    assert!(
        refused
            .err
            .contains("cannot delete DaemonSet-managed Pods (use --ignore-daemonsets to ignore)"),
        "{}",
        refused.err
    );
    let output =
        shop.run(&["drain", "n0", "--ignore-daemonsets", "--force", "--timeout=80s"]).await;
    assert_eq!(output.code, Some(0), "{}{}", output.out, output.err);
    assert!(output.out.contains("node/n0 drained"), "{}", output.out);
    assert!(output.out.contains("evicting pod shop/web-a"), "{}", output.out);
    let left: Vec<String> = shop.kube.pods_on("n0").into_iter().map(|p| p.name).collect();
    assert!(left.len() == 1 && left[0].starts_with("agent-"), "{left:?}");
    let overruns: Vec<_> = shop
        .kube
        .journal()
        .into_iter()
        .filter(|e| matches!(&e.fact, Fact::Evicted { overrun, .. } if !overrun.is_empty()))
        .collect();
    assert!(overruns.is_empty(), "{overruns:?}");
    assert!(shop.kube.requests().iter().any(|r| r.subresource == "eviction"
        && r.status == 201
        && r.client.starts_with("kubectl/")));
    let nodes = shop.stdout_of(&["get", "node", "n0", "--no-headers"]).await;
    assert_eq!(rows(&nodes)[0][1], "Ready,SchedulingDisabled");
    shop.stdout_of(&["uncordon", "n0"]).await;
    assert_eq!(shop.kube.object("nodes", "", "n0").unwrap()["spec"]["unschedulable"], Value::Null);
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_reports_why_a_drain_waits() {
    let Some(shop) = Shop::new().await else { return };
    shop.kube.edit("poddisruptionbudgets", "shop", "web", |b| b["spec"]["minAvailable"] = json!(5));
    let budget = |shop: &Shop| shop.kube.object("poddisruptionbudgets", "shop", "web").unwrap();
    shop.kube
        .edit("poddisruptionbudgets", "shop", "web", |b| b["metadata"]["generation"] = json!(2));
    shop.until("the budget is closed", |shop| budget(shop)["status"]["disruptionsAllowed"] == 0)
        .await;
    let pod = shop.kube.pods().into_iter().find(|p| p.name.starts_with("web-")).unwrap();
    let output = shop
        .run(&["drain", pod.node.as_deref().unwrap(), "--ignore-daemonsets", "--timeout=6s"])
        .await;
    assert_eq!(output.code, Some(1));
    assert!(
        output.err.contains("error when evicting pods/\"web-")
            && output.err.contains(
                "(will retry after 5s): Cannot evict pod as it would violate the pod's disruption \
                 budget."
            ),
        "{}",
        output.err
    );
    assert!(output.err.contains("global timeout reached: 6s"), "{}", output.err);
    assert_eq!(shop.ready(), 3, "nothing was evicted");
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_watches() {
    let Some(shop) = Shop::new().await else { return };
    let mut watch = Process::start(
        "watch",
        shop.folder.path(),
        &mut shop.command(&[
            "get",
            "pods",
            "-n",
            "shop",
            "-l",
            "app=web",
            "--watch",
            "--output-watch-events",
            "-o",
            "custom-columns=TYPE:.type,NAME:.object.metadata.name",
        ]),
    );
    let printed = || fs::read_to_string(shop.folder.path().join("watch.out")).unwrap_or_default();
    let end = Instant::now() + LIMIT;
    let until = async |text: &str, watch: &mut Process| {
        while !printed().lines().any(|line| rows(line)[0].join(" ") == text) {
            assert!(
                watch.is_alive() && Instant::now() < end,
                "kubectl has not printed «{text}» but\n{}{}",
                printed(),
                watch.log()
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let pod = shop.kube.pods().into_iter().find(|p| p.name.starts_with("web-")).unwrap().name;
    until(&format!("ADDED {pod}"), &mut watch).await;
    shop.stdout_of(&["delete", "pod", "-n", "shop", &pod, "--wait=false"]).await;
    until(&format!("MODIFIED {pod}"), &mut watch).await;
    until(&format!("DELETED {pod}"), &mut watch).await;
    shop.stdout_of(&[
        "wait",
        "deployment",
        "-n",
        "shop",
        "web",
        "--for=jsonpath={.status.readyReplicas}=3",
        "--timeout=60s",
    ])
    .await;
    let added = || printed().lines().filter(|line| line.starts_with("ADDED")).count();
    while added() < 4 {
        assert!(
            watch.is_alive() && Instant::now() < end,
            "kubectl has not printed all pods but\n{}{}",
            printed(),
            watch.log()
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(added(), 4, "{}", printed());
}

//! The chart, installed for real by either Helm.

use std::{
    collections::BTreeSet,
    process::Command,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    audit::{USER, calls},
    cluster::{ADMIN, Flags},
    process::{CommandOutput, LIMIT, Process, run, sundown},
    stage::{Stage, condition},
};

const CHART: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/helm/sundown");
const NAMESPACE: &str = "edge";

/// All that can be switched on, in a namespace that is restricted.
fn values(stage: &Stage) -> Value {
    json!({
        "image": { "repository": "registry.example.com/sundown" },
        "config": { "queueUrls": [stage.world.queue_url()], "clusterName": stage.world.cluster() },
        "serviceAccount": {
            "annotations": {
                "eks.amazonaws.com/role-arn": "arn:aws:iam::123456789012:role/sundown"
            }
        },
        "service": { "enabled": true },
        "metrics": {
            "serviceMonitor": { "enabled": true }, "prometheusRule": { "enabled": true },
            "dashboard": { "enabled": true }
        },
        "networkPolicy": { "enabled": true },
        // One replica after the other is replaced, by kwok at any time within this.
        "terminationGracePeriodSeconds": 3,
    })
}

struct Helm<'a> {
    stage: &'a Stage,
    program: &'static str,
}

impl Helm<'_> {
    fn command(&self, args: &[&str]) -> Command {
        let folder = self.stage.cluster.folder.path();
        let mut command = Command::new(self.stage.cluster.tools().join(self.program));
        command
            .args(args)
            .env_clear()
            .env("HOME", folder)
            .env("KUBECONFIG", self.stage.cluster.kubeconfig(ADMIN));
        command
    }

    async fn run(&self, args: &[&str]) -> CommandOutput {
        let output = run(self.stage.cluster.folder.path(), &mut self.command(args)).await;
        assert_eq!(output.code, Some(0), "{} {args:?}: {}{}", self.program, output.out, output.err);
        output
    }
}

/// A namespace that takes only pods that ask for no rights.
async fn restricted(stage: &Stage, namespace: &str) {
    stage.cluster.kubectl(&["create", "namespace", namespace]).await;
    stage
        .cluster
        .kubectl(&[
            "label",
            "namespace",
            namespace,
            "pod-security.kubernetes.io/enforce=restricted",
        ])
        .await;
}

fn path(group: &str, plural: &str) -> String {
    format!("/{group}/namespaces/{NAMESPACE}/{plural}/{NAMESPACE}-sundown")
}

fn deployment() -> String {
    path("apis/apps/v1", "deployments")
}

async fn is_rolled_out(stage: &Stage, generation: i64) {
    let whole = |d: &Value| {
        let status = &d["status"];
        status["observedGeneration"].as_i64() >= Some(generation)
            && status["readyReplicas"] == 2
            && status["updatedReplicas"] == 2
            && status["replicas"] == 2
    };
    stage.until("both replicas are new and ready", &deployment(), whole).await;
}

/// Names of everything in the cluster that is the release's.
async fn of_the_release(stage: &Stage) -> BTreeSet<String> {
    let kinds = stage.cluster.kubectl(&["api-resources", "--verbs=list", "-o", "name"]).await;
    let kinds: Vec<_> = kinds.lines().filter(|k| !k.starts_with("events")).collect();
    let list = stage
        .cluster
        .kubectl(&[
            "get",
            &kinds.join(","),
            "-A",
            "-l",
            &format!("app.kubernetes.io/instance={NAMESPACE}"),
            "-o",
            "name",
            "--ignore-not-found",
        ])
        .await;
    list.lines().map(str::to_owned).collect()
}

async fn what_is_there(stage: &Stage) {
    let pods = stage.get(&format!("/api/v1/namespaces/{NAMESPACE}/pods")).await.unwrap();
    let pods = pods["items"].as_array().unwrap();
    let nodes: BTreeSet<_> = pods.iter().map(|p| p["spec"]["nodeName"].as_str().unwrap()).collect();
    assert_eq!((pods.len(), nodes.len()), (2, 2), "each on a node of its own");
    assert!(
        pods.iter().all(|p| p["spec"]["priority"] == 2_000_000_000),
        "the scheduler prefers them"
    );
    let budget = stage
        .until("the budget is counted", &path("apis/policy/v1", "poddisruptionbudgets"), |b| {
            b["status"]["disruptionsAllowed"] == 1
        })
        .await;
    assert_eq!(
        (&budget["status"]["expectedPods"], &budget["status"]["currentHealthy"]),
        (&json!(2), &json!(2))
    );
    let monitor =
        stage.get(&path("apis/monitoring.coreos.com/v1", "servicemonitors")).await.unwrap();
    assert_eq!(monitor["spec"]["endpoints"][0]["port"], "metrics");
    let rules = stage.get(&path("apis/monitoring.coreos.com/v1", "prometheusrules")).await.unwrap();
    let alerts = rules["spec"]["groups"][0]["rules"].as_array().unwrap();
    assert!(
        alerts.len() > 10
            && alerts.iter().all(|a| a["alert"].as_str().unwrap().starts_with("Sundown")),
        "{alerts:?}"
    );
    let dashboard = stage
        .get(&format!("/api/v1/namespaces/{NAMESPACE}/configmaps/{NAMESPACE}-sundown-dashboard"))
        .await
        .unwrap();
    let text = dashboard["data"][format!("{NAMESPACE}_{NAMESPACE}-sundown.json")].as_str().unwrap();
    assert_eq!(
        serde_json::from_str::<Value>(text).unwrap()["title"],
        format!("Sundown ({NAMESPACE}/{NAMESPACE}-sundown)")
    );
    assert!(stage.get(&path("apis/networking.k8s.io/v1", "networkpolicies")).await.is_some());
    let account = stage
        .get(&format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts/sundown"))
        .await
        .unwrap();
    assert!(
        account["metadata"]["annotations"]["eks.amazonaws.com/role-arn"]
            .as_str()
            .unwrap()
            .ends_with(":role/sundown")
    );
}

/// Whether a service account may do this.
async fn may(stage: &Stage, account: &str, what: &str) -> CommandOutput {
    let folder = stage.cluster.folder.path();
    let mut command = Command::new(stage.cluster.tools().join("kubectl"));
    command
        .arg("--kubeconfig")
        .arg(stage.cluster.kubeconfig(ADMIN))
        .args(["auth", "can-i"])
        .args(what.split(' '))
        .arg(format!("--as=system:serviceaccount:{account}"))
        .env("HOME", folder);
    run(folder, &mut command).await
}

/// Its account may do what Sundown does, and no more.
async fn what_it_may(stage: &Stage) {
    for (is_to, what) in [
        (true, "create pods --subresource=eviction -A"),
        (true, "delete pods -A"),
        (true, "patch nodes"),
        (true, "update leases/edge-sundown -n edge"),
        (false, "update leases/other -n edge"),
        (false, "update leases/edge-sundown -n default"),
        (false, "delete nodes"),
        (false, "get secrets -n edge"),
    ] {
        let output = may(stage, &format!("{NAMESPACE}:sundown"), what).await;
        assert_eq!(output.out.trim(), if is_to { "yes" } else { "no" }, "{what}: {}", output.err);
    }
}

/// The hook's pod is kwok's, which runs nothing: its command here, with its settings, by its
/// account.
async fn run_check(stage: &Stage, pod: &Value) {
    let (folder, container) = (stage.cluster.folder.path(), &pod["spec"]["containers"][0]);
    let account = pod["spec"]["serviceAccountName"].as_str().unwrap();
    let token = stage.cluster.kubectl(&["create", "token", account, "-n", NAMESPACE]).await;
    let mut config: Value =
        serde_json::from_slice(&std::fs::read(stage.cluster.kubeconfig(ADMIN)).unwrap()).unwrap();
    config["users"][0]["user"]["token"] = json!(token.trim());
    let kubeconfig = folder.join("check.kubeconfig");
    std::fs::write(&kubeconfig, config.to_string()).unwrap();
    let mut command = sundown(folder);
    command.args(container["args"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()));
    command.args(["-o", "json", "--kubeconfig"]).arg(&kubeconfig);
    for variable in container["env"].as_array().unwrap() {
        let field = || {
            pod.pointer(&format!(
                "/{}",
                variable["valueFrom"]["fieldRef"]["fieldPath"].as_str()?.replace('.', "/")
            ))?
            .as_str()
        };
        command.env(
            variable["name"].as_str().unwrap(),
            variable["value"].as_str().or_else(field).unwrap(),
        );
    }
    command.env("AWS_ENDPOINT_URL", stage.aws_url());
    command.envs([
        ("AWS_ACCESS_KEY_ID", "AKIASUNDOWN"),
        ("AWS_SECRET_ACCESS_KEY", "not-a-secret"),
        ("AWS_EC2_METADATA_DISABLED", "true"),
    ]);
    let output = run(folder, &mut command).await;
    let report: Value = serde_json::from_str(&output.out)
        .unwrap_or_else(|error| panic!("{error}: {}{}", output.out, output.err));
    for point in [
        "groups",
        "no-other-handler",
        "hook.heartbeat",
        "kubernetes",
        "not-paused",
        "queue",
        "rights",
    ] {
        let answers: Vec<_> = report["findings"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|f| f["point"] == point)
            .map(|f| &f["answer"])
            .collect();
        assert!(
            !answers.is_empty() && answers.iter().all(|answer| *answer == "yes"),
            "{point}: {}",
            output.out
        );
    }
    assert_eq!(output.code, Some(0), "{}", output.out);
}

/// `helm test`; the pod of the hook is kwok's and ends well when it is asked to.
async fn is_tested(stage: &Stage, helm: &Helm<'_>) {
    let folder = stage.cluster.folder.path();
    let mut testing = Process::start(
        "helm-test",
        folder,
        &mut helm.command(&["test", NAMESPACE, "-n", NAMESPACE, "--timeout", "60s"]),
    );
    let hook = format!("/api/v1/namespaces/{NAMESPACE}/pods/{NAMESPACE}-sundown-check");
    let pod = stage.until("the check runs", &hook, |p| p["status"]["phase"] == "Running").await;
    assert_eq!(pod["spec"]["containers"][0]["args"], json!(["check"]));
    run_check(stage, &pod).await;
    stage
        .cluster
        .kubectl(&[
            "annotate",
            "pod",
            "-n",
            NAMESPACE,
            &format!("{NAMESPACE}-sundown-check"),
            "test.sundown.dev/finishes=yes",
        ])
        .await;
    let ended = testing.ended().await;
    assert!(ended.success(), "{}", testing.last_lines());
    assert!(stage.get(&hook).await.is_none(), "one that succeeded does not stay");
}

async fn comes_and_goes(stage: &Stage, program: &'static str) {
    let helm = Helm { stage, program };
    let file = stage.cluster.folder.path().join("values.json");
    std::fs::write(&file, values(stage).to_string()).unwrap();
    restricted(stage, NAMESPACE).await;
    let usual = [
        NAMESPACE,
        CHART,
        "-n",
        NAMESPACE,
        "--values",
        file.to_str().unwrap(),
        "--wait",
        "--timeout",
        "90s",
    ];
    let output = helm.run(&[&["install"], &usual[..]].concat()).await;
    assert!(
        output.out.contains("get lease edge-sundown")
            && !output.err.contains("would violate PodSecurity"),
        "{}{}",
        output.out,
        output.err
    );
    is_rolled_out(stage, 1).await;
    what_is_there(stage).await;
    what_it_may(stage).await;
    is_tested(stage, &helm).await;
    // There are as many nodes as replicas, which must be apart: with a surge this would never end.
    helm.run(&[&["upgrade"], &usual[..], &["--set", "podAnnotations.new=yes"]].concat()).await;
    is_rolled_out(stage, 2).await;
    assert!(of_the_release(stage).await.len() > 12, "{:?}", of_the_release(stage).await);
    helm.run(&["uninstall", NAMESPACE, "-n", NAMESPACE, "--wait"]).await;
    let end = Instant::now() + LIMIT;
    loop {
        let left = of_the_release(stage).await;
        if left.is_empty() {
            break;
        }
        assert!(Instant::now() < end, "{program} leaves {left:?}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let secrets = stage.get(&format!("/api/v1/namespaces/{NAMESPACE}/secrets")).await.unwrap();
    assert_eq!(secrets["items"], json!([]), "{program} forgets the release");
    stage.cluster.kubectl(&["delete", "namespace", NAMESPACE, "--wait"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_chart_is_installed_tested_upgraded_and_leaves_nothing() {
    let Some(stage) = Stage::bare(31, &Flags::default()).await else { return };
    let definitions = stage.cluster.tools().join("monitoring");
    stage.cluster.kubectl(&["apply", "--server-side", "-f", definitions.to_str().unwrap()]).await;
    stage
        .cluster
        .kubectl(&["wait", "--for=condition=Established", "crd", "--all", "--timeout=60s"])
        .await;
    stage.group(2).await;
    restricted(&stage, "strict").await;
    let careless = stage.cluster.folder.path().join("careless.json");
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "careless" },
        "spec": { "containers": [{ "name": "a", "image": "a" }] }
    });
    std::fs::write(&careless, pod.to_string()).unwrap();
    let mut refused = Command::new(stage.cluster.tools().join("kubectl"));
    refused
        .arg("--kubeconfig")
        .arg(stage.cluster.kubeconfig(ADMIN))
        .args(["create", "-n", "strict", "-f"])
        .arg(&careless);
    let output =
        run(stage.cluster.folder.path(), refused.env("HOME", stage.cluster.folder.path())).await;
    assert!(
        output.err.contains("violates PodSecurity \"restricted"),
        "such a namespace takes not every pod: {}{}",
        output.out,
        output.err
    );
    for program in ["helm", "helm4"] {
        comes_and_goes(&stage, program).await;
    }
}

/// Installs the chart as the release `sundown` with these values and without pods: a test runs the
/// service as a process.
pub async fn installed_with(stage: &Stage, values: &[&str]) {
    restricted(stage, "sundown").await;
    let (url, usual) = (
        stage.world.queue_url(),
        ["image.repository=none", "replicas=0", "config.queueUrls={URL}"],
    );
    let sets: Vec<_> = usual
        .iter()
        .chain(values)
        .flat_map(|set| ["--set".to_owned(), set.replace("URL", &url)])
        .collect();
    let sets: Vec<_> = sets.iter().map(String::as_str).collect();
    Helm { stage, program: "helm" }
        .run(&[&["install", "sundown", CHART, "-n", "sundown"], &sets[..]].concat())
        .await;
}

/// The service as a process, with no other rights than those that the chart gives to a dry run.
#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_needs_no_more_than_the_chart_gives_it() {
    let Some(stage) = Stage::bare(32, &Flags::default()).await else { return };
    let instances = stage.group(2).await;
    installed_with(&stage, &["config.dryRun=true"]).await;
    // Its account may do that once the API server has read so.
    for what in ["list nodes", "list poddisruptionbudgets -A"] {
        stage
            .holds(what, async || may(&stage, "sundown:sundown", what).await.out.trim() == "yes")
            .await;
    }
    let mut sundown = stage.replica("sundown", &["--dry-run"]).await;
    sundown.counts("nodes", 2.0).await;
    let before = stage.node(&instances[0]).await;
    stage.world.aws.terminate(&instances[0], true);
    sundown.counts("messages_total{kind=\"terminate-hook\",outcome=\"dry_run\"}", 1.0).await;
    let after = stage.node(&instances[0]).await;
    assert_eq!(
        (&before["spec"], &before["metadata"]["annotations"]),
        (&after["spec"], &after["metadata"]["annotations"])
    );
    assert!(condition(&after, "Ready"));
    let ours: Vec<_> = calls(&stage).into_iter().filter(|c| c.user == USER).collect();
    assert!(!ours.is_empty());
    for call in ours {
        assert!(
            ![401, 403].contains(&call.code),
            "refused: {} {}/{} {}",
            call.verb,
            call.group,
            call.resource,
            call.uri
        );
        assert!(
            ["get", "list", "watch"].contains(&call.verb.as_str()),
            "{} {}",
            call.verb,
            call.uri
        );
    }
}

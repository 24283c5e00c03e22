//! `sundown status`, and what people name nodes and Leases by.

use std::{
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use serde_json::{Value, json};
use sundown::sim::{
    aws::{GroupSpec, HookResult, HookSpec},
    kube::{BudgetSpec, Workload},
};

use crate::{
    process::{CommandOutput, Process, binary, bound, run, sundown},
    stage::Stage,
};

/// A group of which one node is drained and held by a budget that allows nothing.
async fn held(seed: u64) -> (Stage, Process, String) {
    let stage = Stage::new(seed).await;
    let instances = stage.group(2);
    stage.world.kube.add_deployment(&Workload::new("shop", "quorum", 4));
    stage.world.kube.add_budget(&BudgetSpec::for_app("shop", "quorum").max(0));
    stage.pods_run(4).await;
    let mut sundown = stage.leader("sundown", &["--drain-timeout", "20m"]).await;
    stage.world.aws.terminate(&instances[0], true);
    sundown.counts("blocked_pods{reason=\"pdb\"}", 1.0).await;
    (stage, sundown, instances[0].clone())
}

async fn json(stage: &Stage, words: &[&str]) -> Value {
    let words: Vec<_> = ["status", "-o", "json"].iter().chain(words).copied().collect();
    let output = stage.person(&words).await;
    assert_eq!(output.code, Some(0), "{}", output.err);
    serde_json::from_str(&output.out).unwrap_or_else(|e| panic!("{e}: {}", output.out))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_held_drain_is_shown_with_its_budget_its_deadline_and_who_leads() {
    let (stage, _sundown, instance) = held(150).await;
    let node = stage.node_of(&instance);
    let status = json(&stage, &[]).await;
    assert_eq!(status["nodes"].as_array().map(Vec::len), Some(1), "{status:#}");
    let drain = &status["nodes"][0];
    assert_eq!(
        (&drain["node"], &drain["instance"], &drain["state"]),
        (&json!(node), &json!(instance), &json!("draining"))
    );
    assert_eq!(drain["hooks"], json!([{ "group": "asg", "hook": "drain", "lastHeartbeat": null }]));
    let moment = |v: &Value| {
        v.as_str()
            .and_then(|t| t.parse::<sundown::domain::Moment>().ok())
            .unwrap_or_else(|| panic!("{v} in {drain:#}"))
    };
    // The leader's own `--drain-timeout`, which the person did not give.
    let whole = moment(&drain["deadline"]).duration_since(moment(&drain["since"])).as_secs();
    assert!((1100..=1200).contains(&whole), "{whole} s");
    assert!(
        moment(&drain["forceFrom"]) > moment(&drain["since"])
            && moment(&drain["forceFrom"]) < moment(&drain["deadline"])
    );
    let blocked = drain["blocked"].as_array().unwrap();
    assert!(
        !blocked.is_empty()
            && drain["pods"]["blocked"] == blocked.len()
            && drain["pods"]["left"].as_u64() >= drain["pods"]["blocked"].as_u64()
    );
    for pod in blocked {
        assert_eq!(
            (&pod["reason"], &pod["budgets"]),
            (&json!("pdb"), &json!(["shop/quorum"])),
            "{pod}"
        );
        assert!(pod["pod"].as_str().unwrap().starts_with("shop/quorum-"), "{pod}");
    }
    assert_eq!(
        (&status["leader"]["lease"], &status["paused"], &status["notes"]),
        (&json!("kube-system/sundown"), &json!(false), &json!([]))
    );
    assert!(status["leader"]["pod"].is_string(), "{status:#}");

    // For people, within 80 columns and without colors, because it is no terminal.
    let output = stage.person(&["status"]).await;
    assert!(
        output.out.lines().all(|line| line.chars().count() <= 80) && !output.out.contains('\x1b'),
        "{}",
        output.out
    );
    for words in [
        "NODE",
        "terminate-hook",
        "pdb",
        "shop/quorum",
        "hook asg/drain",
        "1 node is being drained",
    ] {
        assert!(output.out.contains(words), "{words} is not in\n{}", output.out);
    }
    // One node, by either name.
    for name in [node.as_str(), instance.as_str()] {
        let output = stage.person(&["status", name]).await;
        assert!(
            output.out.contains(&format!("{node} is being drained"))
                && output.out.contains("deadline   "),
            "{}",
            output.out
        );
    }
    let unknown = stage.person(&["status", "i-00000000000000000"]).await;
    assert!(
        unknown.code == Some(1) && unknown.err.contains("i-00000000000000000"),
        "{}",
        unknown.err
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_that_another_party_has_retained_is_shown_to_who_may_ask_auto_scaling() {
    let stage = Stage::new(158).await;
    // Sundown leaves this hook alone.
    let (group, hook) = ("asg", "Terminate-LC-Hook");
    let spec =
        GroupSpec { replace_after: None, retain_on_abandon: true, ..GroupSpec::new(group, 2) };
    let instances = stage.world.add_group(spec, &[HookSpec::terminating(hook)]);
    let instance = &instances[0];
    stage.until("it has a Node", || stage.world.node_of(instance).is_some()).await;
    let node = stage.node_of(instance);
    let _sundown = stage.leader("sundown", &[]).await;
    assert_eq!(json(&stage, &[]).await["retained"], json!([]));
    stage.world.aws.terminate(instance, true);
    let abandon =
        || stage.world.aws.complete_as("somebody", group, hook, instance, HookResult::Abandon);
    stage.until("it waits in the hook", abandon).await;
    let retained = async || {
        let status = json(&stage, &[]).await;
        assert_eq!(status["notes"], json!([]), "{status:#}");
        status["retained"].clone()
    };
    let end = std::time::Instant::now() + crate::process::LIMIT;
    let shown = loop {
        let shown = retained().await;
        if shown != json!([]) || std::time::Instant::now() > end {
            break shown;
        }
    };
    let facts = ["instance", "node", "group", "state"].map(|fact| shown[0][fact].clone());
    assert_eq!(facts, [instance, &node, group, "Terminating:Retained"], "{shown:#}");
    for (words, expected) in [
        (vec!["status"], "Auto Scaling retains 1 instance, because"),
        (vec!["status"], instance.as_str()),
        (vec!["status", &node], "The group asg retains its instance (Terminating:Retained)"),
    ] {
        let output = stage.person(&words).await;
        let text = output.out.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(output.code == Some(0) && text.contains(expected), "{expected}: {}", output.out);
    }
    for (words, why) in [
        (&["status", "-o", "json"][..], Some("AWS takes no credentials of yours")),
        (&["status", "-o", "json", "--no-aws"], None),
    ] {
        let output = stage.person_without_aws(words).await;
        assert_eq!(output.code, Some(0), "{}", output.err);
        let status: Value = serde_json::from_str(&output.out).unwrap();
        assert_eq!(status["retained"], json!([]), "{status:#}");
        let notes: Vec<_> = status["notes"].as_array().unwrap().iter().collect();
        assert_eq!(notes.len(), usize::from(why.is_some()), "{notes:?}");
        let all = notes.iter().filter_map(|note| note.as_str()).collect::<String>();
        assert!(all.contains(why.unwrap_or_default()), "{all}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pause_resume_and_release_take_the_id_of_an_instance() {
    let (stage, _sundown, instance) = held(151).await;
    let node = stage.node_of(&instance);
    let output = stage.person(&["pause", &instance]).await;
    assert!(output.code == Some(0) && output.out.contains(&node), "{}{}", output.out, output.err);
    assert_eq!(stage.node(&instance)["metadata"]["annotations"]["sundown.dev/pause"], "true");
    assert_eq!(json(&stage, &[]).await["nodes"][0]["state"], "paused");
    stage
        .until("an Event on the node reports it", || {
            stage.events("Paused").iter().any(|e| e["involvedObject"]["name"] == node.as_str())
        })
        .await;
    assert_eq!(stage.person(&["resume", &instance]).await.code, Some(0));
    stage.until("an Event reports its end, too", || !stage.events("Resumed").is_empty()).await;
    let output = stage.person(&["release", &instance]).await;
    assert!(output.code == Some(0) && output.out.contains(&node), "{}{}", output.out, output.err);
    stage.until("the action is completed", || stage.is_completed(&instance)).await;
    stage
        .until("the drain is over", || {
            stage.node(&instance)["metadata"]["annotations"]["sundown.dev/record"]
                .as_str()
                .is_some_and(|r| r.contains("released"))
        })
        .await;
    let status = json(&stage, &[]).await;
    assert_eq!((&status["nodes"], &status["drained"]), (&json!([]), &json!([node])));
    let output = stage.person(&["status", &instance]).await;
    assert!(
        output.code == Some(0)
            && output.out.contains("is not being drained")
            && output.out.contains("released"),
        "{}",
        output.out
    );
    let unknown = stage.person(&["pause", "i-00000000000000000"]).await;
    assert!(
        unknown.code == Some(1) && unknown.err.contains("no node of an instance"),
        "{}",
        unknown.err
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_lease_is_found_in_whatever_namespace_it_is() {
    let stage = Stage::new(152).await;
    stage.group(1);
    for namespace in ["ops", "test"] {
        stage.world.kube.put(
            json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": namespace } }),
        );
    }
    let none = stage.person(&["pause"]).await;
    assert!(none.code == Some(1) && none.err.contains("--lease-namespace"), "{}", none.err);
    let mut sundown =
        stage.leader("sundown", &["--lease-namespace", "ops", "--lease-name", "evening"]).await;
    let output = stage.person(&["pause"]).await;
    assert!(
        output.code == Some(0) && output.out.contains("ops/evening"),
        "{}{}",
        output.out,
        output.err
    );
    sundown.counts("paused", 1.0).await;
    let status = json(&stage, &[]).await;
    assert_eq!(
        (&status["leader"]["lease"], &status["paused"]),
        (&json!("ops/evening"), &json!(true))
    );
    assert!(stage.person(&["status"]).await.out.contains("ALL drains are paused"));
    assert_eq!(stage.person(&["resume"]).await.code, Some(0));

    // A Lease that an earlier version made has no label, and the usual name.
    let lease = |namespace: &str, labels: &Value| {
        json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": { "name": "sundown", "namespace": namespace, "labels": labels }
        })
    };
    drop(sundown);
    stage.world.kube.edit("leases", "ops", "evening", |l| l["metadata"]["labels"] = json!({}));
    stage.world.kube.put(lease("test", &json!({})));
    assert!(stage.person(&["pause"]).await.out.contains("test/sundown"));
    // Of two, a person has to choose.
    stage.world.kube.put(lease("ops", &json!({})));
    let two = stage.person(&["pause"]).await;
    assert!(
        two.code == Some(1)
            && two.err.contains("ops/sundown, test/sundown")
            && two.err.contains("--lease-namespace"),
        "{}",
        two.err
    );
    let chosen = stage.person(&["pause", "--lease-namespace", "ops"]).await;
    assert!(chosen.code == Some(0) && chosen.out.contains("ops/sundown"), "{}", chosen.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn watch_shows_it_again_and_again_and_a_wrong_name_is_an_error_at_once() {
    let (stage, _sundown, _) = held(153).await;
    let wrong = stage.person(&["status", "--watch", "ip-10-9-9-9"]).await;
    assert!(wrong.code == Some(1) && wrong.err.contains("ip-10-9-9-9"), "{}", wrong.err);
    let both = stage.person(&["status", "--watch", "-o", "json"]).await;
    assert_eq!(both.code, Some(2), "{}", both.err);
    let mut watch = stage.start_person("watch", &["status", "--watch"]);
    let pages = |text: &str| text.matches("NODE").count();
    stage.until("it was shown three times", || pages(&watch.printed()) >= 3).await;
    assert!(watch.is_alive() && watch.log().is_empty(), "{}", watch.log());
    assert!(!watch.printed().contains('\x1b'), "control sequences without a terminal");
}

#[tokio::test(flavor = "multi_thread")]
async fn watch_on_a_terminal_draws_each_page_over_the_last_one() {
    if Command::new("script").arg("--version").output().is_err() {
        crate::skip::skip("there is no `script` (util-linux)");
        return;
    }
    let (stage, _sundown, _) = held(157).await;
    let line = format!(
        "stty cols 80 rows 24; exec '{}' status --no-aws --watch --kubeconfig '{}'",
        binary().display(),
        stage.kubeconfig()
    );
    let mut command = bound(Path::new("script"));
    command
        .args(["-qec", &line, "/dev/null"])
        .env_clear()
        .env("HOME", stage.folder.path())
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .envs([("TERM", "xterm"), ("SHELL", "/bin/sh")])
        .stdin(Stdio::piped());
    let watch = Process::start("watch", stage.folder.path(), &mut command);
    // What comes before the first page, then each page that another one follows.
    let drawn = || -> Vec<String> {
        let printed = watch.printed();
        let (complete, _) = printed.rsplit_once("\x1b[H").unwrap_or_default();
        complete.split("\x1b[H").map(str::to_owned).collect()
    };
    stage.until("two pages are drawn", || drawn().len() > 2).await;
    let output = stage.person(&["pause"]).await;
    assert_eq!(output.code, Some(0), "{}", output.err);
    let shows_pause = |page: &String| page.contains("ALL drains are paused");
    stage.until("a page shows the pause", || drawn().last().is_some_and(shows_pause)).await;

    let all = drawn();
    let (before, pages) = all.split_first().unwrap();
    assert_eq!(before, "\x1b[2J", "the screen is cleared once, before the first page");
    assert!(!shows_pause(&pages[0]), "{}", pages[0]);
    for page in pages {
        assert!(!page.contains("\x1b[2J"), "it flickers: {page:?}");
        let text = page.strip_suffix("\x1b[J");
        let text = text.unwrap_or_else(|| panic!("rows of a longer page stay: {page:?}"));
        assert_eq!(text.matches("NODE").count(), 1, "{page:?}");
        assert!(text.lines().count() < 24, "it scrolls: {page:?}");
        let clears_its_row = |line: &str| line.trim_end_matches('\r').ends_with("\x1b[K");
        assert!(text.lines().all(clears_its_row), "the end of a longer row stays: {page:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_an_api_server_it_reports_that_and_fails() {
    let stage = Stage::new(154).await;
    let folder = stage.folder.path();
    let output =
        run(folder, sundown(folder).args(["status", "--kubeconfig", "/nowhere/kubeconfig"])).await;
    assert!(
        output.code == Some(1)
            && output.err.contains("/nowhere/kubeconfig")
            && output.out.is_empty(),
        "{}",
        output.err
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn as_a_kubectl_plug_in_it_goes_by_that_name() {
    let stage = Stage::new(155).await;
    let plugin = stage.folder.path().join("kubectl-sundown");
    std::os::unix::fs::symlink(binary(), &plugin).unwrap();
    let help = run(stage.folder.path(), Command::new(&plugin).args(["status", "--help"])).await;
    assert!(
        help.code == Some(0) && help.out.contains("Usage: kubectl sundown status"),
        "{}",
        help.out
    );
    let wrong = run(stage.folder.path(), Command::new(&plugin).args(["status", "--what"])).await;
    assert!(
        wrong.code == Some(2) && wrong.err.contains("Usage: kubectl sundown status"),
        "{}",
        wrong.err
    );
    let usual =
        run(stage.folder.path(), sundown(stage.folder.path()).args(["status", "--help"])).await;
    assert!(usual.out.contains("Usage: sundown status"), "{}", usual.out);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_has_enough_is_no_error() {
    let (stage, _sundown, _) = held(156).await;
    let trial = stage.folder.path().join("trial.log");
    std::fs::write(&trial, "Trial: nothing is written to AWS or Kubernetes").unwrap();
    let kubeconfig = stage.kubeconfig().to_owned();
    let values = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/from-nth/small.yaml");
    for words in [
        &["status", "--kubeconfig", &kubeconfig][..],
        &["status", "-o", "json", "--kubeconfig", &kubeconfig],
        &["status", "--watch", "--kubeconfig", &kubeconfig],
        &["pause", "--kubeconfig", &kubeconfig],
        &["resume", "--kubeconfig", &kubeconfig],
        &[
            "check",
            "--kubeconfig",
            &kubeconfig,
            "--queue-url",
            &stage.world.queue_url(),
            "--aws-endpoint-url",
            &stage.aws_url(),
        ],
        &[
            "check",
            "-o",
            "json",
            "--kubeconfig",
            &kubeconfig,
            "--queue-url",
            &stage.world.queue_url(),
            "--aws-endpoint-url",
            &stage.aws_url(),
        ],
        &[
            "enroll",
            "--asg",
            "asg",
            "--region",
            "eu-west-1",
            "--aws-endpoint-url",
            &stage.aws_url(),
        ],
        &[
            "send-test",
            "i-1234567890abcdef0",
            "--print",
            "--region",
            "eu-west-1",
            "--aws-endpoint-url",
            &stage.aws_url(),
        ],
        &["run", "--print-config"],
        &["from-nth", values],
        &["trial-report", trial.to_str().unwrap()],
        &["completions", "bash"],
        &["man"],
        &["--help"],
        &["run", "--help"],
    ] {
        let output = into_a_closed_pipe(&stage, words).await;
        let ended = output.err.lines().last().unwrap_or_default();
        assert!(
            ended == "code=0" || (ended == "code=1" && words[0] == "check"),
            "{words:?}: {}",
            output.err
        );
        assert_eq!(output.err.lines().count(), 1, "{words:?}: {}", output.err);
    }
}

/// Runs a command whose standard output nobody reads any more; its exit code is the last line of
/// the errors.
async fn into_a_closed_pipe(stage: &Stage, words: &[&str]) -> CommandOutput {
    let script = "{ sleep 0.2; \"$@\"; echo \"code=$?\" >&2; } | true; sleep 0";
    let mut shell = Command::new("bash");
    shell.args(["-c", script, "sh"]).arg(binary()).args(words);
    shell
        .env_clear()
        .env("HOME", stage.folder.path())
        .env("PATH", std::env::var_os("PATH").unwrap_or_default());
    shell.envs([
        ("AWS_ACCESS_KEY_ID", "AKIASUNDOWN"),
        ("AWS_SECRET_ACCESS_KEY", "not-a-secret"),
        ("AWS_EC2_METADATA_DISABLED", "true"),
    ]);
    tokio::time::timeout(Duration::from_mins(2), run(stage.folder.path(), &mut shell))
        .await
        .unwrap_or_else(|_| panic!("{words:?} does not end"))
}

#[tokio::test(flavor = "multi_thread")]
async fn explain_names_the_rule_that_decides_about_a_pod_of_a_drained_and_of_another_node() {
    let (stage, _sundown, instance) = held(151).await;
    let node = stage.node_of(&instance);
    let rules = std::env::temp_dir().join(format!("sundown-explain-{}.yaml", std::process::id()));
    std::fs::write(&rules, "rules: [{match: {namespaces: [shop]}, behavior: Skip}]").unwrap();
    let plain = stage.person(&["explain", &node]).await;
    assert_eq!(plain.code, Some(0), "{}", plain.err);
    for words in ["is being drained (terminate-hook).", "blocked  pdb shop/quorum", "By default:"] {
        assert!(plain.out.contains(words), "{words:?} is not in {}", plain.out);
    }
    let flag = format!("--rules-file={}", rules.display());
    let ruled = stage.person(&["explain", &node, "-o", "json", &flag]).await;
    assert_eq!(ruled.code, Some(0), "{}", ruled.err);
    let answer: Value = serde_json::from_str(&ruled.out).unwrap();
    let pod = &answer["pods"][0];
    let expected = (&json!("stay"), &json!({ "number": 1, "line": 1 }), &json!("open"));
    assert_eq!((&pod["plan"], &pod["rule"], &answer["drain"]), expected, "{answer:#}");
    // A pod is found by its name, too.
    let name = pod["pod"].as_str().unwrap();
    let one = stage.person(&["explain", name, &flag]).await;
    assert_eq!(one.code, Some(0), "{}", one.err);
    assert!(one.out.contains(name) && one.out.contains("Rule 1 (line 1): Skip."), "{}", one.out);
    let unknown = stage.person(&["explain", "shop/none"]).await;
    assert_eq!(unknown.code, Some(1));
    assert!(unknown.err.contains("there is no pod shop/none"), "{}", unknown.err);
    std::fs::write(&rules, "rules: 5").unwrap();
    let bad = stage.person(&["explain", &node, &flag]).await;
    assert_eq!(bad.code, Some(1));
    assert!(bad.err.contains("--rules-file is") && bad.err.contains("line 1"), "{}", bad.err);
    std::fs::remove_file(&rules).unwrap();
}

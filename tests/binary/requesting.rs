//! `sundown drain`: what it writes on Nodes and reports, while nothing obeys it.

use serde_json::{Value, json};

use crate::stage::Stage;

const KEY: &str = "drain.sundown.dev/ann";

fn value(stage: &Stage, instance: &str) -> Option<String> {
    stage.node(instance)["metadata"]["annotations"][KEY].as_str().map(str::to_owned)
}

/// Changes an annotation of the Node of an instance, as the service or another person does.
fn annotate(stage: &Stage, instance: &str, key: &str, value: &Value) {
    stage.world.kube.edit("nodes", "", &stage.node_of(instance), |node| {
        node["metadata"]["annotations"][key] = value.clone();
    });
}

fn record(instance: &str, outcome: Option<&str>) -> Value {
    let released =
        outcome.map(|outcome| json!({ "at": "2026-01-01T00:10:00Z", "outcome": outcome }));
    let mut record = json!({
        "version": 1, "instance": instance, "interruptions": [{
            "kind": "spot", "time": "2026-01-01T00:00:00Z", "accepted": "2026-01-01T00:00:00Z"
        }]
    });
    if let Some(released) = released {
        record["released"] = released;
    }
    record.to_string().into()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_is_written_repeated_replaced_and_removed() {
    let stage = Stage::new(190).await;
    let instance = stage.group(2).remove(0);
    let node = stage.node_of(&instance);
    let asked = stage.person(&["drain", &node, "--name", "ann", "--reason", "new kernel"]).await;
    assert_eq!(asked.code, Some(0), "{}", asked.err);
    assert_eq!(asked.out, format!("{node}: requested as ann: stage=drain;reason=new kernel\n"));
    assert!(asked.err.contains("warning: no replica of Sundown leads"), "{}", asked.err);
    assert_eq!(value(&stage, &instance).as_deref(), Some("stage=drain;reason=new kernel"));

    let again = ["drain", &instance, "--name", "ann", "--reason", "new kernel"];
    let again = stage.person(&again).await;
    assert!(again.code == Some(0) && again.out.contains("was there already"), "{}", again.out);
    annotate(&stage, &instance, "drain.sundown.dev/bob", &json!("stage=cordon"));
    let cordon = ["drain", &instance, "--name", "ann", "--stage", "cordon", "--deadline", "2h"];
    let replaced = stage.person(&cordon).await;
    assert!(
        replaced.code == Some(0)
            && replaced.out.contains("the request ann is replaced: stage=cordon;deadline=")
            && replaced.out.contains("also requested by bob"),
        "{}",
        replaced.out
    );

    let removed = stage.person(&["drain", &node, "--name", "ann", "--cancel"]).await;
    assert!(
        removed.code == Some(0) && removed.out.contains("because of the request of bob"),
        "{}",
        removed.out
    );
    assert_eq!(value(&stage, &instance), None);
    let nothing = stage.person(&["drain", &node, "--name", "ann", "--cancel"]).await;
    assert!(nothing.code == Some(0) && nothing.out.contains("it has no request ann"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_request_is_refused_before_anything_is_written() {
    let stage = Stage::new(191).await;
    let instance = stage.group(2).remove(0);
    let before = stage.node(&instance);
    for (words, why) in [
        (&["--reason", "a;b"][..], "--reason `a;b` has a `;`"),
        (&["--deadline", "2026-01-01T00:00:00Z"], "has passed: use a later one"),
        (&["--deadline", "soon"], "neither a time nor a duration"),
        (&["--name", "a/b"], "cannot be the name of a request"),
        (&["--stage", "force"], "possible values: cordon, drain"),
        (&["--wait-timeout", "1m"], "--wait"),
        (&["-l", "a=b"], "cannot be used with"),
        (&["--cancel", "--reason", "x"], "cannot be used with"),
    ] {
        let output = stage.person(&[&["drain", &instance], words].concat()).await;
        assert_eq!(output.code, Some(2), "{words:?}: {}{}", output.out, output.err);
        assert!(output.err.contains(why), "{words:?}: {}", output.err);
    }
    let none = stage.person(&["drain"]).await;
    assert_eq!(none.code, Some(2), "{}", none.err);
    assert_eq!(stage.node(&instance)["metadata"], before["metadata"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_node_does_not_keep_others_from_being_asked_for() {
    let stage = Stage::new(192).await;
    let instance = stage.group(2).remove(0);
    let words = ["drain", "i-00000000000000000", &instance, "--name", "ann"];
    let output = stage.person(&words).await;
    assert_eq!(output.code, Some(1), "{}", output.out);
    assert!(output.err.contains("i-00000000000000000"), "{}", output.err);
    assert!(value(&stage, &instance).is_some(), "{}", output.out);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_selector_that_matches_every_node_must_be_meant() {
    let stage = Stage::new(193).await;
    let instances = stage.group(2);
    stage.world.kube.edit("nodes", "", &stage.node_of(&instances[0]), |node| {
        node["metadata"]["labels"]["pool"] = "blue".into();
    });
    let count = || instances.iter().filter(|i| value(&stage, i).is_some()).count();
    for (words, code, asked) in [
        (&["-l", "pool=red"][..], 2, 0),
        (&["-l", ""], 2, 0),
        (&["-l", "!nothing"], 2, 0),
        (&["-l", "", "--all-nodes"], 2, 0),
        (&["--all-nodes"], 2, 0),
        (&["-l", "pool=blue"], 0, 1),
        (&["-l", "!nothing", "--all-nodes", "--all-nodes"], 0, 2),
        (&["-l", "", "--cancel"], 0, 0),
        (&["--all-nodes", "--all-nodes"], 0, 2),
    ] {
        let output = stage.person(&[&["drain", "--name", "ann"], words].concat()).await;
        assert_eq!(output.code, Some(code), "{words:?}: {}{}", output.out, output.err);
        assert_eq!(count(), asked, "{words:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_wait_follows_the_record_and_its_exit_code_reports_the_end() {
    let stage = Stage::new(194).await;
    let instances = stage.group(2);
    for (instance, outcome, code, words) in [
        (&instances[0], "empty", 0, "is drained: no pod is left that has to go"),
        (&instances[1], "deadline", 1, "its deadline has passed, and pods are left on it"),
    ] {
        let node = stage.node_of(instance);
        let words_of_wait = ["drain", &node, "--name", "ann", "--wait"];
        let mut wait = stage.start_person(&format!("wait-{outcome}"), &words_of_wait);
        let shows = |words: String, wait: &crate::process::Process| wait.printed().contains(&words);
        let line = format!("{node}: waits until Sundown accepts the request");
        stage.until("it waits", || shows(line.clone(), &wait)).await;
        annotate(&stage, instance, "sundown.dev/record", &record(instance, None));
        stage.until("it is drained", || shows(format!("{node}: is being drained"), &wait)).await;
        annotate(&stage, instance, "sundown.dev/record", &record(instance, Some(outcome)));
        assert_eq!(wait.ended().await.code(), Some(code), "{}", wait.log());
        assert!(wait.printed().contains(&format!("{node}: {words}")), "{}", wait.printed());
    }
    // The end of an earlier drain is not the end of this one.
    let late = ["drain", &instances[0], "--name", "bob", "--wait", "--wait-timeout", "1s"];
    let late = stage.person(&late).await;
    assert_eq!(late.code, Some(3), "{}{}", late.out, late.err);
    assert!(late.err.contains("after --wait-timeout; the request bob stays"), "{}", late.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_wait_and_a_refusal_are_reported_and_the_request_stays() {
    let stage = Stage::new(195).await;
    let instance = stage.group(2).remove(0);
    let node = stage.node_of(&instance);
    let words = ["drain", &node, "--name", "ann", "--wait"];
    let mut wait = stage.start_person("interrupted", &words);
    stage.until("it waits", || wait.printed().contains("waits until Sundown accepts")).await;
    wait.signal("INT");
    assert_eq!(wait.ended().await.code(), Some(130), "{}", wait.log());
    assert!(
        wait.log().contains("interrupted; the request ann stays on the node"),
        "{}",
        wait.log()
    );
    assert_eq!(value(&stage, &instance).as_deref(), Some("stage=drain"));

    stage.world.kube.put(json!({
        "apiVersion": "v1", "kind": "Event",
        "metadata": { "name": "refused", "namespace": "default" },
        "involvedObject": { "kind": "Node", "name": node },
        "reason": "RequestRefused", "type": "Warning", "reportingComponent": "sundown",
        "message": "The request drain.sundown.dev/ann does not drain the node: why.",
        "firstTimestamp": "2099-01-01T00:00:00Z", "lastTimestamp": "2099-01-01T00:00:00Z"
    }));
    let refused = stage.person(&words).await;
    assert_eq!(refused.code, Some(1), "{}{}", refused.out, refused.err);
    assert!(
        refused.out.contains("the request is refused: The request drain.sundown.dev/ann"),
        "{}",
        refused.out
    );
}

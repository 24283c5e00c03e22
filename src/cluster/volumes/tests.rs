use serde_json::{Value, json};

use super::*;
use crate::cluster::fake::{ATTACHMENTS, Fake, Fault, PODS, status};

const CLAIMS: &str = "/api/v1/namespaces/shop/persistentvolumeclaims";

fn attach(fake: &Fake, node: &str, volume: &str) {
    fake.put(
        ATTACHMENTS,
        json!({
            "metadata": { "name": format!("csi-{volume}-{node}"), "uid": volume },
            "spec": {
                "attacher": "ebs.csi.aws.com", "nodeName": node,
                "source": { "persistentVolumeName": volume }
            },
            "status": { "attached": true }
        }),
    );
}

fn put_pod(fake: &Fake, name: &str, node: &str, volumes: &Value) {
    fake.put(
        PODS,
        json!({
            "metadata": { "namespace": "shop", "name": name, "uid": format!("uid-{name}") },
            "spec": { "nodeName": node, "volumes": volumes }
        }),
    );
}

fn claim(fake: &Fake, name: &str, volume: &str) {
    fake.put(CLAIMS, json!({ "metadata": { "name": name }, "spec": { "volumeName": volume } }));
}

fn question(nodes: &[(&str, &[&str])]) -> BTreeMap<NodeName, BTreeSet<PodUid>> {
    let of_node = |(name, staying): &(&str, &[&str])| {
        ((*name).into(), staying.iter().map(|uid| (*uid).into()).collect())
    };
    nodes.iter().map(of_node).collect()
}

fn seen(all: &BTreeMap<NodeName, VolumesSeen>, node: &str) -> String {
    match &all[&node.into()] {
        VolumesSeen::Attached(attached) if attached.count == 0 => "none".to_owned(),
        VolumesSeen::Attached(attached) => attached.to_string(),
        VolumesSeen::Denied(_) => "denied".to_owned(),
        VolumesSeen::Unanswered(_) => "unanswered".to_owned(),
    }
}

#[tokio::test(start_paused = true)]
async fn one_list_in_pages_answers_for_all_nodes_and_other_nodes_are_left_out() {
    let fake = Fake::default();
    for n in 0..600 {
        attach(&fake, "other", &format!("pv-{n}"));
    }
    for volume in ["pv-b", "pv-a"] {
        attach(&fake, "a", volume);
    }
    let inline = json!({
        "metadata": { "name": "csi-inline", "uid": "inline" },
        "spec": { "attacher": "x", "nodeName": "b", "source": { "inlineVolumeSpec": {} } }
    });
    fake.put(ATTACHMENTS, inline);
    let all =
        attached_volumes(&fake.cluster(), &question(&[("a", &[]), ("b", &[]), ("c", &["uid-x"])]))
            .await;
    assert_eq!(seen(&all, "a"), "2 volumes (pv-a, pv-b)");
    assert_eq!(seen(&all, "b"), "1 volume (csi-inline)");
    assert_eq!(seen(&all, "c"), "none");
    let requests = fake.seen();
    assert!(requests.iter().all(|request| request.path == ATTACHMENTS), "{requests:?}");
    assert_eq!(requests.len(), 2, "pages of 500");
}

#[tokio::test(start_paused = true)]
async fn the_volumes_of_pods_that_stay_are_left_out() {
    let fake = Fake::default();
    for volume in ["pv-drained", "pv-stays", "pv-scratch", "pv-other"] {
        attach(&fake, "a", volume);
    }
    let volumes = json!([
        { "name": "config", "configMap": { "name": "c" } },
        { "name": "data", "persistentVolumeClaim": { "claimName": "data-agent" } },
        { "name": "scratch", "ephemeral": { "volumeClaimTemplate": {} } },
        { "name": "unbound", "persistentVolumeClaim": { "claimName": "unbound" } },
        { "name": "missing", "persistentVolumeClaim": { "claimName": "missing" } }
    ]);
    put_pod(&fake, "agent", "a", &volumes);
    // It has finished, so Kubernetes detaches its volume.
    let done = json!([{ "name": "data", "persistentVolumeClaim": { "claimName": "data-done" } }]);
    put_pod(&fake, "done", "a", &done);
    claim(&fake, "data-agent", "pv-stays");
    claim(&fake, "agent-scratch", "pv-scratch");
    claim(&fake, "data-done", "pv-other");
    claim(&fake, "unbound", "");
    let all = attached_volumes(&fake.cluster(), &question(&[("a", &["uid-agent"])])).await;
    assert_eq!(seen(&all, "a"), "2 volumes (pv-drained, pv-other)");
}

#[tokio::test(start_paused = true)]
async fn a_missing_right_is_told_from_a_failure() {
    let denied = |what: &str| {
        let message =
            format!("{what} is forbidden: User \"sundown\" cannot list resource \"{what}\"");
        Fault::Answer(403, None, status(403, "Forbidden", &message).to_string())
    };
    for (path, fault, expected) in [
        (ATTACHMENTS, denied("volumeattachments"), "denied"),
        (CLAIMS, denied("persistentvolumeclaims"), "denied"),
        (ATTACHMENTS, Fault::Answer(500, None, String::new()), "unanswered"),
        (ATTACHMENTS, Fault::Hang, "unanswered"),
        (CLAIMS, Fault::Broken, "unanswered"),
    ] {
        let fake = Fake::default();
        attach(&fake, "a", "pv");
        let data = json!([{ "name": "data", "persistentVolumeClaim": { "claimName": "data" } }]);
        put_pod(&fake, "agent", "a", &data);
        let case = format!("{path} {fault:?}");
        fake.script(move |request| request.path.starts_with(path).then(|| fault.clone()));
        let all = attached_volumes(&fake.cluster(), &question(&[("a", &["uid-agent"])])).await;
        assert_eq!(seen(&all, "a"), expected, "{case}");
    }
}

/// A node with a volume of a drained pod, one of a pod that stays, and that pod.
fn node_with_agent(fake: &Fake, node: &str) {
    attach(fake, node, &format!("pv-{node}"));
    attach(fake, node, &format!("pv-agent-{node}"));
    let claim_name = format!("data-{node}");
    let data = json!([{ "name": "data", "persistentVolumeClaim": { "claimName": claim_name } }]);
    put_pod(fake, &format!("agent-{node}"), node, &data);
    claim(fake, &claim_name, &format!("pv-agent-{node}"));
}

#[tokio::test(start_paused = true)]
async fn a_node_whose_pods_are_not_read_in_time_costs_no_other_node_its_answer() {
    let fake = Fake::default();
    for node in ["a", "b"] {
        node_with_agent(&fake, node);
    }
    fake.script(|request| {
        let fields = request.query.get("fieldSelector");
        fields.is_some_and(|of| of == "spec.nodeName=a").then_some(Fault::Hang)
    });
    let begun = tokio::time::Instant::now();
    let nodes: [(&str, &[&str]); 2] = [("a", &["uid-agent-a"]), ("b", &["uid-agent-b"])];
    let all = attached_volumes(&fake.cluster(), &question(&nodes)).await;
    assert_eq!(seen(&all, "a"), "unanswered");
    assert_eq!(seen(&all, "b"), "1 volume (pv-b)");
    assert_eq!(begun.elapsed().as_secs(), 5);
}

#[tokio::test(start_paused = true)]
async fn many_slow_nodes_cost_ten_seconds_and_no_answer_that_needs_no_look_at_pods() {
    let fake = Fake::default();
    let names: Vec<String> = (0..40).map(|n| format!("n{n:02}")).collect();
    for node in &names {
        node_with_agent(&fake, node);
    }
    attach(&fake, "z", "pv-z");
    fake.script(|request| (request.path == PODS).then_some(Fault::Hang));
    let begun = tokio::time::Instant::now();
    let staying = BTreeSet::from([PodUid::from("uid-agent")]);
    let mut nodes: BTreeMap<NodeName, BTreeSet<PodUid>> =
        names.iter().map(|name| (NodeName::from(name.as_str()), staying.clone())).collect();
    nodes.insert("z".into(), BTreeSet::new());
    let all = attached_volumes(&fake.cluster(), &nodes).await;
    assert_eq!(all.len(), 41);
    assert_eq!(seen(&all, "z"), "1 volume (pv-z)");
    assert!(names.iter().all(|name| seen(&all, name) == "unanswered"));
    assert_eq!(begun.elapsed().as_secs(), 10);
}

#[tokio::test(start_paused = true)]
async fn a_list_of_several_slow_pages_has_fifteen_seconds() {
    let fake = Fake::default();
    for n in 0..600 {
        attach(&fake, "other", &format!("pv-{n}"));
    }
    fake.script(|_| Some(Fault::Slow(std::time::Duration::from_secs(8))));
    let begun = tokio::time::Instant::now();
    let all = attached_volumes(&fake.cluster(), &question(&[("a", &[])])).await;
    assert_eq!(seen(&all, "a"), "unanswered");
    assert_eq!(begun.elapsed().as_secs(), 15);
}

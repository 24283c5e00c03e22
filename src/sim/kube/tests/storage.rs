use k8s_openapi::api::{coordination::v1::Lease, core::v1::ConfigMap, events::v1::Event};
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;

use super::*;

#[tokio::test(start_paused = true)]
async fn a_list_in_pages_is_consistent_and_expires() {
    let kube = with_nodes(7);
    let api = nodes(&kube);
    let first = api.list(&ListParams::default().limit(3)).await.unwrap();
    assert_eq!((first.items.len(), first.metadata.remaining_item_count), (3, Some(4)));
    kube.delete_node("n5");
    kube.add_node(&NodeSpec::named("n55"));
    let token = first.metadata.continue_.clone().unwrap();
    let second = api.list(&ListParams::default().limit(3).continue_token(&token)).await.unwrap();
    let names: Vec<_> = second.items.iter().filter_map(|n| n.metadata.name.as_deref()).collect();
    assert_eq!(names, ["n3", "n4", "n5"]);
    assert_eq!(second.metadata.resource_version, first.metadata.resource_version);
    let third = api
        .list(&ListParams::default().limit(3).continue_token(&second.metadata.continue_.unwrap()))
        .await
        .unwrap();
    assert_eq!((third.items.len(), third.metadata.continue_), (1, None));
    pass(400).await;
    let late =
        status(api.list(&ListParams::default().limit(3).continue_token(&token)).await.unwrap_err());
    assert_eq!((late.code, late.reason.as_str()), (410, "Expired"));
}

#[tokio::test(start_paused = true)]
async fn lists_select_by_labels_and_fields() {
    let kube = with_nodes(2);
    for (name, node, app) in [("a", "n0", "x"), ("b", "n1", "x"), ("c", "n1", "y")] {
        kube.add_pod(&PodSpec::on(node, "shop", name).label("app", app));
    }
    kube.add_pod(&PodSpec::on("n1", "other", "d"));
    let names = |params: ListParams| {
        let api: Api<Pod> = Api::all(kube.client());
        async move {
            api.list(&params)
                .await
                .unwrap()
                .items
                .into_iter()
                .filter_map(|p| p.metadata.name)
                .collect::<Vec<_>>()
        }
    };
    assert_eq!(names(ListParams::default().fields("spec.nodeName=n1")).await, ["d", "b", "c"]);
    assert_eq!(
        names(ListParams::default().fields("spec.nodeName=n1,status.phase!=Running")).await,
        [""; 0]
    );
    assert_eq!(
        names(ListParams::default().labels("app in (x)").fields("spec.nodeName=n1")).await,
        ["b"]
    );
    assert_eq!(
        names(ListParams::default().fields("metadata.namespace=shop,metadata.name=c")).await,
        ["c"]
    );
    let refused = status(
        nodes(&kube).list(&ListParams::default().fields("spec.nodeName=n1")).await.unwrap_err(),
    );
    assert_eq!(
        (refused.code, refused.message.as_str()),
        (400, "field label not supported: spec.nodeName")
    );
}

#[tokio::test(start_paused = true)]
async fn a_write_with_a_stale_resource_version_conflicts() {
    let kube = with_nodes(1);
    let api = nodes(&kube);
    let node = api.get("n0").await.unwrap();
    let old = node.metadata.resource_version.clone().unwrap();
    let cordon =
        json!({ "metadata": { "resourceVersion": old }, "spec": { "unschedulable": true } });
    let new = api.patch("n0", &PatchParams::default(), &Patch::Merge(&cordon)).await.unwrap();
    assert!(
        new.metadata.resource_version.unwrap().parse::<u64>().unwrap()
            > old.parse::<u64>().unwrap()
    );
    let again =
        json!({ "metadata": { "resourceVersion": old }, "spec": { "unschedulable": false } });
    let refused =
        status(api.patch("n0", &PatchParams::default(), &Patch::Merge(&again)).await.unwrap_err());
    assert!(refused.is_conflict(), "{refused:?}");
    assert!(refused.message.ends_with(
        "the object has been modified; please apply your changes to the latest version and try \
         again"
    ));
    let refused = status(api.replace("n0", &PostParams::default(), &node).await.unwrap_err());
    assert!(refused.is_conflict());
}

#[tokio::test(start_paused = true)]
async fn patches_of_every_kind() {
    let kube = with_nodes(1);
    let api = nodes(&kube);
    let params = PatchParams::default();
    let node = api
        .patch(
            "n0",
            &params,
            &Patch::Merge(json!({ "metadata": { "annotations": { "a": "1", "b": "2" } } })),
        )
        .await
        .unwrap();
    assert_eq!(node.metadata.annotations.unwrap().len(), 2);
    let taint = |key: &str| json!({ "key": key, "effect": "NoSchedule" });
    let node = api
        .patch("n0", &params, &Patch::Strategic(json!({ "spec": { "taints": [taint("a")] } })))
        .await
        .unwrap();
    assert_eq!(node.spec.unwrap().taints.unwrap().len(), 1);
    let ops: json_patch::Patch = serde_json::from_value(
        json!([{ "op": "add", "path": "/spec/taints/-", "value": taint("b") }]),
    )
    .unwrap();
    let node = api.patch("n0", &params, &Patch::Json::<()>(ops)).await.unwrap();
    assert_eq!(node.spec.unwrap().taints.unwrap().len(), 2);
    let twice = json!({ "spec": { "taints": [taint("a"), taint("a")] } });
    assert_eq!(status(api.patch("n0", &params, &Patch::Merge(twice)).await.unwrap_err()).code, 422);
    let long = json!({ "metadata": { "labels": { "a": "x".repeat(64) } } });
    assert_eq!(status(api.patch("n0", &params, &Patch::Merge(long)).await.unwrap_err()).code, 422);
    let missing = status(api.patch("gone", &params, &Patch::Merge(json!({}))).await.unwrap_err());
    assert_eq!((missing.code, missing.message.as_str()), (404, "nodes \"gone\" not found"));
}

#[tokio::test(start_paused = true)]
async fn a_patch_that_changes_nothing_writes_nothing() {
    let kube = with_nodes(1);
    settle().await;
    let before = kube.revision();
    let patch = json!({ "metadata": { "labels": { "kubernetes.io/os": "linux" } } });
    nodes(&kube).patch("n0", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    assert_eq!(kube.revision(), before);
}

#[tokio::test(start_paused = true)]
async fn a_status_patch_leaves_the_spec_alone_and_the_other_way_round() {
    let kube = with_nodes(1);
    let api = nodes(&kube);
    let both = json!({
        "spec": { "unschedulable": true },
        "status": { "conditions": [{ "type": "New", "status": "True" }] }
    });
    let node =
        api.patch_status("n0", &PatchParams::default(), &Patch::Strategic(&both)).await.unwrap();
    assert_eq!(node.spec.unwrap().unschedulable, None);
    let conditions = node.status.unwrap().conditions.unwrap().len();
    let node = api.patch("n0", &PatchParams::default(), &Patch::Merge(&both)).await.unwrap();
    assert_eq!(node.spec.unwrap().unschedulable, Some(true));
    assert_eq!(node.status.unwrap().conditions.unwrap().len(), conditions);
}

#[tokio::test(start_paused = true)]
async fn a_kubelet_that_runs_has_renewed_the_lease_of_its_node_and_a_silent_one_has_not() {
    let kube = with_nodes(1);
    let api: Api<Lease> = Api::namespaced(kube.client(), "kube-node-lease");
    let renewed = || async {
        let lease = api.get("n0").await.unwrap();
        lease.spec.unwrap().renew_time.unwrap().0.as_second()
    };
    let first = renewed().await;
    pass(60).await;
    assert_eq!(renewed().await, first + 60);
    kube.kubelet_lost("n0");
    pass(60).await;
    assert_eq!(renewed().await, first + 60);
    kube.kubelet_back("n0");
    assert_eq!(renewed().await, first + 120);
    assert!(api.get_opt("n1").await.unwrap().is_none(), "no such node");
}

#[tokio::test(start_paused = true)]
async fn leases_are_created_once_and_replaced_by_version() {
    let kube = cluster();
    let api: Api<Lease> = Api::namespaced(kube.client(), "default");
    let lease: Lease = serde_json::from_value(json!({ "metadata": { "name": "l" },
        "spec": {
            "holderIdentity": "a", "leaseDurationSeconds": 15,
            "renewTime": "2026-03-01T12:00:00.000000Z"
        } }))
    .unwrap();
    let mut made = api.create(&PostParams::default(), &lease).await.unwrap();
    let refused = status(api.create(&PostParams::default(), &lease).await.unwrap_err());
    assert_eq!((refused.code, refused.reason.as_str()), (409, "AlreadyExists"));
    assert_eq!(refused.message, "leases.coordination.k8s.io \"l\" already exists");
    made.spec.as_mut().unwrap().holder_identity = Some("b".into());
    let old = made.clone();
    let new = api.replace("l", &PostParams::default(), &made).await.unwrap();
    assert_eq!(new.spec.unwrap().holder_identity.as_deref(), Some("b"));
    assert!(
        status(api.replace("l", &PostParams::default(), &old).await.unwrap_err()).is_conflict()
    );
}

#[tokio::test(start_paused = true)]
async fn nothing_is_created_in_a_namespace_that_is_missing_or_terminating() {
    let kube = cluster();
    let map: ConfigMap = serde_json::from_value(json!({ "metadata": { "name": "m" } })).unwrap();
    let api: Api<ConfigMap> = Api::namespaced(kube.client(), "shop");
    let missing = status(api.create(&PostParams::default(), &map).await.unwrap_err());
    assert_eq!((missing.code, missing.message.as_str()), (404, "namespaces \"shop\" not found"));
    kube.add_namespace("shop");
    api.create(&PostParams::default(), &map).await.unwrap();
    kube.terminate_namespace("shop", false);
    let other: ConfigMap = serde_json::from_value(json!({ "metadata": { "name": "o" } })).unwrap();
    let going = status(api.create(&PostParams::default(), &other).await.unwrap_err());
    assert_eq!(
        (going.code, going.details.unwrap().causes[0].reason.as_str()),
        (403, "NamespaceTerminating")
    );
    pass(60).await;
    assert!(kube.object("namespaces", "", "shop").is_some());
    kube.terminate_namespace("shop", true);
    pass(5).await;
    assert!(kube.object("namespaces", "", "shop").is_none());
    assert!(kube.object("configmaps", "shop", "m").is_none());
}

#[tokio::test(start_paused = true)]
async fn an_event_is_one_object_in_both_groups() {
    let kube = cluster();
    let api: Api<Event> = Api::namespaced(kube.client(), "default");
    let event: Event = serde_json::from_value(json!({
        "metadata": { "name": "e" }, "eventTime": "2026-03-01T12:00:00.000000Z", "note": "hello",
        "reason": "Drained", "type": "Normal", "regarding": {
            "kind": "Node", "name": "n0"
        }, "reportingController": "sundown" }))
    .unwrap();
    api.create(&PostParams::default(), &event).await.unwrap();
    let old: Api<k8s_openapi::api::core::v1::Event> = Api::all(kube.client());
    let found = old
        .list(&ListParams::default().fields("involvedObject.name=n0,involvedObject.kind=Node"))
        .await
        .unwrap();
    assert_eq!(found.items[0].message.as_deref(), Some("hello"));
    let patched = api
        .patch("e", &PatchParams::default(), &Patch::Merge(json!({ "note": "again" })))
        .await
        .unwrap();
    assert_eq!(patched.note.as_deref(), Some("again"));
    assert_eq!(kube.object("events", "default", "e").unwrap()["message"], "again");
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_changes_nothing() {
    let kube = with_nodes(1);
    settle().await;
    let before = kube.revision();
    let params = PatchParams { dry_run: true, ..PatchParams::default() };
    let node = nodes(&kube)
        .patch("n0", &params, &Patch::Merge(json!({ "spec": { "unschedulable": true } })))
        .await
        .unwrap();
    assert_eq!(node.spec.unwrap().unschedulable, Some(true));
    nodes(&kube)
        .delete("n0", &DeleteParams { dry_run: true, ..DeleteParams::default() })
        .await
        .unwrap();
    assert_eq!(kube.revision(), before);
}

#[tokio::test(start_paused = true)]
async fn custom_resources_are_served() {
    let kube = cluster();
    kube.serve_custom_resource("sundown.dev", "v1", "NodeDrain", "nodedrains", false);
    let api: Api<kube::core::DynamicObject> = Api::all_with(
        kube.client(),
        &kube::core::ApiResource {
            group: "sundown.dev".into(),
            version: "v1".into(),
            api_version: "sundown.dev/v1".into(),
            kind: "NodeDrain".into(),
            plural: "nodedrains".into(),
        },
    );
    let object = serde_json::from_value(json!({
        "apiVersion": "sundown.dev/v1", "kind": "NodeDrain", "metadata": { "name": "d" },
        "spec": { "node": "n0" }
    }))
    .unwrap();
    api.create(&PostParams::default(), &object).await.unwrap();
    let patched = api
        .patch_status(
            "d",
            &PatchParams::default(),
            &Patch::Merge(json!({ "status": { "phase": "Draining" } })),
        )
        .await
        .unwrap();
    assert_eq!(patched.data["status"]["phase"], "Draining");
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_not_replaced_without_its_version() {
    let kube = cluster();
    let api: Api<Lease> = Api::namespaced(kube.client(), "default");
    let lease: Lease =
        serde_json::from_value(json!({ "metadata": { "name": "l" }, "spec": {} })).unwrap();
    api.create(&PostParams::default(), &lease).await.unwrap();
    let refused = status(api.replace("l", &PostParams::default(), &lease).await.unwrap_err());
    assert_eq!((refused.code, refused.reason.as_str()), (422, "Invalid"));
    assert!(refused.message.contains("must be specified for an update"), "{}", refused.message);
}

#[tokio::test(start_paused = true)]
async fn a_list_of_exactly_an_older_version_is_not_answered_with_the_newest() {
    let kube = with_nodes(1);
    let old = kube.revision();
    kube.edit("nodes", "", "n0", |n| n["metadata"]["labels"]["a"] = "b".into());
    let older = ListParams::default().at(&old.to_string()).matching(kube::api::VersionMatch::Exact);
    assert_eq!(status(nodes(&kube).list(&older).await.unwrap_err()).code, 410);
    let newest = ListParams::default()
        .at(&kube.revision().to_string())
        .matching(kube::api::VersionMatch::Exact);
    assert_eq!(nodes(&kube).list(&newest).await.unwrap().items.len(), 1);
}

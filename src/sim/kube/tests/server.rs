use http_body_util::BodyExt;
use tower::ServiceExt;

use super::{super::json::Look, *};
use crate::sim::http::loopback;

async fn get(kube: &EmbeddedKube, path: &str, accept: &str) -> (u16, serde_json::Value) {
    let request = http::Request::get(path)
        .header("accept", accept)
        .body(http_body_util::Empty::<bytes::Bytes>::new())
        .unwrap();
    let response = kube.service(None).oneshot(request).await.unwrap();
    assert_eq!(response.headers()["date"], "Sun, 01 Mar 2026 12:00:00 GMT");
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (code, serde_json::from_slice(&bytes).unwrap_or_default())
}

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";

#[tokio::test(start_paused = true)]
async fn discovery_names_what_is_served() {
    let kube = cluster();
    let (_, groups) = get(&kube, "/apis", "").await;
    assert!(groups.items("groups").iter().any(|g| g.text("name") == "policy"));
    let (_, core) = get(&kube, "/api/v1", "").await;
    let names: Vec<_> = core.items("resources").iter().map(|r| r.text("name").to_owned()).collect();
    assert!(
        ["nodes", "nodes/status", "pods", "pods/eviction"]
            .iter()
            .all(|n| names.iter().any(|m| m == n)),
        "{names:?}"
    );
    assert_eq!(get(&kube, "/readyz", "").await.0, 200);
    let (code, missing) = get(&kube, "/apis/apps/v1/things", "").await;
    assert_eq!(
        (code, missing.text("message")),
        (404, "the server could not find the requested resource")
    );
    assert_eq!(get(&kube, "/apis/none/v1/things", "").await.0, 404);
}

#[tokio::test(start_paused = true)]
async fn tables_for_kubectl() {
    let kube = with_nodes(1);
    kube.add_pod(&PodSpec::on("n0", "shop", "p"));
    kube.add_budget(&BudgetSpec::for_app("shop", "web").min("50%"));
    for (path, first) in [
        ("/api/v1/nodes", vec!["n0", "Ready", "<none>", "0s", "v1.33.0"]),
        ("/api/v1/pods", vec!["p", "1/1", "Running", "0", "0s", "n0"]),
        ("/apis/policy/v1/poddisruptionbudgets", vec!["web", "50%", "N/A", "0", "0s"]),
        ("/api/v1/namespaces/shop", vec!["shop", "Active", "0s"]),
    ] {
        let (_, table) = get(&kube, path, TABLE).await;
        assert_eq!(table.text("kind"), "Table", "{path}");
        let rows = table.items("rows");
        let cells: Vec<_> = rows[0]
            .items("cells")
            .iter()
            .map(|c| c.as_str().map_or_else(|| c.to_string(), str::to_owned))
            .collect();
        assert_eq!(cells, first);
        assert_eq!(table.items("columnDefinitions").len(), first.len());
        assert_eq!(rows[0].at("object").text("kind"), "PartialObjectMetadata", "{path}");
    }
    // `kubectl get --sort-by` looks into the objects.
    let (_, table) = get(&kube, "/api/v1/pods?includeObject=Object", TABLE).await;
    assert_eq!(table.items("rows")[0].at("object").at("spec").text("nodeName"), "n0");
}

#[tokio::test]
async fn the_client_reaches_it_over_loopback() {
    let clock = Clock::starting_at("2026-03-01T12:00:00Z".parse().unwrap());
    let spawner = Spawner::new();
    let kube = EmbeddedKube::start(Options::default(), clock, 1, &spawner);
    kube.add_node(&NodeSpec::named("n0"));
    let server = kube.serve(loopback().await.unwrap(), &spawner).unwrap();
    let config =
        kube::config::Kubeconfig::from_yaml(&EmbeddedKube::kubeconfig(server.address())).unwrap();
    let config =
        kube::Config::from_custom_kubeconfig(config, &kube::config::KubeConfigOptions::default())
            .await
            .unwrap();
    let api: Api<Node> = Api::all(Client::try_from(config).unwrap());
    assert_eq!(api.list(&ListParams::default()).await.unwrap().items.len(), 1);
    drop(server);
    kube.stop();
    drop(api);
    assert!(spawner.finished(Duration::from_secs(5)).await);
}

#![allow(clippy::indexing_slicing, reason = "a test may panic")]

use super::*;
use crate::cluster::fake::{Counter, Fake, Fault};

fn get() -> Request<Vec<u8>> {
    Request::get("/api/v1/nodes/a").body(Vec::new()).unwrap()
}

/// Sends one request of each of these kinds, which are never answered.
fn hanging(
    cluster: &Cluster,
    targets: &[Target],
) -> Vec<tokio::task::JoinHandle<Result<Bytes, ClusterError>>> {
    let send = |target| {
        let cluster = cluster.clone();
        tokio::spawn(async move { cluster.call(target, Priority::Ordinary, "a", get()).await })
    };
    targets.iter().map(|target| send(*target)).collect()
}

#[tokio::test(start_paused = true)]
async fn the_number_of_requests_under_way_is_limited() {
    let fake = Fake::default();
    let counter = Arc::new(Counter::default());
    let cluster = fake.cluster_with(
        counter.clone(),
        WriteGuard::open(),
        Settings { in_flight: 4, pod_writes: 2, ..Settings::default() },
    );
    fake.script(|s| (s.method == Method::GET).then_some(Fault::Hang));
    let many = hanging(
        &cluster,
        &[[Target::GetNode; 3], [Target::GetDaemonSet; 3], [Target::Evict; 3]].concat(),
    );
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(fake.seen().len(), 6, "four, and two evictions");
    for one in many {
        assert_eq!(one.await.unwrap().unwrap_err().problem, Problem::Unreachable);
    }
    assert_eq!(
        counter.0.lock().unwrap().len(),
        9,
        "each request is counted once, those that got no slot too"
    );
}

#[tokio::test(start_paused = true)]
async fn unanswered_requests_of_one_kind_leave_room_for_others() {
    let fake = Fake::default();
    let cluster = fake.cluster_with(
        Arc::new(()),
        WriteGuard::open(),
        Settings { in_flight: 8, ..Settings::default() },
    );
    fake.script(|s| (s.method == Method::GET).then_some(Fault::Hang));
    let patches = hanging(&cluster, &[Target::PatchNode; 20]);
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(fake.seen().len(), 6);
    let others = hanging(&cluster, &[Target::GetNode, Target::ListPods, Target::Evict]);
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(fake.seen().len(), 9);
    patches.into_iter().chain(others).for_each(|task| task.abort());
}

#[tokio::test(start_paused = true)]
async fn a_request_of_low_priority_waits_until_half_of_the_slots_are_free() {
    let fake = Fake::default();
    let cluster = fake.cluster_with(
        Arc::new(()),
        WriteGuard::open(),
        Settings { in_flight: 4, ..Settings::default() },
    );
    fake.script(|s| (s.path.ends_with("/a")).then_some(Fault::Slow(Duration::from_secs(5))));
    for _ in 0..3 {
        let cluster = cluster.clone();
        tokio::spawn(
            async move { cluster.call(Target::GetNode, Priority::Ordinary, "a", get()).await },
        );
    }
    tokio::time::sleep(Duration::from_millis(1)).await;
    let begun = Instant::now();
    let event = Request::post("/api/v1/namespaces/default/events").body(Vec::new()).unwrap();
    cluster.call(Target::Event, Priority::Low, "a", event).await.unwrap();
    assert!(begun.elapsed() > Duration::from_secs(4), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn the_wait_for_a_slot_can_have_a_shorter_limit_than_the_request() {
    let fake = Fake::default();
    let cluster = fake.cluster_with(
        Arc::new(()),
        WriteGuard::open(),
        Settings { in_flight: 4, ..Settings::default() },
    );
    fake.script(|_| Some(Fault::Slow(Duration::from_secs(1))));
    let (slot_limit, limit) = (Duration::from_millis(250), Duration::from_secs(2));
    let low = || {
        let (target, priority) = (Target::GetNode, Priority::Low);
        cluster.call_with_slot_within(slot_limit, limit, target, priority, "a", get())
    };
    let begun = Instant::now();
    assert_eq!(low().await.unwrap_err().problem, Problem::NotFound);
    assert_eq!(begun.elapsed().as_secs(), 1, "the request itself has longer");
    for _ in 0..3 {
        let cluster = cluster.clone();
        tokio::spawn(
            async move { cluster.call(Target::GetNode, Priority::Ordinary, "a", get()).await },
        );
    }
    tokio::time::sleep(Duration::from_millis(1)).await;
    let begun = Instant::now();
    assert_eq!(low().await.unwrap_err().problem, Problem::Unreachable);
    assert!(begun.elapsed() < Duration::from_millis(300), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn the_error_names_a_kubeconfig_that_does_not_exist() {
    let options = ConnectOptions {
        kubeconfig: Some("/nowhere/config".into()),
        context: Some("blue".to_owned()),
    };
    let Err(error) = connect(&options).await else { panic!("there is no such file") };
    assert_eq!(error.to_string(), "cannot use the kubeconfig /nowhere/config with context blue");
}

/// Answers every connection with a 429 in plain text, as an API server that sheds load does; keeps
/// the requests in `asked`.
async fn shedding(listener: tokio::net::TcpListener, asked: Arc<std::sync::Mutex<Vec<String>>>) {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    while let Ok((mut socket, _)) = listener.accept().await {
        let mut buffer = [0; 4096];
        let read = socket.read(&mut buffer).await.unwrap();
        asked.lock().unwrap().push(String::from_utf8_lossy(&buffer[..read]).into_owned());
        let answer = "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 1\r\nContent-Type: \
            text/plain\r\nContent-Length: 4\r\nConnection: close\r\n\r\nslow";
        socket.write_all(answer.as_bytes()).await.unwrap();
    }
}

#[tokio::test]
async fn a_client_from_a_kubeconfig_sends_its_credentials_and_never_repeats_a_request() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let asked = Arc::new(std::sync::Mutex::new(Vec::new()));
    tokio::spawn(shedding(listener, asked.clone()));
    let path = std::env::temp_dir().join(format!("sundown-kubeconfig-{port}"));
    let config = serde_json::json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "x",
        "clusters": [{
            "name": "x", "cluster": {"server": format!("http://127.0.0.1:{port}/behind")}
        }],
        "users": [{"name": "x", "user": {"token": "t"}}],
        "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
    });
    std::fs::write(&path, config.to_string()).unwrap();
    let client = connect(&ConnectOptions { kubeconfig: Some(path.clone()), context: None }).await;
    std::fs::remove_file(&path).unwrap();
    let cluster =
        Cluster::plain(client.unwrap(), Clock::system(), Random::seeded(1), Spawner::new());
    let error = cluster.call(Target::GetNode, Priority::Ordinary, "a", get()).await.unwrap_err();
    assert_eq!(error.problem, Problem::Overload { retry_after: Some(Duration::from_secs(1)) });
    assert_eq!(error.to_string(), "cannot get node a: the API server answered 429: slow");
    let asked = asked.lock().unwrap();
    assert_eq!(asked.len(), 1);
    let request = asked[0].to_lowercase();
    assert!(request.starts_with("get /behind/api/v1/nodes/a "), "{request}");
    assert!(
        request.contains(concat!("user-agent: sundown/", env!("CARGO_PKG_VERSION")))
            && request.contains("authorization: bearer t"),
        "{request}"
    );
}

use futures::StreamExt;
use kube::api::{Patch, PatchParams, WatchParams};
use serde_json::json;

use super::{
    super::{Away, Fault, Match, Rule},
    *,
};
use crate::sim::{Side, Tripwire};

async fn cordon(kube: &EmbeddedKube) -> Result<Node, kube::Error> {
    nodes(kube)
        .patch(
            "n0",
            &PatchParams::default(),
            &Patch::Merge(json!({ "spec": { "unschedulable": true } })),
        )
        .await
}

fn is_cordoned(kube: &EmbeddedKube) -> bool {
    kube.object("nodes", "", "n0").unwrap()["spec"]["unschedulable"] == true
}

#[tokio::test(start_paused = true)]
async fn a_fault_hits_as_many_requests_as_configured() {
    let kube = with_nodes(1);
    let fault = Fault::Status {
        code: 500,
        reason: "InternalError".into(),
        message: "etcdserver: request timed out".into(),
        retry_after: None,
    };
    let mut rule = Rule::next(1, Match::of("patch", "nodes"), fault);
    rule.after = 1;
    kube.inject(rule);
    cordon(&kube).await.unwrap();
    assert_eq!(status(cordon(&kube).await.unwrap_err()).code, 500);
    cordon(&kube).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_lost_after_its_effect_and_a_refused_request_has_none() {
    let kube = with_nodes(1);
    kube.inject(Rule::next(1, Match::of("patch", "nodes"), Fault::Refused));
    kube.inject(Rule::next(1, Match::of("patch", "nodes"), Fault::AnswerLost));
    assert!(!matches!(cordon(&kube).await, Ok(_) | Err(kube::Error::Api(_))));
    assert!(!is_cordoned(&kube));
    let rule = kube.inject(Rule::next(1, Match::of("patch", "nodes"), Fault::AnswerLost));
    assert!(!matches!(cordon(&kube).await, Ok(_) | Err(kube::Error::Api(_))));
    assert!(is_cordoned(&kube));
    kube.lift(rule);
    assert_eq!(kube.requests().iter().map(|r| r.status).collect::<Vec<_>>(), [0, 0]);
}

#[tokio::test(start_paused = true)]
async fn hanging_requests_never_answer_and_slow_ones_late() {
    let kube = with_nodes(1);
    kube.inject(Rule::next(1, Match::of("patch", "nodes"), Fault::HangAfterEffect));
    assert!(tokio::time::timeout(Duration::from_mins(10), cordon(&kube)).await.is_err());
    assert!(is_cordoned(&kube));
    kube.inject(Rule::next(1, Match::of("get", "nodes"), Fault::Slow(Duration::from_secs(9))));
    let start = tokio::time::Instant::now();
    nodes(&kube).get("n0").await.unwrap();
    assert_eq!(start.elapsed().as_secs(), 9);
    kube.inject(Rule::next(1, Match::of("get", "nodes"), Fault::Garbled));
    assert!(nodes(&kube).get("n0").await.is_err());
}

#[tokio::test(start_paused = true)]
async fn s07_overload_is_plain_text_without_causes() {
    let kube = with_nodes(1);
    kube.overload(Some(3));
    let refused = status(cordon(&kube).await.unwrap_err());
    assert_eq!(refused.code, 429);
    assert!(refused.details.is_none_or(|d| d.causes.is_empty()));
    kube.overload(None);
    cordon(&kube).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn s31_a_denied_request_gets_the_same_answer_as_from_rbac() {
    let kube = with_nodes(1);
    kube.add_pod(&PodSpec::on("n0", "shop", "p"));
    let rule = kube.deny("create", "pods/eviction");
    let refused = evict(&kube, "p").await.unwrap_err();
    assert_eq!(
        refused.message,
        "pods \"p\" is forbidden: User \"system:serviceaccount:sundown:sundown\" cannot create \
         resource \"pods/eviction\" in API group \"\" in the namespace \"shop\""
    );
    assert!(refused.details.unwrap().causes.is_empty());
    kube.lift(rule);
    evict(&kube, "p").await.unwrap();
    kube.unauthorized(true);
    assert_eq!(status(cordon(&kube).await.unwrap_err()).code, 401);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_away_refuses_or_is_silent_and_comes_back() {
    let kube = with_nodes(1);
    let watch = |kube: &EmbeddedKube| {
        let (api, from) = (nodes(kube), kube.revision().to_string());
        async move { api.watch(&WatchParams::default(), &from).await.unwrap().boxed() }
    };
    let mut events = watch(&kube).await;
    kube.go_away(Away::Refusing);
    assert!(events.next().await.unwrap().is_err());
    assert!(!matches!(cordon(&kube).await, Ok(_) | Err(kube::Error::Api(_))));
    kube.come_back();
    let mut events = watch(&kube).await;
    kube.go_away(Away::Silent);
    assert!(tokio::time::timeout(Duration::from_mins(15), cordon(&kube)).await.is_err());
    assert!(tokio::time::timeout(Duration::from_mins(15), events.next()).await.is_err());
    kube.come_back();
    cordon(&kube).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn faults_and_the_journal_distinguish_clients() {
    let kube = with_nodes(1);
    kube.inject(Rule::always(Match::all().from("replica-a"), Fault::Refused));
    let get = |tag: &str| {
        let api: Api<Node> = Api::all(kube.client_as(tag));
        async move { api.get("n0").await.is_ok() }
    };
    assert!(!get("replica-a").await);
    assert!(get("replica-b").await);
    let clients: Vec<_> =
        kube.requests().into_iter().map(|r| (r.client, r.answered.is_some())).collect();
    assert_eq!(clients, [("replica-a".to_owned(), false), ("replica-b".to_owned(), true)]);
    assert_eq!(kube.counts().get(&("get".to_owned(), "nodes".to_owned())), Some(&2));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_is_cut_off_gets_no_answer_and_its_watches_are_silent() {
    let kube = with_nodes(1);
    let mut watch = std::pin::pin!(nodes(&kube).watch(&WatchParams::default(), "0").await.unwrap());
    watch.next().await.unwrap().unwrap();
    kube.cut_off("cli");
    assert!(tokio::time::timeout(Duration::from_mins(10), cordon(&kube)).await.is_err());
    assert!(!is_cordoned(&kube));
    kube.reconnect("cli");
    cordon(&kube).await.unwrap();
    let silence = tokio::time::timeout(Duration::from_mins(4), watch.next()).await;
    assert!(silence.is_err(), "the connection is dead, and nothing reports it: {silence:?}");
    assert_eq!(kube.requests().iter().map(|r| r.status).collect::<Vec<_>>(), [200, 0, 200]);
}

#[tokio::test(start_paused = true)]
async fn a_process_can_be_ended_before_a_request_and_after_it() {
    for (side, is_done) in [(Side::Before, false), (Side::After, true)] {
        let kube = with_nodes(1);
        let tripwire = Tripwire::default();
        kube.tripwire(&tripwire);
        tripwire.arm("client", Some((0, side)), || {});
        assert!(tokio::time::timeout(Duration::from_mins(10), cordon(&kube)).await.is_err());
        assert_eq!(is_cordoned(&kube), is_done, "{side:?}");
        assert_eq!(tripwire.calls()[0].what, "patch nodes");
    }
}

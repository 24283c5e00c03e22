//! Notifications: who is told what, and how often.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
};

use serde_json::Value;
use sundown::{
    controller::Sinks,
    observe::{
        Metrics,
        webhook::{
            Answer, AnswerFuture, Notifier, NotifierParts, On, Post, Secret, Settings,
            TemplateSource, Transport,
        },
    },
    runtime::{Random, Spawner},
    sim::kube::BudgetSpec,
};

use super::{Scene, graceful};
use crate::harness::Stage;

const TEMPLATE: &str = r#"{"on":"{{ on }}","node":"{{ node }}","kind":"{{ kind }}","group":"{{ group }}","zone":"{{ zone }}","type":"{{ type }}",
    "outcome":"{{ outcome }}","blocked":"{{ blocked }}","forced":"{{ forced }}","left":"{{ left }}","evicted":"{{ evicted }}","os":"{{ labels['kubernetes.io/os'] }}"}"#;

/// Somebody who takes what is posted.
#[derive(Clone, Default)]
struct Chat(Arc<Mutex<Vec<Value>>>);

impl Transport for Chat {
    fn post(&self, post: &Post) -> AnswerFuture {
        self.0.lock().unwrap().push(serde_json::from_str(&post.body).unwrap());
        Box::pin(async { Ok(Answer { status: 200, retry_after: None }) })
    }
}

impl Chat {
    fn heard(&self, on: &str) -> Vec<Value> {
        self.0.lock().unwrap().iter().filter(|v| v["on"] == on).cloned().collect()
    }
}

/// A chat that replicas of this stage tell, each through its own task.
fn chat(stage: &Stage, on: &[On]) -> Chat {
    let chat = Chat::default();
    let settings = Settings {
        url: Secret::new("https://chat.example/x"),
        on: on.iter().copied().collect::<BTreeSet<_>>(),
        template: TemplateSource::Text(TEMPLATE.to_owned()),
        headers: None,
        proxy: None,
    };
    let parts = NotifierParts {
        settings,
        cluster: None,
        transport: Some(Arc::new(chat.clone())),
        random: Random::seeded(5),
        spawner: Spawner::new(),
        metrics: Arc::new(Metrics::default()),
    };
    *stage.sinks.borrow_mut() =
        Sinks { notifier: Some(Notifier::start(parts).unwrap()), ..Sinks::default() };
    chat
}

#[tokio::test(start_paused = true)]
async fn each_drain_is_reported_once_at_its_beginning_and_once_at_its_end_with_what_held_it() {
    let stage = Stage::new(170);
    let instances = stage.spot_group(3);
    let chat = chat(&stage, &[On::Accepted, On::Ended]);
    let scene = Scene::led(stage, instances, &[]).await;
    scene.pod(0, "web-0", graceful(5, 2));
    scene.stage.world.kube.add_budget(&BudgetSpec::for_app("shop", "web").max(0));
    scene.stage.pass(5).await;
    scene.notice(0).await;
    scene.stage.pass(2).await;
    let accepted = chat.heard("accepted");
    assert_eq!(accepted.len(), 1, "{accepted:?}");
    let node = scene.node(0);
    let object = scene.stage.node(&scene.instances[0]);
    let label = |key: &str| object["metadata"]["labels"][key].clone();
    assert_eq!(
        (&accepted[0]["node"], &accepted[0]["kind"], &accepted[0]["group"]),
        (&Value::from(node.as_str()), &"spot".into(), &"spot".into())
    );
    assert!(label("topology.kubernetes.io/zone").is_string(), "{object}");
    assert_eq!(accepted[0]["zone"], label("topology.kubernetes.io/zone"));
    assert_eq!(accepted[0]["type"], label("node.kubernetes.io/instance-type"));
    assert_eq!(accepted[0]["os"], label("kubernetes.io/os"));
    scene.stage.pass(130).await;
    let ended = chat.heard("ended");
    assert_eq!(ended.len(), 1, "{ended:?}");
    assert!(ended[0]["blocked"].as_str().unwrap().starts_with("shop/web-0 (pdb, "), "{}", ended[0]);
    assert_eq!(
        (&ended[0]["forced"], &ended[0]["outcome"]),
        (&"shop/web-0".into(), &"empty".into())
    );
    assert_eq!(chat.heard("accepted").len(), 1, "once");
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn two_replicas_tell_it_once_and_only_what_is_asked_for() {
    let stage = Stage::new(171);
    let instances = stage.group(3, 300);
    let first = chat(&stage, &[On::Ended]);
    let scene = Scene::led(stage, instances, &[]).await;
    let second = chat(&scene.stage, &[On::Ended]);
    let standby = scene.stage.start("sundown-1", &[]);
    scene.pod(0, "web-0", graceful(5, 2));
    scene.stage.pass(10).await;
    scene.terminate(0).await;
    scene.completed(0, 120).await;
    scene.stage.pass(30).await;
    assert_eq!((first.heard("ended").len(), second.heard("ended").len()), (1, 0));
    assert!(first.heard("accepted").is_empty());
    let told = first.heard("ended").remove(0);
    assert_eq!(
        (&told["group"], &told["kind"], &told["evicted"]),
        (&"asg".into(), &"terminate-hook".into(), &"1".into())
    );
    standby.stop().await;
    scene.end().await;
}

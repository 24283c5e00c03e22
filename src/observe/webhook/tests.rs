#![allow(clippy::indexing_slicing, reason = "a test may panic")]

use std::{
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

use super::{http::AnswerFuture, *};
use crate::{
    domain::seconds,
    observe::Metrics,
    runtime::{Random, Spawner},
};

/// Answers with the entries of a list, then always with its last one, and keeps every request with
/// its time.
struct Fake {
    answers: Mutex<Vec<Result<u16, &'static str>>>,
    retry_after: Option<Duration>,
    posted: Mutex<Vec<(tokio::time::Instant, Post)>>,
}

impl Transport for Arc<Fake> {
    fn post(&self, post: &Post) -> AnswerFuture {
        self.posted.lock().unwrap().push((tokio::time::Instant::now(), post.clone()));
        let mut answers = self.answers.lock().unwrap();
        let answer = if answers.len() > 1 { answers.remove(0) } else { answers[0] };
        let retry_after = self.retry_after;
        Box::pin(async move {
            if answer == Err("hangs") {
                std::future::pending::<()>().await;
            }
            answer.map(|status| Answer { status, retry_after }).map_err(str::to_owned)
        })
    }
}

struct Scene {
    fake: Arc<Fake>,
    notifier: Notifier,
    metrics: Arc<Metrics>,
}

fn settings() -> Settings {
    let template = TemplateSource::Text(r#"{"text":"{{ on }} {{ node }} {{ zone }}"}"#.to_owned());
    Settings {
        url: Secret::new("https://chat.example/secret"),
        on: [On::Accepted, On::Ended].into(),
        template,
        headers: None,
        proxy: None,
    }
}

fn scene_with(
    settings: Settings,
    answers: &[Result<u16, &'static str>],
    retry_after: Option<Duration>,
) -> Scene {
    let fake = Arc::new(Fake {
        answers: Mutex::new(answers.to_vec()),
        retry_after,
        posted: Mutex::default(),
    });
    let metrics = Arc::new(Metrics::default());
    let transport: Arc<dyn Transport> = Arc::new(Arc::clone(&fake));
    let parts = NotifierParts {
        settings,
        cluster: None,
        transport: Some(transport),
        random: Random::seeded(3),
        spawner: Spawner::new(),
        metrics: Arc::clone(&metrics),
    };
    Scene { fake, notifier: Notifier::start(parts).unwrap(), metrics }
}

fn scene(answers: &[Result<u16, &'static str>]) -> Scene {
    scene_with(settings(), answers, None)
}

fn notice(on: On, node: &str) -> Notice {
    Notice {
        on: Some(on),
        node: node.to_owned(),
        instance: node.to_owned(),
        kind: "spot",
        event: "e".to_owned(),
        ..Notice::default()
    }
}

impl Scene {
    fn posted(&self) -> usize {
        self.fake.posted.lock().unwrap().len()
    }

    fn counted(&self) -> [u64; 4] {
        let text = self.metrics.render().unwrap();
        ["sent", "retried", "failed", "dropped"].map(|result| {
            let start = format!("sundown_webhooks_total{{result=\"{result}\"}} ");
            text.lines().find_map(|l| l.strip_prefix(&start)).unwrap().parse().unwrap()
        })
    }
}

#[tokio::test(start_paused = true)]
async fn each_notice_is_sent_once_with_the_template_filled_in() {
    let scene = scene(&[Ok(200)]);
    for _ in 0..2 {
        scene.notifier.notify(notice(On::Accepted, "a"));
        scene.notifier.notify(notice(On::Ended, "a"));
    }
    scene.notifier.flush(seconds(5)).await;
    let posted = scene.fake.posted.lock().unwrap().clone();
    let mut bodies: Vec<_> = posted.iter().map(|(_, post)| post.body.clone()).collect();
    bodies.sort();
    assert_eq!(bodies, [r#"{"text":"accepted a "}"#, r#"{"text":"ended a "}"#]);
    assert_eq!(posted[0].1.headers["content-type"], "application/json");
    assert!(!format!("{:?}", posted[0].1).contains("secret"), "the URL is a secret");
    assert_eq!(scene.counted(), [2, 0, 0, 0]);
    assert_eq!(scene.notifier.labels().collect::<Vec<_>>(), ["topology.kubernetes.io/zone"]);
}

#[tokio::test(start_paused = true)]
async fn passing_failures_are_retried_and_lasting_ones_are_given_up_at_once() {
    let refused = [Err("connection refused"); 1];
    for (answers, posted, counted) in [
        (&[Ok(503), Err("connection reset"), Ok(429), Ok(204)][..], 4, [1, 3, 0, 0]),
        (&[Ok(404)], 1, [0, 0, 1, 0]),
        (&[Ok(302)], 1, [0, 0, 1, 0]),
        (&[Ok(500), Ok(400)], 2, [0, 1, 1, 0]),
        (&refused, 5, [0, 4, 1, 0]),
        (&[Err("hangs")], 5, [0, 4, 1, 0]),
    ] {
        let scene = scene(answers);
        let begun = tokio::time::Instant::now();
        scene.notifier.notify(notice(On::Ended, "a"));
        scene.notifier.flush(seconds(300)).await;
        assert!(begun.elapsed() < seconds(70), "{answers:?}: {:?}", begun.elapsed());
        assert_eq!((scene.posted(), scene.counted()), (posted, counted), "{answers:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn retry_after_is_respected_up_to_half_a_minute() {
    for (asked, least, most) in [(7, 7, 8), (3600, 30, 31)] {
        let scene = scene_with(settings(), &[Ok(429), Ok(200)], Some(Duration::from_secs(asked)));
        scene.notifier.notify(notice(On::Ended, "a"));
        scene.notifier.flush(seconds(300)).await;
        let posted = scene.fake.posted.lock().unwrap();
        let pause = posted[1].0 - posted[0].0;
        assert!(
            (Duration::from_secs(least)..Duration::from_secs(most)).contains(&pause),
            "{asked}: {pause:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_webhook_that_hangs_delays_no_caller_and_dropped_notices_are_counted() {
    let scene = scene(&[Err("hangs")]);
    let begun = tokio::time::Instant::now();
    for n in 0..1100 {
        scene.notifier.notify(notice(On::Ended, &format!("n{n}")));
    }
    assert_eq!(begun.elapsed(), Duration::ZERO, "notify() never waits");
    assert_eq!(scene.counted(), [0, 0, 0, 100]);
    tokio::time::sleep(seconds(2)).await;
    assert_eq!(scene.posted(), 4, "a few at a time");
}

#[tokio::test(start_paused = true)]
async fn only_the_configured_events_are_sent() {
    let scene = scene_with(Settings { on: [On::Ended].into(), ..settings() }, &[Ok(200)], None);
    scene.notifier.notify(notice(On::Accepted, "a"));
    scene.notifier.notify(notice(On::Ended, "b"));
    scene.notifier.flush(seconds(5)).await;
    assert_eq!(scene.posted(), 1);
    assert!(scene.notifier.wants(On::Ended) && !scene.notifier.wants(On::Accepted));
}

#[tokio::test(start_paused = true)]
async fn headers_come_from_a_file_that_may_change() {
    let file = std::env::temp_dir().join(format!("sundown-headers-{}", std::process::id()));
    let with = |text: &str| std::fs::write(&file, text).unwrap();
    let settings = || Settings { headers: Some(file.clone()), ..settings() };
    with("# the chat's\nAuthorization: Bearer one\n\nContent-Type: application/vnd.x+json\n");
    let scene = scene_with(settings(), &[Ok(200)], None);
    scene.notifier.notify(notice(On::Ended, "a"));
    scene.notifier.flush(seconds(5)).await;
    with("Authorization: Bearer two");
    scene.notifier.notify(notice(On::Ended, "b"));
    scene.notifier.flush(seconds(5)).await;
    let posted: Vec<_> =
        scene.fake.posted.lock().unwrap().iter().map(|(_, p)| p.headers.clone()).collect();
    assert_eq!(
        (&posted[0]["authorization"], &posted[0]["content-type"]),
        (&"Bearer one".parse().unwrap(), &"application/vnd.x+json".parse().unwrap())
    );
    assert_eq!(
        (&posted[1]["authorization"], &posted[1]["content-type"]),
        (&"Bearer two".parse().unwrap(), &"application/json".parse().unwrap())
    );
    assert!(!format!("{posted:?}").contains("Bearer"), "header values are secret");
    for (text, why) in [
        ("Authorization Bearer", "line 1 has no colon"),
        ("\na b: c", "line 2"),
        ("a: b\u{1}", "value in line 1"),
    ] {
        with(text);
        let error = start(settings()).unwrap_err().to_string();
        assert!(
            error.contains(why)
                && error.contains("--webhook-headers-file")
                && !error.contains("Bearer"),
            "{error}"
        );
    }
    std::fs::remove_file(&file).unwrap();
    assert!(start(settings()).unwrap_err().to_string().contains("cannot be read"));
}

fn start(settings: Settings) -> Result<Notifier, UnusableSettings> {
    let (random, spawner, metrics) =
        (Random::seeded(1), Spawner::new(), Arc::new(Metrics::default()));
    Notifier::start(NotifierParts {
        settings,
        cluster: None,
        transport: None,
        random,
        spawner,
        metrics,
    })
}

fn with_template(text: &str) -> Settings {
    Settings { template: TemplateSource::Text(text.to_owned()), ..settings() }
}

#[tokio::test]
async fn settings_that_cannot_work_are_errors_at_the_start() {
    let with_file =
        |path: &Path| Settings { template: TemplateSource::File(path.to_owned()), ..settings() };
    let path = std::env::temp_dir().join(format!("sundown-template-{}", std::process::id()));
    let proxy = Settings { proxy: Some(Secret::new("nowhere")), ..settings() };
    for (settings, words) in [
        (with_template(r#"["{{ nod }}"]"#), "--webhook-template: the template"),
        (with_template(r#"["{{ nod }}"]"#), "at /0: it uses `nod`"),
        (with_file(Path::new("/nowhere/template")), "/nowhere/template: cannot be read"),
        (proxy, "--webhook-proxy"),
    ] {
        let error = start(settings).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
    for (bytes, words) in [
        (&b"drained"[..], "-template-"),
        (b"drained", r#"write {"text":"drained"}"#),
        (b"", DEFAULT_TEMPLATE),
        (b"\"\xff\"", "cannot be read (invalid utf-8"),
        (&b" ".repeat(70_000), "larger than 65536 bytes"),
    ] {
        std::fs::write(&path, bytes).unwrap();
        let error = start(with_file(&path)).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
    std::fs::write(&path, DEFAULT_TEMPLATE).unwrap();
    start(with_file(&path)).unwrap();
    std::fs::remove_file(&path).unwrap();
    start(with_template(DEFAULT_TEMPLATE)).unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_notification_that_cannot_be_rendered_is_counted_and_the_next_one_is_sent() {
    let text = r#"{"text":"{{ 'x' * took * 1000 }}{{ 1 // (100 - took) }}"}"#;
    let settings = Settings { on: [On::Ended].into(), ..with_template(text) };
    let scene = scene_with(settings, &[Ok(200)], None);
    for (node, took) in [("out-of-fuel", 3000), ("error", 100), ("fine", 1)] {
        scene.notifier.notify(Notice { took: Some(seconds(took)), ..notice(On::Ended, node) });
    }
    scene.notifier.flush(seconds(5)).await;
    assert_eq!((scene.posted(), scene.counted()), (1, [1, 0, 2, 0]));
}

#[test]
fn a_notice_has_a_value_for_every_name_of_a_template() {
    let facts = Notice::default().facts(Some("shop"));
    let names: Vec<_> = facts.fields.keys().copied().collect();
    let mut known: Vec<_> = NAMES.iter().map(|(name, _)| *name).collect();
    known.sort_unstable();
    assert_eq!(names, known);
    assert_eq!(facts.fields["cluster"].as_str(), Some("shop"));
    let pods = |n: usize| (0..n).map(|i| format!("shop/web-{i}")).collect::<Vec<_>>();
    let ended = Notice {
        outcome: "deadline_reached",
        took: Some(seconds(110)),
        evicted: 3,
        left: pods(12),
        blocked: pods(1),
        ..notice(On::Ended, "ip-1")
    };
    let summary = ended.facts(None).fields["summary"].clone();
    let text = summary.as_str().unwrap();
    for words in [
        "the drain of node ip-1 is over after 110 s (deadline_reached), 3 evicted",
        "blocked: shop/web-0;",
        "shop/web-9 and 2 more",
    ] {
        assert!(text.contains(words), "{text}");
    }
    assert!(!text.contains("forced"), "{text}");
}

//! An API server in trouble: nothing is lost, nothing spins, everything is counted.

use std::time::Duration;

use sundown::sim::kube::{
    Away, BudgetSpec, EvictionVerdict, Fault, Match, PodShape, PodSpec, Rule,
};

use super::{Scene, about, between, graceful};

fn status(code: u16, reason: &str) -> Fault {
    Fault::Status {
        code,
        reason: reason.to_owned(),
        message: "something is wrong".to_owned(),
        retry_after: None,
    }
}

fn calls(scene: &Scene, action: &str, outcome: &str) -> f64 {
    let name = format!(
        "sundown_api_calls_total{{target=\"kubernetes\",action=\"{action}\",outcome=\"{outcome}\"}} "
    );
    let text = scene.sundown.metrics.render().unwrap();
    text.lines().find_map(|l| l.strip_prefix(&name)).map_or(0.0, |v| v.parse().unwrap())
}

/// Requests of the service in the last so many seconds, its watches and the Lease aside.
fn busy(scene: &Scene, seconds: f64) -> usize {
    let now = scene.stage.clock.now();
    let recent = |r: &&sundown::sim::kube::Request| {
        between(r.at, now) <= seconds && r.client.starts_with("sundown") && r.resource != "leases"
    };
    scene.stage.world.kube.requests().iter().filter(recent).count()
}

/// What every row of trouble with the PATCH must end with: one accept, a deleted message, a
/// completion by us.
async fn recovers(scene: &Scene) {
    scene
        .stage
        .until(60, "the node is cordoned", || scene.stage.is_cordoned(&scene.instances[0]))
        .await;
    scene.completed(0, 120).await;
    scene.stage.until(10, "the message is deleted", || scene.stage.in_queue() == 0).await;
    assert_eq!(scene.sundown.messages("terminate-hook", "accepted"), 1.0);
}

#[tokio::test(start_paused = true)]
async fn a_patch_that_is_refused_keeps_its_message_and_is_tried_slowly() {
    let rows = [
        (401_u64, Fault::Unauthorized, "unauthorized"),
        (403, Fault::Forbidden, "forbidden"),
        (422, status(422, "Invalid"), "invalid"),
        (429, Fault::Overloaded { retry_after: 5 }, "overload"),
        (500, status(500, "InternalError"), "server"),
        (503, status(503, "ServiceUnavailable"), "server"),
        (504, status(504, "Timeout"), "server"),
        (0, Fault::Refused, "unreachable"),
    ];
    for (code, fault, word) in rows {
        let scene = Scene::hooked(700 + code, 2, &[]).await;
        let rule = scene.stage.world.kube.inject(Rule::always(Match::of("patch", "nodes"), fault));
        scene.stage.world.aws.terminate(&scene.instances[0], true);
        scene.stage.pass(60).await;
        let tries = scene.patches(0).len();
        assert!((4..=30).contains(&tries), "{code}: {tries} tries in a minute");
        assert_eq!(calls(&scene, "patch_node", word), tries as f64, "{code}");
        assert_eq!(scene.stage.in_queue(), 1, "{code}: the message is kept");
        assert!(busy(&scene, 60.0) <= 100, "{code}: {} requests in a minute", busy(&scene, 60.0));
        if word == "overload" {
            let at: Vec<_> = scene.patches(0).iter().map(|r| r.at).collect();
            assert!(at.windows(2).all(|w| between(w[0], w[1]) >= 5.0), "Retry-After holds");
        }
        scene.stage.world.kube.lift(rule);
        recovers(&scene).await;
        scene.end().await;
    }
}

#[tokio::test(start_paused = true)]
async fn evictions_that_may_not_be_made_are_told_and_the_deadline_deletes() {
    let scene =
        Scene::hooked(731, 2, &["--drain-timeout", "120s", "--deadline-margin", "0s"]).await;
    scene.pod(0, "web-0", graceful(30, 1));
    scene.stage.world.kube.deny("create", "pods/eviction");
    scene.stage.pass(5).await;
    let accepted = scene.terminate(0).await;
    scene.stage.pass(50).await;
    assert_eq!(scene.sundown.drain(&scene.node(0)).unwrap().blocked, ["shop/web-0 rbac"]);
    assert_eq!(scene.sundown.metric("blocked_pods{reason=\"rbac\"}"), 1.0);
    assert!(
        scene.events("Blocked").iter().any(|m| m.contains("cannot create resource")),
        "{:?}",
        scene.events("Blocked")
    );
    assert!(scene.evictions("web-0").len() <= 5);
    scene.completed(0, 100).await;
    about(between(accepted, scene.removals("web-0")[0].0), 90.0, 2.0);
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn c56_each_refusal_of_an_eviction_has_its_own_answer() {
    let scene = Scene::hooked(756, 2, &["--drain-timeout", "900s"]).await;
    let kube = &scene.stage.world.kube;
    let put = |namespace: &str, name: &str| {
        kube.add_pod(&PodSpec::on(scene.node(0), namespace, name).label("app", name));
    };
    for name in ["budget", "tangled", "gone", "fine", "webhook"] {
        put("shop", name);
    }
    put("dying", "dying");
    kube.add_budget(&BudgetSpec::for_app("shop", "budget").min(1));
    kube.add_budget(&BudgetSpec::for_app("shop", "tangled").named("one").min(0));
    kube.add_budget(&BudgetSpec::for_app("shop", "tangled").named("two").min(0));
    kube.terminate_namespace("dying", false);
    kube.eviction_webhook(|review| match review.name.as_str() {
        "webhook" => {
            EvictionVerdict::Busy("Eviction triggered evacuation of the virtual machine".to_owned())
        }
        _ => EvictionVerdict::Allow,
    });
    kube.inject(Rule::next(
        1,
        Match::evictions().named("gone"),
        Fault::Slow(Duration::from_millis(500)),
    ));
    scene.stage.pass(5).await;
    scene.terminate(0).await;
    scene.stage.until(5, "it is asked for", || scene.evictions("gone").len() == 1).await;
    kube.remove("pods", "shop", "gone");
    scene.stage.pass(60).await;
    let blocked = scene.sundown.drain(&scene.node(0)).unwrap().blocked;
    assert_eq!(
        blocked,
        [
            "dying/dying namespace_terminating",
            "shop/budget pdb",
            "shop/tangled two_pdbs",
            "shop/webhook webhook"
        ]
    );
    assert!(!scene.is_there("fine") && scene.evictions("gone").len() == 1);
    for name in ["budget", "tangled", "dying", "webhook"] {
        assert!(
            (1..=6).contains(&scene.evictions(name).len()),
            "{name}: {} tries in a minute",
            scene.evictions(name).len()
        );
    }
    assert!(scene.stage.actions(&scene.instances[0])[0].end.is_none(), "they are waited for");
    // The causes go, one after the other.
    kube.remove("poddisruptionbudgets", "shop", "budget");
    kube.remove("poddisruptionbudgets", "shop", "two");
    kube.delete("pods", "shop", "webhook");
    kube.delete("pods", "dying", "dying");
    scene.completed(0, 10).await;
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn three_kinds_of_429_are_told_apart() {
    let scene = Scene::hooked(757, 3, &["--drain-timeout", "900s"]).await;
    let kube = &scene.stage.world.kube;
    let put = |name: &str| {
        kube.add_pod(&PodSpec::on(scene.node(0), "shop", name).label("app", name));
    };
    put("budget");
    kube.add_budget(&BudgetSpec::for_app("shop", "budget").min(1));
    put("lagging");
    kube.add_budget(&BudgetSpec::for_app("shop", "lagging").min(1));
    put("free");
    scene.stage.pass(5).await;
    kube.freeze_disruption_controller(true);
    kube.edit("poddisruptionbudgets", "shop", "lagging", |b| b["spec"]["minAvailable"] = 0.into());
    kube.inject(Rule::next(
        2,
        Match::evictions().named("free"),
        Fault::Overloaded { retry_after: 2 },
    ));
    scene.terminate(0).await;
    scene.stage.until(30, "the free one goes", || !scene.removals("free").is_empty()).await;
    let tries: Vec<_> = scene.evictions("free").iter().map(|r| r.at).collect();
    assert!(
        tries.len() == 3 && tries.windows(2).all(|w| (2.0..3.5).contains(&between(w[0], w[1]))),
        "{tries:?}"
    );
    assert_eq!(scene.answers("overload"), 2.0);
    assert!(scene.answers("budget") >= 1.0 && scene.answers("budget_lagging") >= 1.0);
    assert_eq!(
        scene.sundown.drain(&scene.node(0)).unwrap().blocked,
        ["shop/budget pdb", "shop/lagging pdb_lagging"]
    );
    kube.freeze_disruption_controller(false);
    scene.stage.until(5, "the other one goes", || !scene.removals("lagging").is_empty()).await;
    kube.remove("poddisruptionbudgets", "shop", "budget");
    scene.completed(0, 30).await;
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn watches_that_are_cut_or_broken_lose_nothing() {
    for (seed, how) in [(760, "cut"), (761, "broken"), (763, "expired")] {
        deafen(seed, how).await;
    }
}

#[tokio::test(start_paused = true)]
async fn watches_that_are_silent_lose_nothing() {
    deafen(762, "silent").await;
}

async fn deafen(seed: u64, how: &str) {
    let scene = Scene::hooked(seed, 3, &["--drain-timeout", "900s"]).await;
    let kube = &scene.stage.world.kube;
    scene.pod(0, "web-0", graceful(30, 5));
    kube.add_budget(&BudgetSpec::for_app("shop", "web").min(1));
    scene.stage.pass(5).await;
    scene.terminate(0).await;
    scene.stage.until(5, "it is refused", || scene.answers("budget") == 1.0).await;
    let before = busy(&scene, 1000.0);
    match how {
        "cut" => kube.cut_watches(&Match::all()),
        "broken" => kube.break_watches(&Match::all()),
        "silent" => kube.silence_watches(&Match::all()),
        _ => {
            kube.compact();
            kube.break_watches(&Match::all());
        }
    }
    // While nobody listens: the budget goes, a pod comes, another node is doomed.
    kube.remove("poddisruptionbudgets", "shop", "web");
    scene.pod(0, "late", graceful(30, 5));
    kube.delete_node(&scene.node(2));
    let limit = if how == "silent" { 200 } else { 60 };
    scene.completed(0, limit).await;
    let left = ["web-0", "late"].map(|name| scene.is_there(name));
    assert_eq!(left, [false, false], "{how} {:?}", scene.sundown.board.snapshot());
    scene.terminate(1).await;
    scene.completed(1, 60).await;
    if how == "broken" {
        for object in ["watch_nodes", "watch_pods", "watch_budgets", "watch_lease"] {
            let failures =
                scene.sundown.metric(&format!("watch_failures_total{{object=\"{object}\"}}"));
            assert!(failures >= 1.0, "{object} was open when it broke");
        }
    }
    assert!(
        busy(&scene, 1000.0) - before <= 80,
        "{how}: {} requests",
        busy(&scene, 1000.0) - before
    );
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_refused_as_too_old_lists_again() {
    let scene = Scene::hooked(764, 2, &[]).await;
    let kube = &scene.stage.world.kube;
    let gone = Fault::Status {
        code: 410,
        reason: "Expired".into(),
        message: "too old resource version".into(),
        retry_after: None,
    };
    kube.inject(Rule::next(1, Match::of("watch", "nodes"), gone));
    kube.break_watches(&Match::of("watch", "nodes"));
    scene.stage.pass(10).await;
    assert_eq!(calls(&scene, "watch_nodes", "expired"), 1.0);
    assert_eq!(
        scene.requests("list", "nodes", "", "").len(),
        3,
        "at the start, when it began to lead, and now"
    );
    scene.terminate(0).await;
    scene.completed(0, 30).await;
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_is_away_for_minutes_loses_nothing() {
    for (seed, how) in [(770, Away::Refusing), (771, Away::Silent)] {
        let scene = Scene::hooked(seed, 4, &["--drain-timeout", "1800s"]).await;
        let kube = &scene.stage.world.kube;
        scene.pod(0, "web-0", graceful(60, 40));
        scene.pod(1, "web-1", graceful(60, 5));
        scene.stage.pass(5).await;
        scene.terminate(0).await;
        scene.stage.until(5, "it is evicted", || !scene.removals("web-0").is_empty()).await;
        kube.go_away(how);
        scene.stage.pass(30).await;
        scene.stage.world.aws.terminate(&scene.instances[1], true);
        scene.stage.pass(150).await;
        assert!(
            scene.stage.actions(&scene.instances[0])[0].end.is_none(),
            "nothing is completed blindly"
        );
        let asked = busy(&scene, 150.0);
        assert!(asked <= 400, "{how:?}: {asked} requests in 150 s");
        kube.come_back();
        let back = scene.stage.clock.now();
        assert!(between(back, scene.completed(0, 60).await) < 40.0);
        scene
            .stage
            .until(60, "the second is cordoned", || {
                scene.stage.world.node_of(&scene.instances[1]).is_none()
                    || scene.stage.is_cordoned(&scene.instances[1])
            })
            .await;
        scene.completed(1, 60).await;
        scene.stage.until(60, "the messages are deleted", || scene.stage.in_queue() == 0).await;
        assert!(!scene.is_there("web-0") && !scene.is_there("web-1"));
        assert_eq!(scene.removals("web-0").len(), 1, "no second eviction of what terminates");
        scene.end().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_token_that_is_refused_for_a_minute_loses_nothing() {
    let scene = Scene::hooked(772, 3, &["--drain-timeout", "1800s"]).await;
    scene.pod(0, "web-0", graceful(60, 5));
    scene.stage.pass(5).await;
    scene.stage.world.kube.unauthorized(true);
    scene.stage.world.aws.terminate(&scene.instances[0], true);
    scene.stage.pass(60).await;
    assert!(busy(&scene, 60.0) <= 120, "{} requests in a minute", busy(&scene, 60.0));
    assert!(
        calls(&scene, "lease", "unauthorized") + calls(&scene, "patch_node", "unauthorized") > 0.0
    );
    assert!(!scene.stage.is_cordoned(&scene.instances[0]));
    scene.stage.world.kube.unauthorized(false);
    recovers(&scene).await;
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn an_overloaded_api_server_is_left_alone() {
    let scene = Scene::hooked(773, 12, &["--drain-timeout", "1800s"]).await;
    for n in 0..10 {
        for m in 0..5 {
            scene.pod(n, &format!("web-{n}-{m}"), PodShape::default());
        }
    }
    scene.stage.pass(5).await;
    scene.stage.world.kube.inject(Rule::next(
        200,
        Match::evictions(),
        Fault::Overloaded { retry_after: 3 },
    ));
    for instance in &scene.instances[..10] {
        scene.stage.world.aws.terminate(instance, true);
    }
    scene.stage.pass(20).await;
    let asked = scene.requests("create", "pods", "eviction", "").len();
    assert!(asked <= 7 * 32, "{asked} evictions in 20 s at a Retry-After of 3 s");
    for n in 0..10 {
        scene.completed(n, 120).await;
    }
    assert_eq!(scene.answers("accepted"), 50.0);
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_budget_that_frees_wakes_its_pods_at_once() {
    let scene = Scene::hooked(774, 3, &["--drain-timeout", "1800s"]).await;
    let kube = &scene.stage.world.kube;
    for n in 0..5 {
        scene.pod(0, &format!("web-{n}"), graceful(30, 1));
    }
    kube.add_budget(&BudgetSpec::for_app("shop", "web").min(5));
    scene.stage.pass(5).await;
    scene.terminate(0).await;
    scene.stage.pass(100).await;
    assert!(scene.stage.removals().is_empty());
    for n in 0..5 {
        // One more elsewhere: one may go.
        kube.add_pod(&PodSpec::on(scene.node(1), "shop", format!("spare-{n}")).label("app", "web"));
        let changed = scene.stage.clock.now();
        scene.stage.until(5, "one goes", || scene.stage.removals().len() == n + 1).await;
        let at = scene
            .stage
            .deeds()
            .iter()
            .filter(|e| matches!(e.fact, sundown::sim::kube::Fact::Evicted { .. }))
            .map(|e| e.at)
            .max()
            .unwrap();
        assert!(between(changed, at) < 0.05, "{}", between(changed, at));
        scene.stage.pass(3).await;
    }
    scene.completed(0, 10).await;
    scene.end().await;
}

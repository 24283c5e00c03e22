#![allow(clippy::indexing_slicing, reason = "a test may panic")]

use serde_json::{Value, json};

use super::*;
use crate::{
    cluster::fake::{BUDGETS, Fake, settle},
    domain::{Selector, seconds},
};

fn budget(name: &str, allowed: i64) -> Value {
    json!({
        "metadata": {"namespace": "web", "name": name, "uid": "u", "generation": 2},
        "spec": {
            "minAvailable": 2,
            "selector": {
                "matchLabels": {"app": "web"},
                "matchExpressions": [{"key": "x", "operator": "DoesNotExist"}]
            }
        },
        "status": {
            "disruptionsAllowed": allowed, "currentHealthy": 3, "desiredHealthy": 2,
            "expectedPods": 3, "observedGeneration": 2
        },
    })
}

fn key(name: &str) -> BudgetKey {
    BudgetKey { namespace: "web".to_owned(), name: name.to_owned() }
}

#[tokio::test(start_paused = true)]
async fn changes_of_budgets_arrive_at_once_and_vanished_ones_are_gone() {
    let fake = Fake::default();
    fake.put(BUDGETS, budget("a", 0));
    fake.put(
        BUDGETS,
        json!({"metadata": {"namespace": "web", "name": "empty"}, "spec": {"selector": {}}}),
    );
    fake.put(
        BUDGETS,
        json!({
            "metadata": {"namespace": "web", "name": "odd"},
            "spec": {"selector": {"matchExpressions": [{"key": "a", "operator": "Gt"}]}}
        }),
    );
    let watch = BudgetWatch::start(&fake.cluster());
    watch.synced().await;
    settle().await;
    assert!(watch.state().is_sound());
    let all = watch.all();
    assert_eq!(
        (all[0].allowed, all[0].healthy, all[0].desired, all[0].generation, all[0].observed),
        (0, 3, 2, 2, 2)
    );
    assert_eq!(all[1].selector, Some(Selector::default()));
    assert_eq!(all[2].selector, None, "an invalid selector selects nothing");
    let mut changes = watch.subscribe();
    for _ in 0..3 {
        assert!(matches!(changes.next().await, Some(BudgetEvent::Changed(_))));
    }
    fake.put(BUDGETS, budget("a", 1));
    let begun = tokio::time::Instant::now();
    assert!(matches!(changes.next().await, Some(BudgetEvent::Changed(now)) if now.allowed == 1));
    assert_eq!(begun.elapsed(), seconds(0));
    fake.put(BUDGETS, budget("a", 1));
    settle().await;
    assert_eq!(changes.try_next(), None);

    fake.freeze(true);
    fake.remove(BUDGETS, "web/a");
    fake.compact();
    fake.freeze(false);
    fake.cut(true);
    assert_eq!(changes.next().await, Some(BudgetEvent::Gone(key("a"))));
    drop(watch);
    assert_eq!(changes.next().await, None);
}

//! Gates on a Node, and an order to force its drain.

use super::*;

const DRAIN: &str = "pre-drain.sundown.dev/backup";
const RELEASE: &str = "pre-release.sundown.dev/logs";
const FORCE: &str = "sundown.dev/force";

/// From long before the accept on, the Node has these annotations.
fn with(evidence: &Evidence, keys: &[&str]) -> Evidence {
    let mut evidence = evidence.clone();
    let from = accepted(&evidence) - s(10);
    for entry in evidence.entries.iter_mut().filter(|e| e.at >= from) {
        let Fact::Annotated { annotations, .. } = &mut entry.fact else { continue };
        annotations.extend(keys.iter().map(|key| ((*key).to_owned(), "true".to_owned())));
    }
    let first = evidence.entries.iter().find(|e| matches!(e.fact, Fact::Annotated { .. }));
    let Fact::Annotated { node, provider_id, .. } = first.unwrap().fact.clone() else { panic!() };
    let annotations = keys.iter().map(|key| ((*key).to_owned(), "true".to_owned())).collect();
    insert(&mut evidence, from, "kubectl", Fact::Annotated { node, provider_id, annotations });
    evidence
}

#[tokio::test(start_paused = true)]
async fn pods_that_are_touched_while_a_gate_holds_are_seen() {
    const HELD: &str = "although a gate of";
    let evidence = hooked().await;
    breaks(&judge(&with(&evidence, &[DRAIN])), HELD);
    keeps(&judge(&with(&evidence, &[RELEASE])), HELD, "it holds the release");
    keeps(&judge(&with(&evidence, &[DRAIN, FORCE])), HELD, "a person forces the drain");
    let mut short = with(&evidence, &[DRAIN]);
    short.terms.drain_timeout = 300;
    keeps(&judge(&short), HELD, "a drain of five minutes waits for no gate");
}

#[tokio::test(start_paused = true)]
async fn an_action_that_is_completed_while_a_gate_holds_it_is_seen() {
    const HELD: &str = "was completed although a gate holds it";
    let evidence = hooked().await;
    breaks(&judge(&with(&evidence, &[RELEASE])), HELD);
    keeps(&judge(&with(&evidence, &[DRAIN])), HELD, "it holds the evictions");
    keeps(&judge(&with(&evidence, &[RELEASE, FORCE])), HELD, "a person forces the drain");
}

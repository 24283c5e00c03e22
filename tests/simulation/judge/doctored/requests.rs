//! Requests for a drain: what nobody asked for, and what goes on after nobody asks any more.

use super::{changes::doctored, *};

const REQUEST: &str = "drain.sundown.dev/upgrade";

fn ask(stage: &Stage, instance: &str, value: Option<&str>) {
    let node = stage.world.node_of(instance).unwrap();
    stage.world.kube.edit("nodes", "", &node, |node| {
        let annotations = &mut node["metadata"]["annotations"];
        if let Some(value) = value {
            annotations[REQUEST] = value.into();
        } else if let Some(annotations) = annotations.as_object_mut() {
            annotations.remove(REQUEST);
        }
    });
}

/// A node was drained on request, and put back when nobody asked any more. `blocked`: a budget
/// blocks its pod until then.
async fn requested(blocked: bool) -> Evidence {
    let stage = Stage::new(41);
    let instance = stage.spot_group(1).remove(0);
    if blocked {
        pod(&stage, &instance, "web-0", 0);
    } else {
        let node = stage.world.node_of(&instance).unwrap();
        stage.world.kube.add_pod(&PodSpec::on(node, "load", "web-0"));
    }
    let sundown = led(&stage, &[]).await;
    stage.pass(10).await;
    ask(&stage, &instance, Some("reason=new kernel"));
    stage.until(20, "it is cordoned", || stage.is_cordoned(&instance)).await;
    stage.pass(60).await;
    ask(&stage, &instance, None);
    stage.until(20, "it is put back", || !stage.is_cordoned(&instance)).await;
    stage.pass(100).await;
    ended(stage, sundown).await
}

/// Changes the requests on each version of the Node.
fn edit_requests(evidence: &mut Evidence, edit: impl Fn(&mut Option<String>)) {
    for entry in &mut evidence.entries {
        let annotations = match &mut entry.fact {
            Fact::Annotated { annotations, .. } => annotations,
            Fact::NodeChanged(state) => &mut state.annotations,
            _ => continue,
        };
        let mut value = annotations.remove(REQUEST);
        edit(&mut value);
        annotations.extend(value.map(|value| (REQUEST.to_owned(), value)));
    }
}

#[tokio::test(start_paused = true)]
async fn a_drain_that_nobody_asked_for_or_that_was_asked_for_otherwise_is_seen() {
    const NOBODY: &str = "which nobody had sent";
    let evidence = requested(false).await;
    clean(&evidence, "it was asked for");
    let looked_at = Judge::of(&evidence).requests();
    assert!(looked_at > 0, "it looks at the pods");
    let never = |e: &mut Evidence| edit_requests(e, |value| *value = None);
    breaks(&doctored(&evidence, never), NOBODY);
    breaks(&doctored(&evidence, never), "nobody asks for its drain any more");
    for other in ["stage=cordon;reason=new kernel", "reason=another", "typo"] {
        let otherwise = |e: &mut Evidence| {
            edit_requests(e, |value| *value = value.take().map(|_| other.to_owned()));
        };
        breaks(&doctored(&evidence, otherwise), NOBODY);
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_put_back_while_somebody_asks_is_seen() {
    let value = Some("reason=new kernel".to_owned());
    for (blocked, what) in [
        (true, "was put back while somebody asked for its drain"),
        (false, "it was put back, and nothing shows that it is back"),
    ] {
        let evidence = requested(blocked).await;
        clean(&evidence, "nobody asks any more");
        let always = |e: &mut Evidence| edit_requests(e, |asked| asked.clone_from(&value));
        breaks(&doctored(&evidence, always), what);
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_forced_for_a_request_is_seen() {
    let evidence = requested(false).await;
    let forced = |e: &mut Evidence| {
        for entry in &mut e.entries {
            if let Fact::Evicted { pod, grace, again, .. } = &entry.fact {
                let (pod, grace, again) = (pod.clone(), *grace, *again);
                entry.fact = Fact::Deleted { pod, grace, again, overrun: Vec::new() };
            }
        }
    };
    breaks(&doctored(&evidence, forced), "was deleted too early");
}

//! `--dry-run --trial`: deletes on its own queue, records what would have been done, and writes
//! nothing else anywhere.

use std::{
    io,
    sync::{Arc, Mutex},
};

use serde_json::json;
use sundown::{
    controller::{Sinks, TrialEntry, TrialLog, Would},
    sim::aws::{EventKind, GroupSpec, HookSpec},
};

use super::{bodies, tools::continuing_hook};
use crate::{harness::Stage, judge::Rule};

/// A log in memory.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Log {
    fn entries(&self) -> Vec<TrialEntry> {
        let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// What would be done about an instance, and why.
    fn of(&self, instance: &str) -> Vec<(Would, String)> {
        self.entries()
            .into_iter()
            .filter(|e| e.instance == instance)
            .map(|e| (e.would, e.why))
            .collect()
    }
}

/// A log that cannot be written.
struct Full;

impl io::Write for Full {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::Error::from(io::ErrorKind::StorageFull))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn trial_to(stage: &Stage, log: impl io::Write + Send + 'static) {
    *stage.sinks.borrow_mut() = Sinks { trial: Some(TrialLog::to(log)), ..Sinks::default() };
}

#[tokio::test(start_paused = true)]
async fn a_trial_records_what_would_have_been_done_and_deletes_on_its_own_queue_only() {
    let stage = Stage::new(160);
    let instances = stage.group(4, 300);
    let spot = stage.spot_group(2);
    stage.shop(8);
    let gone = stage.group_without_nodes("gone", 1, 86_400, &[continuing_hook("drain", 300)]);
    let theirs = stage.foreign_group("theirs", 1, Some("other"), &continuing_hook("drain", 300));
    // Both queues get every event, as two targets of the same rules.
    let kinds = [EventKind::TerminateAction, EventKind::SpotWarning, EventKind::LaunchAction];
    stage.queue_for("live", kinds);
    let url = stage.queue_for("shop-trial", kinds);
    let log = Log::default();
    trial_to(&stage, log.clone());
    stage.pass(60).await;
    let sundown = stage.start("sundown-0", &["--dry-run", "--trial", "--queue-url", &url]);
    stage.pass(30).await;
    let begun = stage.clock.now();
    stage.world.aws.terminate(&instances[0], true);
    stage.world.aws.terminate(&gone[0], true);
    let boot = HookSpec::launching("boot").heartbeat_timeout(std::time::Duration::from_secs(600));
    stage.world.add_group(GroupSpec { replace_after: None, ..GroupSpec::new("new", 1) }, &[boot]);
    let launched = stage.world.aws.launch("new").unwrap();
    let send = |body: &str| drop(stage.world.aws.send_event("shop-trial", body));
    send(&bodies::spot(&spot[0], &stage.now()));
    send(&bodies::spot(&theirs[0], &stage.now()));
    send(&bodies::rebalance(&spot[1], &stage.now()));
    send("?");
    send(&bodies::event("my.app", "Something", &stage.now(), &json!({})));
    send(
        &json!({ "Event": "autoscaling:TEST_NOTIFICATION", "AutoScalingGroupName": "asg" })
            .to_string(),
    );
    stage.pass(120).await;

    assert!(
        stage.bodies_in("shop-trial").is_empty(),
        "each is deleted: {:?}",
        stage.bodies_in("shop-trial")
    );
    let live = stage.world.aws.queue("live").unwrap().messages;
    assert!(
        live.len() >= 2 && live.iter().all(|m| m.receive_count == 0),
        "the queue of others is not touched"
    );
    let writes = stage.aws_writes();
    assert!(
        !writes.is_empty()
            && writes
                .iter()
                .all(|w| w.starts_with("sqs:DeleteMessage") && w.contains("shop-trial")),
        "{writes:?}"
    );
    let requests = stage.world.kube.requests().into_iter();
    let kube: Vec<_> =
        requests.filter(|r| r.client.starts_with("sundown") && r.is_write()).collect();
    assert!(kube.is_empty(), "not even a Lease: {kube:?}");

    let none = String::new;
    assert_eq!(log.of(&instances[0]), [(Would::Drain, none())]);
    assert_eq!(log.of(&spot[0]), [(Would::Drain, none())]);
    assert_eq!(log.of(&gone[0]), [(Would::Complete, none())]);
    assert_eq!(log.of(&launched), [(Would::AnswerLaunch, none())]);
    assert_eq!(log.of(&theirs[0]), [(Would::Nothing, "foreign".to_owned())]);
    assert_eq!(log.of(&spot[1]), [(Would::Mark, none())], "it recommends to rebalance");
    let others: Vec<_> = log
        .entries()
        .into_iter()
        .filter(|e| e.instance.is_empty())
        .map(|e| (e.would, e.why))
        .collect();
    assert_eq!(others.len(), 3, "{others:?}");
    assert_eq!(
        others.iter().filter(|(would, _)| *would == Would::NotUnderstood).count(),
        1,
        "{others:?}"
    );
    let drained = log.entries().into_iter().find(|e| e.instance == spot[0]).unwrap();
    assert_eq!(Some(drained.node), stage.world.node_of(&spot[0]));
    assert_eq!(drained.ends.unwrap().duration_since(drained.time.unwrap()).as_secs(), 120);
    assert!(
        drained.at >= begun && drained.at.duration_since(begun).as_secs() < 10,
        "it is told how soon"
    );
    let hooked = log.entries().into_iter().find(|e| e.instance == instances[0]).unwrap();
    assert_eq!((hooked.group.as_str(), hooked.hook.as_str()), ("asg", "drain"));
    sundown.stop().await;
    stage.end_except(&[Rule::Messages], "a trial deletes what it has only recorded");
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_recorded_is_not_deleted() {
    let stage = Stage::new(161);
    let spot = stage.spot_group(2);
    let url = stage.queue_for("shop-trial", [EventKind::SpotWarning]);
    trial_to(&stage, Full);
    stage.pass(60).await;
    let sundown = stage.start("sundown-0", &["--dry-run", "--trial", "--queue-url", &url]);
    stage.pass(30).await;
    for body in [
        bodies::spot(&spot[0], &stage.now()),
        "?".to_owned(),
        bodies::event("my.app", "Something", &stage.now(), &json!({})),
    ] {
        stage.world.aws.send_event("shop-trial", &body);
    }
    stage.pass(90).await;
    assert_eq!(stage.bodies_in("shop-trial").len(), 3);
    assert!(stage.aws_writes().is_empty(), "{:?}", stage.aws_writes());
    sundown.stop().await;
    stage.end();
}

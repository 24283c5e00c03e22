//! The pure rooms: no clock, no network, one core.

use std::{
    collections::{BTreeMap, VecDeque},
    fs,
    hint::black_box,
    path::Path,
    time::{Duration, Instant},
};

use sundown::{
    domain::{
        ApiAnswer, Limits, Moment, NodeName, Owner, Phase, Pod, PodKey, PodUid, PodWishes, seconds,
    },
    drain::{
        DispatchEffect, DispatchInput, DispatchSettings, Dispatcher, Drain, Effect, Input, Outcome,
        Settings, Start, classify,
    },
    interruption::{Parsed, parse as parse_body},
};

use crate::report::{Bar, Baseline, Figure};

/// The best of several runs: what else the machine does only ever adds time.
fn best<T: Ord>(runs: usize, mut run: impl FnMut() -> T) -> T {
    (0..runs).map(|_| run()).min().unwrap()
}

fn per_second(count: usize, took: Duration) -> f64 {
    count as f64 / took.as_secs_f64()
}

/// Every well-formed kind of message there is an example of.
fn bodies() -> Vec<String> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/corpus/parse");
    let mut files: Vec<_> =
        fs::read_dir(corpus).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let texts = files.iter().map(|file| fs::read_to_string(file).unwrap());
    texts.filter(|text| matches!(parse_body(text), Ok(Parsed::Interruptions(_)))).collect()
}

pub fn parse() -> Vec<Figure> {
    let bodies = bodies();
    let rounds = 100_000 / bodies.len();
    let time = |work: &dyn Fn(&str)| {
        best(7, || {
            let begun = Instant::now();
            for _ in 0..rounds {
                for body in &bodies {
                    work(body);
                }
            }
            begun.elapsed()
        })
    };
    let ours = time(&|body| drop(black_box(parse_body(black_box(body)))));
    let serde =
        time(&|body| drop(black_box(serde_json::from_str::<serde_json::Value>(black_box(body)))));
    let count = rounds * bodies.len();
    vec![Figure {
        name: "parse",
        what: format!("messages parsed on one core, {} kinds mixed", bodies.len()),
        measured: per_second(count, ours).into(),
        unit: "/s",
        bar: Bar::Least(500_000.0),
        ratio: Bar::Least(0.7),
        baseline: Some(Baseline {
            what: "the same bodies to serde_json::Value",
            value: per_second(count, serde),
            floor: Bar::Least(380_000.0),
        }),
    }]
}

pub fn drain_core() -> Vec<Figure> {
    let hundred = best(50, || drain_all(100));
    let per_pod = |pods: usize, took: Duration| took.as_secs_f64() * 1e6 / pods as f64;
    let ten_thousand = best(3, || drain_all(10_000));
    // What any program would do at least: keep the same pods in an ordered map by UID, look each up
    // three times, take it out.
    let map = best(50, || map_all(100));
    let map_ten_thousand = best(3, || map_all(10_000));
    let growth = |small: Duration, large: Duration| per_pod(10_000, large) / per_pod(100, small);
    vec![
        Figure {
            name: "drain-core",
            what: "core time of a drain of 100 pods, start to finish".to_owned(),
            measured: (hundred.as_secs_f64() * 1e3).into(),
            unit: "ms",
            bar: Bar::Most(0.9),
            ratio: Bar::Most(20.0),
            baseline: Some(Baseline {
                what: "the same pods into and out of an ordered map",
                value: map.as_secs_f64() * 1e3,
                floor: Bar::Most(0.5),
            }),
        },
        Figure {
            name: "drain-core-linear",
            what: "cost a pod in a drain of 10 000 pods, in that of one in 100".to_owned(),
            measured: growth(hundred, ten_thousand).into(),
            unit: "times",
            bar: Bar::Most(3.4),
            ratio: Bar::Most(1.0),
            baseline: Some(Baseline {
                what: "the same for the ordered map",
                value: growth(map, map_ten_thousand),
                floor: Bar::Most(8.0),
            }),
        },
    ]
}

fn at(millis: u64) -> Moment {
    Moment::UNIX_EPOCH.plus(Duration::from_millis(1_700_000_000_000 + millis))
}

fn pod(i: usize) -> Pod {
    Pod {
        key: PodKey { namespace: "default".into(), name: format!("web-5d9c6f7b8-{i:05}") },
        // As random as a real one, so that neighbours in a list are none in the map.
        uid: format!(
            "{:08x}-aaaa-4bbb-8ccc-0123456789ab",
            i.wrapping_mul(2_654_435_761) % (1 << 32)
        )
        .into(),
        node: Some("node".into()),
        created: Some(at(0)),
        labels: (0..5).map(|k| (format!("example.com/label-{k}"), format!("value-{k}"))).collect(),
        phase: Phase::Running,
        ready: true,
        deletion: None,
        grace: seconds(30),
        owner: Some(Box::new(Owner {
            api_version: "apps/v1".into(),
            kind: "ReplicaSet".into(),
            name: "web-5d9c6f7b8".into(),
        })),
        mirror: false,
        tolerates_us: false,
        priority: 0,
        finalizers: false,
        has_claims: false,
        wishes: PodWishes::default(),
    }
}

/// One node with its dispatcher: listed, each pod evicted, terminating, gone; how long that took in
/// all.
fn drain_all(count: usize) -> Duration {
    let pods: Vec<Pod> = (0..count).map(pod).collect();
    let mut by_uid: BTreeMap<PodUid, Pod> =
        pods.iter().map(|p| (p.uid.clone(), p.clone())).collect();
    let node: NodeName = "node".into();
    let end = at(3_600_000);
    let limits =
        Limits { force_at: Some(end), end_at: Some(end), ..Limits::without_deadline(at(0), true) };
    let mut core = Core {
        dispatcher: Dispatcher::new(DispatchSettings::default()),
        go: VecDeque::new(),
        now: 0,
        empty: false,
    };

    let begun = Instant::now();
    let mut drain =
        Drain::new(Start { node, cordoned_at: at(0), limits, own_pod: None }, Settings::default());
    let effects = drain.step(at(0), Input::Listed(pods));
    core.feed(effects);
    let mut sent = 0;
    let mut changing = Duration::ZERO;
    while let Some(uid) = core.go.pop_front() {
        core.now += 1;
        let order = drain.order(&uid, at(core.now), true).expect("it is wanted");
        sent += 1;
        let answer = ApiAnswer { code: 201, ..ApiAnswer::default() };
        core.dispatch(DispatchInput::Answer { uid: uid.clone(), class: classify(&answer) });
        let effects = drain.step(at(core.now), Input::Answer { order, answer });
        core.feed(effects);
        // What the watch would bring is no work of the core.
        let paused = Instant::now();
        let terminating =
            Pod { deletion: Some(at(core.now + 30_000)), ..by_uid.remove(&uid).unwrap() };
        changing += paused.elapsed();
        let effects = drain.step(at(core.now), Input::Changed(terminating));
        core.feed(effects);
        let effects = drain.step(at(core.now), Input::Gone(uid));
        core.feed(effects);
    }
    let effects = drain.step(at(core.now + 5_000), Input::Tick);
    core.feed(effects);
    let took = begun.elapsed().saturating_sub(changing);
    assert_eq!(sent, count, "one order a pod");
    assert!(core.empty, "it has ended");
    took
}

struct Core {
    dispatcher: Dispatcher,
    go: VecDeque<PodUid>,
    now: u64,
    empty: bool,
}

impl Core {
    fn feed(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Dispatch(input) => self.dispatch(input),
                Effect::Ended(Outcome::Empty) => self.empty = true,
                _ => {}
            }
        }
    }

    fn dispatch(&mut self, input: DispatchInput) {
        let sends = self.dispatcher.step(at(self.now), input);
        self.go.extend(sends.into_iter().map(|DispatchEffect::Send { uid, .. }| uid));
    }
}

fn map_all(count: usize) -> Duration {
    let pods: Vec<Pod> = (0..count).map(pod).collect();
    let uids: Vec<PodUid> = pods.iter().map(|p| p.uid.clone()).collect();
    let begun = Instant::now();
    let mut map: BTreeMap<PodUid, Pod> = pods.into_iter().map(|p| (p.uid.clone(), p)).collect();
    for uid in &uids {
        for _ in 0..3 {
            black_box(map.get(uid));
        }
        black_box(map.remove(uid));
    }
    begun.elapsed()
}

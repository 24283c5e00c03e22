//! The dispatcher alone: requests that are not answered must not keep others from being sent.

use super::{bench::*, *};

/// A pod of this namespace that no budget selects.
fn of(namespace: &str, name: &str) -> Pod {
    Pod { key: PodKey { namespace: namespace.into(), name: name.into() }, ..other(name) }
}

/// An API server that answers each request after 5 ms. If a webhook hangs for the pod, the answer
/// is an error after ten seconds.
struct Server {
    bench: Bench,
    now: Moment,
    answers: std::collections::BTreeMap<(Moment, String), Class>,
    /// When the first request for each pod was sent.
    asked: std::collections::BTreeMap<String, Moment>,
    most: usize,
    hangs: fn(&str) -> bool,
}

impl Server {
    fn new(hangs: fn(&str) -> bool) -> Self {
        let (answers, asked) =
            (std::collections::BTreeMap::new(), std::collections::BTreeMap::new());
        Self {
            bench: Bench::with(DispatchSettings::default()),
            now: at(0),
            answers,
            asked,
            most: 0,
            hangs,
        }
    }

    fn step(&mut self, input: DispatchInput) {
        for name in self.bench.step(self.now, input) {
            let hangs = (self.hangs)(&name);
            let (after, class) = if hangs {
                (seconds(10), Class::Transient)
            } else {
                (Duration::from_millis(5), Class::Accepted)
            };
            self.asked.entry(name.clone()).or_insert(self.now);
            self.answers.insert((self.now.plus(after), name), class);
        }
        self.most = self.most.max(self.answers.len());
    }

    fn request(&mut self, node: &str, pod: Pod, method: Method) {
        self.step(DispatchInput::Request { node: node.into(), pod: Arc::new(pod), method });
    }

    fn run_until(&mut self, end: Moment) {
        loop {
            let answer = self.answers.first_key_value().map(|((at, _), _)| *at);
            let Some(next) = self
                .bench
                .d
                .next_wake()
                .into_iter()
                .chain(answer)
                .min()
                .filter(|next| *next <= end)
            else {
                break;
            };
            self.now = self.now.max(next);
            match self.answers.first_entry().filter(|e| e.key().0 <= self.now) {
                Some(answer) => {
                    let ((_, name), class) = answer.remove_entry();
                    self.step(DispatchInput::Answer { uid: name.as_str().into(), class });
                }
                None => self.step(DispatchInput::Tick),
            }
        }
        self.now = end;
    }

    /// When the first request for the last of the `n` pods with this prefix was sent; `None`: not
    /// yet for all of them.
    fn last_asked(&self, prefix: &str, n: usize) -> Option<Duration> {
        let asked: Vec<_> = self
            .asked
            .iter()
            .filter(|(name, _)| name.starts_with(prefix))
            .map(|(_, at)| at.since_or_zero(at_ms(0)))
            .collect();
        asked
            .into_iter()
            .max()
            .filter(|_| self.asked.keys().filter(|name| name.starts_with(prefix)).count() == n)
    }
}

/// Five hundred pods whose webhook never answers, in this many namespaces on 25 nodes, then two
/// hundred others on twenty spot nodes.
fn crowded(namespaces: usize, urgent: bool) -> Server {
    let mut s = Server::new(|name| name.starts_with("hung"));
    // All pods are requested before the first request is sent.
    s.step(DispatchInput::PausedAll(true));
    for i in 0..25 {
        s.bench.prioritize(&format!("a{i:02}"), !urgent, 110, 20);
    }
    for i in 0..500 {
        s.request(
            &format!("a{:02}", i % 25),
            of(&format!("hung{}", i % namespaces), &format!("hung{i:03}")),
            Method::Eviction,
        );
    }
    for i in 0..20 {
        s.bench.prioritize(&format!("b{i:02}"), false, 110, 20);
    }
    for i in 0..200 {
        s.request(&format!("b{:02}", i % 20), of("web", &format!("web{i:03}")), Method::Eviction);
    }
    s.step(DispatchInput::PausedAll(false));
    s
}

#[test]
fn pods_whose_webhook_never_answers_keep_no_other_pod_waiting() {
    for (namespaces, urgent) in
        [(1, false), (1, true), (10, false), (10, true), (40, false), (40, true)]
    {
        let mut s = crowded(namespaces, urgent);
        s.run_until(at(3));
        let last = s.last_asked("web", 200);
        assert!(
            last.is_some_and(|last| last <= Duration::from_millis(1500)),
            "{namespaces} namespaces, urgent {urgent}: {last:?}"
        );
        assert!(s.most <= 64, "{}", s.most);
    }
}

#[test]
fn a_namespace_whose_webhook_begins_to_hang_is_left_with_few_slots() {
    let mut s = Server::new(|name| name.starts_with('p') && name >= "p200");
    for name in names("p", 700) {
        s.request("n1", of("web", &name), Method::Eviction);
    }
    s.run_until(at_ms(900));
    assert_eq!(s.answers.len(), 32, "it had many answers, so it has all slots");
    for name in names("q", 100) {
        s.request("n2", of("other", &name), Method::Eviction);
    }
    s.run_until(at_ms(2500));
    assert!(s.last_asked("q", 100).is_some(), "the other namespace has its slots");
    assert_eq!(
        s.answers.len(),
        32,
        "the silent requests no longer count, and no more of them are sent"
    );
    s.run_until(at(12));
    assert_eq!(s.answers.len(), 4, "after the time-outs only a few");
}

#[test]
fn requests_of_hundreds_of_hanging_namespaces_are_limited_and_delay_no_delete() {
    let mut s = Server::new(|name| name.starts_with("hung"));
    for i in 0..600 {
        s.request(
            &format!("a{i:03}"),
            of(&format!("hung{i}"), &format!("hung{i:03}")),
            Method::Eviction,
        );
    }
    s.run_until(at(2));
    assert_eq!(s.answers.len(), 48, "the limit for silent queues is half as many again");
    s.request("b", of("web", "web"), Method::Delete);
    assert_eq!(s.asked.get("web"), Some(&at(2)));
}

#[test]
fn deletes_whose_webhook_never_answers_keep_no_other_delete_waiting() {
    let mut s = Server::new(|name| name.starts_with("hung"));
    for name in names("hung", 100) {
        s.request("a", of("hung", &name), Method::Delete);
    }
    for name in names("web", 100) {
        s.request("b", of("web", &name), Method::Delete);
    }
    s.run_until(at(1));
    assert!(s.last_asked("web", 100).is_some_and(|last| last < seconds(1)));
}

#[test]
fn an_answer_gives_a_namespace_its_slots_back() {
    let mut s = Server::new(|name| name.starts_with("hung"));
    for name in names("hung", 8) {
        s.request("a", of("web", &name), Method::Eviction);
    }
    s.run_until(at(9));
    assert_eq!(s.answers.len(), 4);
    for name in names("hung", 8) {
        s.step(DispatchInput::Cancel { uid: name.as_str().into() });
    }
    s.run_until(at(11));
    for name in names("web", 100) {
        s.request("b", of("web", &name), Method::Eviction);
    }
    s.run_until(at(12));
    assert!(s.last_asked("web", 100).is_some());
}

#[test]
fn a_server_that_is_slow_to_answer_keeps_all_its_slots() {
    let mut b = Bench::with(DispatchSettings::default());
    for name in names("p", 300) {
        b.request(at(0), "n1", other(&name));
    }
    // Each answer takes three seconds.
    for round in 1..9 {
        for name in
            b.sent.clone().iter().skip(b.d.status().waiting.abs_diff(300) - b.d.status().in_flight)
        {
            b.answer(at(3 * round), name, Class::Accepted);
        }
    }
    assert!(b.d.status().in_flight >= 32, "{:?}", b.d.status());
}

#[test]
fn an_untried_pod_that_may_be_deleted_is_evicted_if_possible() {
    let goes = |b: &mut Bench, name: &str| {
        let input = DispatchInput::Request {
            node: "n1".into(),
            pod: Arc::new(other(name)),
            method: Method::EvictionOrDelete,
        };
        b.d.step(at(0), input)
            .into_iter()
            .map(|DispatchEffect::Send { evict, .. }| evict)
            .collect::<Vec<_>>()
    };
    let mut b = Bench::with(DispatchSettings::default());
    assert_eq!(goes(&mut b, "a"), [true]);
    assert_eq!(
        goes(&mut b, "b"),
        [false],
        "the queue of evictions has no room before the first answer"
    );
    let mut b = Bench::new();
    assert_eq!(goes(&mut b, "a"), [true]);
    b.step(
        at(0),
        DispatchInput::Answer {
            uid: "a".into(),
            class: Class::Overload { retry_after: seconds(200) },
        },
    );
    b.prioritize("n1", false, 100, 1);
    assert_eq!(goes(&mut b, "b"), [false], "no evictions while the API server is overloaded");
}

#[test]
fn a_namespace_without_pods_is_remembered_for_a_minute() {
    for (later, at_once) in [(59, 4), (60, 1)] {
        let mut b = Bench::with(DispatchSettings::default());
        b.request(at(0), "n1", other("a"));
        b.answer(at(0), "a", Class::Accepted);
        assert_eq!((b.d.status(), b.d.next_wake()), (DispatchStatus::default(), None));
        b.step(at(later), DispatchInput::Tick);
        let sent: usize =
            names("p", 10).iter().map(|name| b.request(at(later), "n1", other(name)).len()).sum();
        assert_eq!(sent, at_once, "after {later} s");
    }
}

#[test]
fn after_an_overload_all_pods_are_tried_again() {
    let mut b = Bench::with(DispatchSettings::default());
    b.request(at(0), "n1", other("a"));
    b.answer(at(0), "a", Class::Overload { retry_after: seconds(30) });
    b.request(at(1), "n2", other("b"));
    assert_eq!(b.step(at(30), DispatchInput::Tick), ["a", "b"]);
}

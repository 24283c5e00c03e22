//! Plays many seeds side by side: hands them out, watches over them, and adds up what came of them.

use std::{
    any::Any,
    cell::Cell,
    collections::BTreeMap,
    fmt,
    hash::{DefaultHasher, Hasher as _},
    panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook},
    sync::{
        Mutex, Once,
        mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    },
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::{coverage::Coverage, plan::Plan, play_seed};
use crate::judge::{Evidence, Ruling, promises::Tally, verdict};

/// A life that takes this long gets a warning: paused time stands still while a task spins.
const SLOW: Duration = Duration::from_secs(120);
/// After this long the process gives up: a thread that spins cannot be stopped.
const STUCK: Duration = Duration::from_secs(600);
const PROGRESS: Duration = Duration::from_secs(10);

/// How to play.
#[derive(Debug, Clone, Copy)]
pub struct Orders {
    /// Lives played at once.
    pub threads: usize,
    /// Hashes of the lives are wanted.
    pub hashes: bool,
    /// Progress is written to standard error.
    pub progress: bool,
}

/// What came of all lives.
#[derive(Debug, Default)]
pub struct Summary {
    pub lives: usize,
    pub took: Duration,
    /// The promises that each failed seed broke.
    pub failures: BTreeMap<u64, Vec<String>>,
    pub coverage: Coverage,
    /// How often each promise was judged, and how often excused.
    pub tally: Tally,
    /// A hash of everything that happened in each life, where hashes were ordered.
    pub hashes: BTreeMap<u64, u64>,
}

/// What came of one life.
struct Outcome {
    seed: u64,
    broken: Vec<String>,
    coverage: Coverage,
    tally: Tally,
    hash: Option<u64>,
}

/// The seed that a worker plays, and since when.
type Slot = Mutex<Option<(u64, Instant)>>;

thread_local! { static PLAYED: Cell<Option<u64>> = const { Cell::new(None) }; }

/// Plays these seeds, each on a runtime of its own, and judges each life. Evidence is dropped as
/// soon as a life is judged.
pub fn play_all(seeds: Vec<u64>, orders: Orders) -> Summary {
    name_seed_on_panic();
    let total = seeds.len();
    let seeds = Mutex::new(seeds.into_iter());
    let slots: Vec<Slot> = (0..orders.threads.max(1)).map(|_| Slot::default()).collect();
    thread::scope(|scope| {
        let (sender, results) = sync_channel(64);
        for slot in &slots {
            let (sender, seeds) = (sender.clone(), &seeds);
            scope.spawn(move || work(seeds, slot, orders, &sender));
        }
        drop(sender);
        collect(&results, &slots, total, orders)
    })
}

/// In the release profile a panic ends the process: this prints first which life it was.
fn name_seed_on_panic() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = take_hook();
        set_hook(Box::new(move |info| {
            if let Some(seed) = PLAYED.get() {
                eprintln!("a panic in the life of seed {seed}: {:#?}", Plan::of(seed));
            }
            before(info);
        }));
    });
}

fn work(
    seeds: &Mutex<std::vec::IntoIter<u64>>,
    slot: &Slot,
    orders: Orders,
    results: &SyncSender<Outcome>,
) {
    // A guard in the condition of a loop would live through its body.
    let next = || seeds.lock().unwrap().next();
    while let Some(seed) = next() {
        *slot.lock().unwrap() = Some((seed, now()));
        PLAYED.set(Some(seed));
        let outcome = catch_unwind(AssertUnwindSafe(|| outcome(seed, orders)));
        PLAYED.set(None);
        *slot.lock().unwrap() = None;
        let outcome = outcome.unwrap_or_else(|panic| Outcome {
            seed,
            broken: vec![format!("a panic: {}", message(panic.as_ref()))],
            coverage: Coverage::default(),
            tally: Tally::default(),
            hash: None,
        });
        if results.send(outcome).is_err() {
            return;
        }
    }
}

fn outcome(seed: u64, orders: Orders) -> Outcome {
    let evidence = play_seed(seed);
    let Ruling { broken, tally } = verdict(&evidence);
    let hash = orders.hashes.then(|| hash(&evidence, &broken));
    Outcome { seed, broken, coverage: Coverage::of(&Plan::of(seed), &evidence), tally, hash }
}

/// Adds up what the workers send, until the last one has ended.
fn collect(results: &Receiver<Outcome>, slots: &[Slot], total: usize, orders: Orders) -> Summary {
    let begun = now();
    let mut summary = Summary::default();
    let (mut reported, mut warned) = (begun, None);
    loop {
        match results.recv_timeout(Duration::from_secs(1)) {
            Ok(outcome) => summary.add(outcome),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        summary.took = begun.elapsed();
        if orders.progress && reported.elapsed() >= PROGRESS {
            reported = now();
            let Summary { lives, failures, .. } = &summary;
            let (rate, failed) = (summary.rate(), failures.len());
            eprintln!("{lives} of {total} lives, {rate:.1} a second, {failed} failed");
        }
        watch_over(slots, &mut warned);
    }
    summary
}

/// Reports a life that does not end, and gives up where one never will.
fn watch_over(slots: &[Slot], warned: &mut Option<u64>) {
    for slot in slots {
        let Some((seed, since)) = *slot.lock().unwrap() else { continue };
        if since.elapsed() > STUCK {
            eprintln!("seed {seed} has been running for ten minutes: given up");
            std::process::abort();
        }
        if since.elapsed() > SLOW && *warned != Some(seed) {
            *warned = Some(seed);
            eprintln!("seed {seed} has been running for over two minutes: something spins");
        }
    }
}

impl Summary {
    /// Takes in what came of other seeds.
    #[cfg(test)]
    pub fn append(&mut self, mut other: Self) {
        self.lives += other.lives;
        self.took += other.took;
        self.failures.append(&mut other.failures);
        self.coverage.add(&other.coverage);
        self.tally.add(&other.tally);
        self.hashes.append(&mut other.hashes);
    }

    fn add(&mut self, outcome: Outcome) {
        self.lives += 1;
        self.coverage.add(&outcome.coverage);
        self.tally.add(&outcome.tally);
        if let Some(hash) = outcome.hash {
            self.hashes.insert(outcome.seed, hash);
        }
        if !outcome.broken.is_empty() {
            eprintln!("seed {} breaks:\n  {}", outcome.seed, outcome.broken.join("\n  "));
            self.failures.insert(outcome.seed, outcome.broken);
        }
    }

    /// Lives a second.
    pub fn rate(&self) -> f64 {
        self.lives as f64 / self.took.as_secs_f64().max(f64::MIN_POSITIVE)
    }

    /// A line for each life: its seed and its hash.
    pub fn hash_lines(&self) -> String {
        let lines: Vec<String> =
            self.hashes.iter().map(|(seed, hash)| format!("{seed} {hash:016x}\n")).collect();
        lines.concat()
    }

    /// The same as the text, for programs.
    pub fn json(&self) -> Value {
        json!({
            "lives": self.lives,
            "seconds": self.took.as_secs_f64(),
            "lives_per_second": self.rate(),
            "failures": self.failures.iter().map(|(seed, broken)| json!({
                "seed": seed, "broken": broken
            })).collect::<Vec<_>>(),
            "coverage": self.coverage.json(),
            "promises": self.tally.json(),
        })
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (lives, seconds, rate) = (self.lives, self.took.as_secs_f64(), self.rate());
        writeln!(f, "{lives} lives in {seconds:.1} s, {rate:.1} a second\n")?;
        writeln!(f, "{}\n{}", self.coverage, self.tally)?;
        if self.failures.is_empty() {
            return writeln!(f, "No life broke a promise.");
        }
        writeln!(f, "{} lives broke a promise:", self.failures.len())?;
        for (seed, broken) in &self.failures {
            writeln!(f, "\nseed {seed} breaks:\n  {}", broken.join("\n  "))?;
        }
        writeln!(f, "\nTo see one again: tests/simulate-many --replay SEED")
    }
}

/// A hash of everything that happened in a life. It is the same in every process and on every
/// machine: `DefaultHasher::new` has no keys of its own.
fn hash(evidence: &Evidence, broken: &[String]) -> u64 {
    struct Feed(DefaultHasher);
    impl fmt::Write for Feed {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            self.0.write(text.as_bytes());
            Ok(())
        }
    }
    let mut feed = Feed(DefaultHasher::new());
    let all = (&evidence.entries, &evidence.requests, &evidence.calls, &evidence.actions);
    let rest = (&evidence.deletions, &evidence.changes, &evidence.events, evidence.idle, broken);
    fmt::Write::write_fmt(&mut feed, format_args!("{all:?} {rest:?}")).unwrap();
    feed.0.finish()
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
}

#[allow(clippy::disallowed_methods, reason = "how long a life takes is real time")]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_reported_of_two_seeds_does_not_depend_on_how_many_are_played_at_once() {
        let played = |threads| {
            let orders = Orders { threads, hashes: true, progress: false };
            let Summary { lives, failures, coverage, hashes, .. } = play_all(vec![1, 2], orders);
            (lives, failures, coverage, hashes)
        };
        let (one, two) = (played(1), played(2));
        assert_eq!(one.0, 2);
        assert_ne!(one.3[&1], one.3[&2]);
        assert_eq!(one, two);
    }
}

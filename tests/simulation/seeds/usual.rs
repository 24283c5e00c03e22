//! The random worlds that every run of the tests plays.

use std::{
    collections::BTreeSet,
    fmt::Write as _,
    io::Write as _,
    num::NonZero,
    ops::Range,
    time::{SystemTime, UNIX_EPOCH},
};

use super::{
    fourteenth,
    once_failed::ONCE_FAILED,
    plan::Plan,
    play_seed, replay,
    runner::{Orders, play_all},
    second, third, thirteenth, twelfth,
};

/// How many seeds every run plays, from 1 on, unless `SUNDOWN_SEEDS` says otherwise.
const USUAL: u64 = 40;
/// Every run plays these too: worlds with what the second stream draws.
const SECOND: Range<u64> = second::FIRST + 1..second::FIRST + 61;
/// And these: with what the third stream draws.
const THIRD: Range<u64> = third::FIRST + 1..third::FIRST + 41;
/// And these: with what the twelfth stream draws, and all before it.
const TWELFTH: Range<u64> = twelfth::FIRST + 1..twelfth::FIRST + 41;
/// And these: with what the thirteenth stream draws, and all before it. Played apart, because the
/// shares of what is judged were set without them.
const THIRTEENTH: Range<u64> = thirteenth::FIRST + 1..thirteenth::FIRST + 41;
/// And these: with what all streams draw.
const ALL: Range<u64> = fourteenth::FIRST + 1..fourteenth::FIRST + 41;

fn variable(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{name}={value} is no number")))
}

/// A seed that no run has played: each second has a thousand seeds of its own, far above those that
/// pages name. All streams draw their worlds.
#[allow(clippy::disallowed_methods, reason = "new seeds come from the time of day")]
fn new_seed() -> u64 {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    (1_000_000_000 + seconds) * 1_000
}

/// Writes past the capture of the test harness, so that a run that passes also shows what it
/// played.
fn report(text: &str) {
    std::io::stdout().write_all(format!("\n{text}\n").as_bytes()).unwrap();
}

#[test]
fn whatever_happens_in_a_random_world_the_promises_are_kept() {
    if let Some(seed) = variable("SUNDOWN_SEED") {
        let broken = replay(seed);
        assert!(broken.is_empty(), "seed {seed} breaks:\n{}", broken.join("\n"));
        return;
    }
    let only_from = variable("SUNDOWN_FIRST_SEED");
    let first = only_from.unwrap_or(1);
    let fixed_count = variable("SUNDOWN_SEEDS").unwrap_or(USUAL);
    let fixed = first..first + fixed_count;
    let first_new = variable("SUNDOWN_FIRST_NEW_SEED").unwrap_or_else(new_seed);
    let count_new = variable("SUNDOWN_NEW_SEEDS").unwrap_or(0);
    let new = first_new..first_new + count_new;
    let mut what = format!("from {first} to {}", fixed.end - 1);
    let mut seeds: BTreeSet<u64> = fixed.chain(new.clone()).collect();
    if only_from.is_none() {
        write!(what, ", from {} to {}", SECOND.start, SECOND.end - 1).unwrap();
        write!(what, ", from {} to {}", THIRD.start, THIRD.end - 1).unwrap();
        write!(what, ", from {} to {}", TWELFTH.start, TWELFTH.end - 1).unwrap();
        write!(what, ", from {} to {}", THIRTEENTH.start, THIRTEENTH.end - 1).unwrap();
        write!(what, ", from {} to {}", ALL.start, ALL.end - 1).unwrap();
        write!(what, ", {} that once failed", ONCE_FAILED.len()).unwrap();
        seeds.extend(SECOND);
        seeds.extend(THIRD);
        seeds.extend(TWELFTH);
    }
    // Played apart: much is broken in these worlds, so their number would change how much of each
    // promise is judged.
    let apart: BTreeSet<u64> = ONCE_FAILED
        .iter()
        .map(|(seed, _)| *seed)
        .chain(THIRTEENTH)
        .filter(|seed| only_from.is_none() && !seeds.contains(seed))
        .collect();
    if count_new > 0 {
        write!(what, ", {count_new} never played before").unwrap();
        report(&format!("again: SUNDOWN_NEW_SEEDS={count_new} SUNDOWN_FIRST_NEW_SEED={first_new}"));
    }
    let newest: BTreeSet<u64> = ALL.filter(|_| only_from.is_none()).collect();
    let expected = seeds.len() + apart.len() + newest.len();
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
    let hashes = std::env::var("SUNDOWN_HASHES").ok();
    let orders = Orders { threads, hashes: hashes.is_some(), progress: false };
    let mut summary = play_all(seeds.into_iter().collect(), orders);
    let tally = summary.tally.clone();
    summary.append(play_all(apart.into_iter().collect(), orders));
    let of_newest = play_all(newest.into_iter().collect(), orders);
    let newest_tally = of_newest.tally.clone();
    summary.append(of_newest);
    if let Some(file) = hashes {
        std::fs::write(file, summary.hash_lines()).unwrap();
    }
    // tests/run reads this line.
    report(&format!("played: {} seeds ({what})", summary.lives));
    report(&if count_new > 0 { summary.to_string() } else { tally.to_string() });
    if only_from.is_none() {
        report(&format!("of the newest stream:\n{newest_tally}"));
    }
    assert_eq!(summary.lives, expected);
    // Fewer seeds say too little of shares.
    if only_from.is_none() && fixed_count >= USUAL {
        assert_eq!(tally.below_the_floor(), Vec::<String>::new());
        assert_eq!(newest_tally.below_the_floor_of_newest_stream(), Vec::<String>::new());
    }
    let again = "SUNDOWN_SEED=N cargo test --test simulation seeds:: -- --nocapture";
    assert!(summary.failures.is_empty(), "{summary}\nor, in this profile: {again}");
}

#[test]
fn the_same_seed_gives_the_same_journal_twice() {
    let journal = |seed: u64| {
        let evidence = play_seed(seed);
        format!(
            "{:#?}",
            (&evidence.entries, &evidence.requests, &evidence.calls, &evidence.actions)
        )
    };
    // One in which much is broken.
    let seed = (1_u64..)
        .find(|s| Plan::of(*s).acts.iter().filter(|(_, a)| a.trouble().is_some()).count() > 4)
        .unwrap();
    let (one, two) = (journal(seed), journal(seed));
    if one != two {
        let differs = one.lines().zip(two.lines()).find(|(a, b)| a != b);
        panic!("seed {seed} went differently: {differs:?}");
    }
    assert_ne!(one, journal(seed + 1));
}

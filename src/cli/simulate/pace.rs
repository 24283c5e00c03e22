//! How fast time goes.

use std::{
    fmt,
    io::{BufRead as _, IsTerminal as _},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

/// How fast time goes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Pace {
    /// As fast as things can be computed.
    Virtual,
    /// As on the wall.
    Real,
    /// So many times as fast.
    Times(f64),
}

/// The speed at which a person can follow the built-in scenario: a minute of it in two seconds.
pub(super) const FOR_PEOPLE: f64 = 30.0;

impl fmt::Display for Pace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Virtual => f.write_str("speed max"),
            Self::Real => f.write_str("real time"),
            Self::Times(n) => write!(f, "speed {n}"),
        }
    }
}

/// Whether a person has pressed Enter, to see the end. Clones share it.
#[derive(Debug, Clone, Default)]
pub(super) struct Skip(Arc<Pressed>);

#[derive(Debug, Default)]
struct Pressed {
    any: AtomicBool,
    /// How often since the screen was drawn.
    rows: AtomicUsize,
}

impl Skip {
    /// Listens for Enter, where a person can press it.
    pub(super) fn on_enter() -> Option<Self> {
        if !std::io::stdin().is_terminal() {
            return None;
        }
        let skip = Self::default();
        let pressed = Arc::clone(&skip.0);
        // It waits for a line as long as the process lives.
        let listen = move || {
            for line in std::io::stdin().lock().lines() {
                if line.is_err() {
                    return;
                }
                pressed.rows.fetch_add(1, Ordering::Relaxed);
                pressed.any.store(true, Ordering::Relaxed);
            }
        };
        std::thread::Builder::new().name("enter".to_owned()).spawn(listen).ok().map(|_| skip)
    }

    fn is_pressed(&self) -> bool {
        self.0.any.load(Ordering::Relaxed)
    }

    /// By how many rows Enter has moved the cursor down since this was asked the last time.
    pub(super) fn take_rows(&self) -> usize {
        self.0.rows.swap(0, Ordering::Relaxed)
    }
}

/// Simulated time goes on by this much at most before the wall is looked at: nothing that the
/// service or the servers wait for is shorter by so little that it would matter to a person.
const LONGEST: Duration = Duration::from_millis(100);
/// No timer is finer.
const SHORTEST: Duration = Duration::from_millis(1);
/// The wall is looked at this often, where time goes slowly enough.
const LOOK: Duration = Duration::from_millis(20);

/// Holds simulated time back to so many times the wall's, until somebody presses Enter. Paused time
/// goes on by itself, from one timer to the next and only when everything that is due is done, so
/// that it needs no pushing: whatever the speed, no timer comes late. To be started on a runtime of
/// one thread, which it stops for as long as the wall is behind; a machine that is too slow for the
/// speed runs as fast as it can.
pub(super) fn hold_back(times: f64, skip: Skip) {
    let slice = LOOK.mul_f64(times).clamp(SHORTEST, LONGEST);
    // It ends with the runtime.
    drop(tokio::spawn(async move {
        let (wall, simulated) = (now(), tokio::time::Instant::now());
        while !skip.is_pressed() {
            tokio::time::sleep(slice).await;
            let due = simulated.elapsed().div_f64(times);
            let mut ahead = due.saturating_sub(wall.elapsed());
            // At a low speed, in pieces: Ctrl-C and Enter are heard at once.
            while !ahead.is_zero() && !skip.is_pressed() {
                std::thread::sleep(ahead.min(LOOK));
                tokio::task::yield_now().await;
                ahead = due.saturating_sub(wall.elapsed());
            }
        }
    }));
}

#[allow(
    clippy::disallowed_methods,
    reason = "how fast simulated time goes is measured on the wall"
)]
fn now() -> Instant {
    Instant::now()
}

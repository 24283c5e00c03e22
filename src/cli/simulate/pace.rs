//! Sets how fast simulated time passes.

use std::{
    fmt,
    io::{BufRead as _, IsTerminal as _},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

/// The speed of simulated time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Pace {
    /// As fast as the machine computes.
    Virtual,
    /// In real time.
    Real,
    /// This many times as fast as real time.
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

/// Whether the user has pressed Enter to skip to the end. Clones share it.
#[derive(Debug, Clone, Default)]
pub(super) struct Skip(Arc<Pressed>);

#[derive(Debug, Default)]
struct Pressed {
    any: AtomicBool,
    /// How often Enter was pressed since the screen was drawn.
    rows: AtomicUsize,
}

impl Skip {
    /// Listens for Enter on a thread of its own. `None`: standard input is not a terminal.
    pub(super) fn on_enter() -> Option<Self> {
        if !std::io::stdin().is_terminal() {
            return None;
        }
        let skip = Self::default();
        let pressed = Arc::clone(&skip.0);
        // The thread waits for lines until the process ends.
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

    /// By how many rows Enter has moved the cursor down since the last call.
    pub(super) fn take_rows(&self) -> usize {
        self.0.rows.swap(0, Ordering::Relaxed)
    }
}

/// The most simulated time that passes before the real clock is read again. A user does not notice
/// such a difference.
const LONGEST: Duration = Duration::from_millis(100);
/// Tokio's timers have this resolution.
const SHORTEST: Duration = Duration::from_millis(1);
/// How often the real clock is read, at low speeds.
const LOOK: Duration = Duration::from_millis(20);

/// Limits simulated time to `times` the real time, until the user presses Enter. Tokio's paused
/// time advances by itself, from one timer to the next, and only when everything that is due is
/// done. So no timer is late at any speed. Start it on a runtime of one thread: it blocks the
/// thread while simulated time is ahead. A machine that is too slow for the speed runs as fast as
/// it can.
pub(super) fn hold_back(times: f64, skip: Skip) {
    let slice = LOOK.mul_f64(times).clamp(SHORTEST, LONGEST);
    // The task ends with the runtime.
    drop(tokio::spawn(async move {
        let (wall, simulated) = (now(), tokio::time::Instant::now());
        while !skip.is_pressed() {
            tokio::time::sleep(slice).await;
            let due = simulated.elapsed().div_f64(times);
            let mut ahead = due.saturating_sub(wall.elapsed());
            // Sleeps in short pieces, so that Ctrl-C and Enter work at once at a low speed.
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

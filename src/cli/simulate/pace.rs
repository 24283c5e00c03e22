//! How fast time goes.

use std::time::{Duration, Instant};

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

/// Simulated time goes on by this much at most before the wall is looked at: nothing that the service or the servers wait for is shorter
/// by so little that it would matter to a person.
const LONGEST: Duration = Duration::from_millis(100);
/// No timer is finer.
const SHORTEST: Duration = Duration::from_millis(1);
/// The wall is looked at this often, where time goes slowly enough.
const LOOK: Duration = Duration::from_millis(20);

/// Holds simulated time back to so many times the wall's. Paused time goes on by itself, from one timer to the next and only when
/// everything that is due is done, so that it needs no pushing: whatever the speed, no timer comes late. To be started on a runtime of one
/// thread, which it stops for as long as the wall is behind; a machine that is too slow for the speed runs as fast as it can.
pub(super) fn hold_back(times: f64) {
    let slice = LOOK.mul_f64(times).clamp(SHORTEST, LONGEST);
    // It ends with the runtime.
    drop(tokio::spawn(async move {
        let (wall, simulated) = (now(), tokio::time::Instant::now());
        loop {
            tokio::time::sleep(slice).await;
            let due = simulated.elapsed().div_f64(times);
            std::thread::sleep(due.saturating_sub(wall.elapsed()));
        }
    }));
}

#[allow(clippy::disallowed_methods, reason = "how fast simulated time goes is measured on the wall")]
fn now() -> Instant {
    Instant::now()
}

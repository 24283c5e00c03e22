//! Finds the instances of a Capacity Block whose warning has come: the warning names none of them.

use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::{context::Term, decision::TEST_TIMEOUT};
use crate::{
    domain::{InstanceId, Moment, ReservationId, seconds},
    runtime::Backoff,
};

/// How the search ended.
pub(super) enum SearchResult {
    /// EC2 has answered. Empty: no instance runs in the block.
    Found(Vec<InstanceId>),
    /// The message was given up to make room for others.
    GivenUp,
    /// EC2 has not answered before the end of the block, or in the time of a test event.
    TimedOut,
}

/// Asks EC2 until it answers, at most until `block_ends`, but for 60 s at least (a
/// test event: 60 s). The lookup limits
/// the rate and the duration of its calls, and logs and counts those that are denied.
pub(super) async fn search(
    term: &Term,
    reservation: &ReservationId,
    given_up: &CancellationToken,
    is_test: bool,
    block_ends: Moment,
) -> SearchResult {
    let clock = term.shared.clock;
    let shortest = clock.now().plus(TEST_TIMEOUT);
    let until = if is_test { shortest } else { block_ends.max(shortest) };
    tokio::select! {
        biased;
        () = given_up.cancelled() => SearchResult::GivenUp,
        found = ask(term, reservation) => SearchResult::Found(found),
        () = clock.sleep_until(until) => SearchResult::TimedOut,
    }
}

async fn ask(term: &Term, reservation: &ReservationId) -> Vec<InstanceId> {
    let mut pauses = Backoff::up_to(seconds(10));
    loop {
        match term.shared.lookups.blocks.get(reservation).await {
            Ok(found) => return found.map(|all| (*all).clone()).unwrap_or_default(),
            Err(error) => debug!(%error, "Cannot ask for a Capacity Block; asking again."),
        }
        // A denied call returns immediately, so the pause is at least 1 s.
        let pause = pauses.pause(&term.shared.random).max(seconds(1));
        tokio::time::sleep(pause).await;
    }
}

//! Finds the instances of a Capacity Block whose warning has come: the warning names none of them.

use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::{context::Term, decision::TEST_TIMEOUT};
use crate::{
    domain::{InstanceId, Moment, ReservationId, seconds},
    runtime::Backoff,
};

/// The end of the search.
pub(super) enum Search {
    /// EC2 has answered. Empty: no instance runs in the block.
    Found(Vec<InstanceId>),
    /// The message was given up to make room for others.
    GivenUp,
    /// EC2 has not answered in the time of a test event.
    TestTimeout,
}

/// Asks EC2 until it answers, however long that takes (a test event: 60 s). The lookup limits the
/// rate and the time of its calls, and logs and counts those that are denied.
pub(super) async fn search(
    term: &Term,
    reservation: &ReservationId,
    given_up: &CancellationToken,
    is_test: bool,
) -> Search {
    let clock = term.shared.clock;
    let until = if is_test { clock.now().plus(TEST_TIMEOUT) } else { Moment::MAX };
    tokio::select! {
        biased;
        () = given_up.cancelled() => Search::GivenUp,
        found = ask(term, reservation) => Search::Found(found),
        () = clock.sleep_until(until) => Search::TestTimeout,
    }
}

async fn ask(term: &Term, reservation: &ReservationId) -> Vec<InstanceId> {
    let mut pauses = Backoff::up_to(seconds(10));
    loop {
        match term.shared.lookups.blocks.get(reservation).await {
            Ok(found) => return found.map(|all| (*all).clone()).unwrap_or_default(),
            Err(error) => debug!(%error, "Cannot ask for a Capacity Block; asking again."),
        }
        // Not at once: a call that is denied fails at once.
        let pause = pauses.pause(&term.shared.random).max(seconds(1));
        tokio::time::sleep(pause).await;
    }
}

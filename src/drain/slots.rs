//! Limits on evictions and deletes in flight.

/// Limits on evictions and deletes in flight; the number is `--max-evictions`.
///
/// There are two limits. *Counted* requests are those of queues that get answers. Requests of
/// silent queues are not counted: they wait for an admission webhook and cost the API server
/// little. All requests together, silent queues included, have a higher limit, so that silent
/// queues cannot pile up. It is highest for deletes, then for urgent evictions, then for other
/// evictions.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slots(usize);

impl Slots {
    /// `slots`: counted evictions in flight, at most. 0 means 1.
    pub(super) fn new(slots: usize) -> Self {
        Self(slots.max(1))
    }

    /// Whether one more eviction may be sent. `counted`: counted requests in flight; `all`: with
    /// those of silent queues.
    pub(super) const fn has_room_for_eviction(
        self,
        urgent: bool,
        counted: usize,
        all: usize,
    ) -> bool {
        let Self(slots) = self;
        let extra = if urgent { (3 * slots).div_ceil(4) } else { slots.div_ceil(2) };
        counted < slots && all < slots + extra
    }

    /// Whether one more delete may be sent; arguments as above. Deletes are sent because of a
    /// deadline, so they have slots that evictions cannot take.
    pub(super) const fn has_room_for_delete(self, counted: usize, all: usize) -> bool {
        counted < self.for_deletes() && all < 2 * self.0
    }

    /// Counted requests in flight, evictions and deletes together, at most.
    pub(super) const fn for_deletes(self) -> usize {
        self.0 + self.0.div_ceil(4)
    }

    /// Evictions in flight in all suspect queues together, at most; as many deletes besides.
    pub(super) const fn for_suspects(self) -> usize {
        self.0.div_ceil(4)
    }
}

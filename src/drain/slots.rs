//! How many requests about pods may be under way at once.

/// How many requests about pods may be under way at once.
///
/// Requests of lanes from which no answer comes do not count: they wait for an admission webhook and cost the API server little. So that
/// they cannot pile up either, all requests together are bounded as well, with most room for what is most pressing.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slots(usize);

impl Slots {
    /// For this many requests that are answered; at least one.
    pub(super) fn new(slots: usize) -> Self {
        Self(slots.max(1))
    }

    /// `counted` requests are answered soon, `all` are under way with those that are not.
    pub(super) const fn has_room_for_eviction(self, urgent: bool, counted: usize, all: usize) -> bool {
        let Self(slots) = self;
        let beside = if urgent { (3 * slots).div_ceil(4) } else { slots.div_ceil(2) };
        counted < slots && all < slots + beside
    }

    /// As [`has_room_for_eviction`](Self::has_room_for_eviction). A delete is sent towards a deadline: it has room beside all evictions.
    pub(super) const fn has_room_for_delete(self, counted: usize, all: usize) -> bool {
        counted < self.for_deletes() && all < 2 * self.0
    }

    /// Requests that are answered, if deletes are among them.
    pub(super) const fn for_deletes(self) -> usize {
        self.0 + self.0.div_ceil(4)
    }

    /// Evictions, and as many deletes, that may be under way in all suspect lanes together.
    pub(super) const fn for_suspects(self) -> usize {
        self.0.div_ceil(4)
    }
}

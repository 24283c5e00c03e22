//! The conditions of `/readyz`.

/// The conditions of `/readyz` that must exist before a process can be ready. [`super::serve`] adds them
/// while it starts.
pub const AWAITED: [&str; 3] = ["nodes", "budgets", "queue"];

/// All conditions of `/readyz`.
pub(super) const CONDITIONS: [&str; 6] =
    ["nodes", "budgets", "queue", "lease", "receiving", "records"];

//! What becomes of the Nodes of instances that are gone.

/// What Sundown does with the Nodes of instances that are gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GoneNodes {
    /// `--out-of-service-taint`.
    pub taint: bool,
    /// `--delete-node`.
    pub delete: bool,
}

impl GoneNodes {
    /// One of them is on.
    #[must_use]
    pub const fn any(self) -> bool {
        self.taint || self.delete
    }
}

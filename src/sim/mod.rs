//! An embedded AWS and an embedded Kubernetes that speak the wire protocols.

pub mod aws;
pub mod http;
pub mod kube;
mod tripwire;
mod world;

/// A request, a call or a watch that an injected fault affected: for judges.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disturbance {
    /// When it came in; of a watch: when it was disturbed.
    pub at: crate::domain::Moment,
    /// When it was answered after all, or failed; `None`: never, as far as the server knows.
    pub until: Option<crate::domain::Moment>,
    /// The client's tag, or the access key.
    pub by: String,
    /// As IAM writes it (`sqs:ReceiveMessage`), or verb and resource (`create pods/eviction`).
    pub what: String,
    /// Name of its object (`namespace/name` for one in a namespace); empty if there is no object.
    pub object: String,
    /// A watch that stays open but sends nothing.
    pub is_silent: bool,
}

pub use tripwire::{Passage, Side, Tripwire};
pub use world::{GROUP_LABEL, World, WorldSettings};

//! The Kubernetes edge.

pub mod lease;

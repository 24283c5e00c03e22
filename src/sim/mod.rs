//! An embedded AWS and an embedded Kubernetes that speak the wire protocols.

pub mod aws;
pub mod http;
pub mod kube;
mod world;

pub use world::{GROUP_LABEL, World, WorldSettings};

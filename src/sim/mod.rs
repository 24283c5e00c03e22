//! An embedded AWS and an embedded Kubernetes that speak the wire protocols.

pub mod http;
pub mod kube;

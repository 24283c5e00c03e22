//! The Kubernetes edge.

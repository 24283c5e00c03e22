//! The whole service against the embedded AWS and the embedded Kubernetes, in paused time.

mod harness;
mod skeleton;

//! Runs the pure machines and performs their effects.

pub mod intake;
mod runtime;

pub use runtime::{Clock, Random, Spawner};

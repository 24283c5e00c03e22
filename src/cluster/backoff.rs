//! When to try again.

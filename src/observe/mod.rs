//! Metrics, logs, the admin listener.

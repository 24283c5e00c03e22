//! Heartbeats, hook windows, deadlines.

//! Flags and their one table of defaults.

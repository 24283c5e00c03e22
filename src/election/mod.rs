//! Leader election over a Lease, as a state machine.

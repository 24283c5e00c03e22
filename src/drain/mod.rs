//! The drain of one node and the dispatcher over all drains, as state machines.

//! From the queues to the desk.

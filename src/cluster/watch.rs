//! Reading a collection and its changes.

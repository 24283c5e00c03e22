//! Bytes of a queue message → what AWS said. Pure and total.

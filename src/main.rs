//! The `sundown` command.

fn main() {}

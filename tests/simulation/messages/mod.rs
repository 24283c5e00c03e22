//! What becomes of messages: every shape, every reason not to act, and everything that nobody
//! understands.

mod bad;
mod blocks;
pub mod bodies;
mod claims;
mod contradicted;
mod dead_letters;
mod dry;
mod hooks;
mod large;
mod launches;
pub mod logs;
mod lookup;
mod nodes;
mod shapes;
mod shared;
mod stale;
mod tested;
mod tools;
mod trial;
mod unknown;
mod unproved;

//! What becomes of messages: every shape, every reason not to act, and everything that nobody understands.

mod bad;
mod bodies;
mod logs;
mod shapes;
mod tools;

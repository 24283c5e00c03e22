//! What differs between a run and a simulation besides the clients: the clock, randomness and how
//! tasks are started. Also the pauses between tries of a failed
//! call, and how shells report what happens in them.

mod backoff;
mod clock;
mod observer;
mod random;
mod spawner;

pub use backoff::Backoff;
pub use clock::Clock;
pub use observer::Observer;
pub use random::Random;
pub use spawner::Spawner;

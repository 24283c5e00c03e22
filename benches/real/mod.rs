//! The same service against a real control plane: etcd, API server, controllers and scheduler, as
//! `tests/control-plane` starts them.
//!
//! Times are read from the API server's audit log: from the moment at which the first message was
//! put on the queue to the last answer.

mod audit;
mod bench;
mod budget;
mod burst;
mod evictions;
mod flood;
mod nodes;
mod takeover;
mod watches;

pub use budget::budget;
pub use burst::{hundred, thousand};
pub use evictions::{drains_100, drains_1000, evictions};
pub use flood::{flood, flood_known};
pub use nodes::nodes;
pub use takeover::{takeover, takeover_5000};
pub use watches::{lists as watches_lists, watches};

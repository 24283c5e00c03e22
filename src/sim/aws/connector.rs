//! The two ways in: a connector for the AWS SDK in the same process, and a server on loopback TCP.

use std::io;

use aws_config::SdkConfig;
use tokio::net::TcpListener;

use super::EmbeddedAws;
use crate::{controller::Spawner, sim::http::Server};

/// The HTTP client that the AWS SDK is given: every request ends in the embedded AWS, whatever its host.
#[derive(Debug, Clone)]
pub struct AwsConnector(EmbeddedAws);

impl EmbeddedAws {
    /// The HTTP client for an SDK configuration of your own.
    #[must_use]
    pub fn connector(&self) -> AwsConnector {
        AwsConnector(self.clone())
    }

    /// An SDK configuration whose clients talk to this AWS in process: time from its clock, static credentials, no retries.
    #[must_use]
    pub fn sdk_config(&self) -> SdkConfig {
        todo!()
    }

    /// The same, over TCP: for a server started by [`serve`](Self::serve).
    #[must_use]
    pub fn sdk_config_at(&self, url: &str) -> SdkConfig {
        todo!()
    }

    /// Serves all services on one port, until the handle is dropped. Needs real time.
    pub fn serve(&self, listener: TcpListener, spawner: &Spawner) -> io::Result<Server> {
        todo!()
    }
}

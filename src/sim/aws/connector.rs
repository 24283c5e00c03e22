//! The two ways in: a connector for the AWS SDK in the same process, and a server on loopback TCP.

use std::{
    io,
    time::{Duration, SystemTime},
};

use aws_config::{BehaviorVersion, Region, SdkConfig, retry::RetryConfig, timeout::TimeoutConfig};
use aws_credential_types::{Credentials, provider::SharedCredentialsProvider};
use aws_smithy_async::{
    rt::sleep::{SharedAsyncSleep, TokioSleep},
    time::{SharedTimeSource, TimeSource},
};
use aws_smithy_runtime_api::{
    client::{
        http::{
            HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings,
            SharedHttpConnector,
        },
        orchestrator::{HttpRequest, HttpResponse},
        result::ConnectorError,
        runtime_components::RuntimeComponents,
        stalled_stream_protection::StalledStreamProtectionConfig,
    },
    shared::IntoShared,
};
use aws_smithy_types::body::SdkBody;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use tokio::net::TcpListener;

use super::EmbeddedAws;
use crate::{
    runtime::{Clock, Spawner},
    sim::http::{BoxError, Server, serve},
};

/// The HTTP client that the AWS SDK is given: every request ends in the embedded AWS, whatever its
/// host.
#[derive(Debug, Clone)]
pub struct AwsConnector(EmbeddedAws);

impl HttpConnector for AwsConnector {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let aws = self.0.clone();
        HttpConnectorFuture::new(async move {
            let request = request.try_into_http1x().map_err(|e| ConnectorError::user(e.into()))?;
            let (parts, body) = request.into_parts();
            // The whole body, always: the SDK's stalled-stream protection ends a call whose upload
            // nobody reads.
            let body = body.collect().await.map_err(ConnectorError::user)?.to_bytes();
            let answer = aws
                .answer(&parts.headers, body)
                .await
                .map_err(|cut| ConnectorError::io(cut.into()))?;
            HttpResponse::try_from(answer.map(SdkBody::from))
                .map_err(|e| ConnectorError::user(e.into()))
        })
    }
}

impl HttpClient for AwsConnector {
    fn http_connector(
        &self,
        _: &HttpConnectorSettings,
        _: &RuntimeComponents,
    ) -> SharedHttpConnector {
        self.clone().into_shared()
    }
}

/// The SDK's clock: signatures and credential caches follow the simulation's time.
#[derive(Debug, Clone, Copy)]
struct SdkTime(Clock);

impl TimeSource for SdkTime {
    fn now(&self) -> SystemTime {
        jiff::Timestamp::from(self.0.now()).into()
    }
}

impl EmbeddedAws {
    /// The HTTP client for an SDK configuration of your own.
    #[must_use]
    pub fn connector(&self) -> AwsConnector {
        AwsConnector(self.clone())
    }

    /// An SDK configuration whose clients talk to this AWS in process: time from its clock, static
    /// credentials, no retries, no timeouts but that for connecting, no stalled-stream protection.
    #[must_use]
    pub fn sdk_config(&self) -> SdkConfig {
        self.sdk_config_base().into_builder().http_client(self.connector()).build()
    }

    /// The same over TCP, with the SDK's own HTTP client: for a server started by
    /// [`serve`](Self::serve).
    #[must_use]
    pub fn sdk_config_at(&self, url: &str) -> SdkConfig {
        self.sdk_config_base()
            .into_builder()
            .endpoint_url(url)
            .http_client(aws_smithy_http_client::Builder::new().build_http())
            .build()
    }

    fn sdk_config_base(&self) -> SdkConfig {
        let (clock, region) =
            self.shared.with(|state, _| (state.clock, state.settings.region.clone()));
        let credentials = Credentials::new("AKIASUNDOWN", "not-a-secret", None, None, "embedded");
        SdkConfig::builder()
            .behavior_version(BehaviorVersion::v2026_01_12())
            .region(Region::new(region))
            .credentials_provider(SharedCredentialsProvider::new(credentials))
            .sleep_impl(SharedAsyncSleep::new(TokioSleep::new()))
            .time_source(SharedTimeSource::new(SdkTime(clock)))
            .retry_config(RetryConfig::disabled())
            // This protection checks every waiting call twice a second: hours of virtual long polls
            // would cost seconds.
            .stalled_stream_protection(StalledStreamProtectionConfig::disabled())
            .timeout_config(
                TimeoutConfig::builder().connect_timeout(Duration::from_secs(3)).build(),
            )
            .build()
    }

    /// Serves all services on one port, until the handle is dropped. Needs real time.
    pub fn serve(&self, listener: TcpListener, spawner: &Spawner) -> io::Result<Server> {
        let aws = self.clone();
        let service = tower::service_fn(move |request: Request<Incoming>| {
            let aws = aws.clone();
            async move {
                let (parts, body) = request.into_parts();
                let body: Bytes = body.collect().await?.to_bytes();
                let answer = aws.answer(&parts.headers, body).await?;
                Ok::<Response<Full<Bytes>>, BoxError>(answer.map(Full::new))
            }
        });
        serve(listener, service, spawner)
    }
}

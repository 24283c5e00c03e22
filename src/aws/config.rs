//! The configuration of the SDK for real use.

use aws_config::{BehaviorVersion, Region, SdkConfig};

/// What is said about AWS besides what the environment says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Options {
    /// The region; `None`: from the environment (`AWS_REGION`, profile, and only then the instance's metadata).
    pub region: Option<String>,
    /// An endpoint for all services (`--aws-endpoint-url`); `None`: `AWS_ENDPOINT_URL*`, else AWS's own.
    pub endpoint_url: Option<String>,
}

/// Reads what the environment says: credentials (environment, profile, IRSA, Pod Identity, and only when none of these is
/// there the instance's metadata), region and endpoints.
///
/// The default HTTPS client honours `HTTPS_PROXY` and `NO_PROXY`. Asks nobody unless neither argument nor environment nor profile
/// names a region.
pub async fn load(options: &Options) -> SdkConfig {
    let mut loader = aws_config::defaults(BehaviorVersion::v2026_01_12());
    if let Some(region) = &options.region {
        loader = loader.region(Region::new(region.clone()));
    }
    if let Some(url) = &options.endpoint_url {
        loader = loader.endpoint_url(url);
    }
    loader.load().await
}

//! The configuration of the SDK for real use.

use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_smithy_http_client::{
    Builder, ConnectorBuilder,
    proxy::ProxyConfig,
    tls::{Provider, rustls_provider::CryptoMode},
};

/// What is said about AWS besides what the environment says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Options {
    /// The region; `None`: from the environment (`AWS_REGION`, profile, and only then the instance's metadata).
    pub region: Option<String>,
    /// An endpoint for all services (`--aws-endpoint-url`); `None`: `AWS_ENDPOINT_URL*`, else AWS's own.
    pub endpoint_url: Option<String>,
}

/// Reads what the environment says: credentials (environment, profile, IRSA, Pod Identity, and only when none of these is
/// there the instance's metadata), region, endpoints, and the proxy.
///
/// `HTTPS_PROXY` and `NO_PROXY` are honoured. So are `HTTP_PROXY` and `ALL_PROXY`: where one of these is set, `NO_PROXY` must
/// name 169.254.170.23 and 169.254.169.254, or Pod Identity and instance metadata are asked through the proxy.
///
/// No credentials are asked for before the first call. Asks nobody unless neither the argument nor environment nor profile
/// names a region.
pub async fn load(options: &Options) -> SdkConfig {
    // One HTTP client for all: by default each service client has its own connections and its own copy of the root certificates.
    let http = Builder::new().build_with_connector_fn(|settings, components| {
        let mut connector = ConnectorBuilder::default().tls_provider(Provider::Rustls(CryptoMode::AwsLc));
        connector.set_connector_settings(settings.cloned());
        if let Some(components) = components {
            connector.set_sleep_impl(components.sleep_impl());
        }
        connector.set_proxy_config(Some(ProxyConfig::from_env()));
        connector.build()
    });
    let mut loader = aws_config::defaults(BehaviorVersion::v2026_01_12()).http_client(http);
    if let Some(region) = &options.region {
        loader = loader.region(Region::new(region.clone()));
    }
    if let Some(url) = &options.endpoint_url {
        loader = loader.endpoint_url(url);
    }
    loader.load().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn arguments_go_before_the_environment() {
        let options = Options { region: Some("eu-central-2".into()), endpoint_url: Some("http://127.0.0.1:9".into()) };
        let config = load(&options).await;
        assert_eq!(config.region().map(Region::as_ref), Some("eu-central-2"));
        assert_eq!(config.endpoint_url(), Some("http://127.0.0.1:9"));
        assert!(config.credentials_provider().is_some() && config.http_client().is_some());
    }
}

//! Loads the configuration of the AWS SDK from flags and environment.

use std::path::PathBuf;

use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_smithy_http_client::{
    Builder, ConnectorBuilder,
    proxy::ProxyConfig,
    tls::{Provider, TlsContext, TrustStore, rustls_provider::CryptoMode},
};
use aws_smithy_runtime_api::client::http::SharedHttpClient;
use aws_types::service_config::{LoadServiceConfig, ServiceConfigKey};
use rustls::{
    RootCertStore,
    pki_types::{CertificateDer, pem::PemObject as _},
};

use super::Hosts;

/// Settings that override the environment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Options {
    /// The region; `None`: from `AWS_REGION`, else the profile, else the instance's metadata.
    pub region: Option<String>,
    /// An endpoint for all services (`--aws-endpoint-url`); `None`: `AWS_ENDPOINT_URL*`, else AWS's
    /// own.
    pub endpoint_url: Option<String>,
}

/// A setting for AWS that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidConfig {
    /// The file of certificates in `AWS_CA_BUNDLE`.
    #[error(transparent)]
    Bundle(#[from] BadBundle),
    /// An endpoint that is not a URL.
    #[error(
        "the endpoint of AWS is `{0}` (--aws-endpoint-url, AWS_ENDPOINT_URL or the profile), \
         which is not a URL; set one such as https://vpce.example.com, or remove the setting"
    )]
    Endpoint(String),
    /// A region with characters that no region has.
    #[error(
        "the region is `{0}` (AWS_REGION, AWS_DEFAULT_REGION or the profile), which is not a \
         valid region; set one such as eu-west-1"
    )]
    Region(String),
}

/// A file of certificates in `AWS_CA_BUNDLE` that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("AWS_CA_BUNDLE is {}: {why}; give a file with the certificates of your own authorities in \
    PEM, or unset the variable", file.display())]
pub struct BadBundle {
    /// The value of `AWS_CA_BUNDLE`.
    pub file: PathBuf,
    /// Why the file cannot be used, for people.
    pub why: String,
}

/// Reads from the environment: credentials (environment, profile, IRSA, Pod Identity, and only if
/// none of these is there the instance's metadata), region, endpoints, and the proxy.
///
/// Uses `HTTPS_PROXY` and `NO_PROXY`. Uses `HTTP_PROXY` and `ALL_PROXY` too: if one of these is
/// set, `NO_PROXY` must name 169.254.170.23 and 169.254.169.254; otherwise requests for Pod
/// Identity and instance metadata go through the proxy. The authorities in the file `AWS_CA_BUNDLE`
/// are trusted in addition to those of the machine (which `SSL_CERT_FILE` names).
///
/// Requests no credentials before the first call, and makes no request at all unless argument,
/// environment and profile lack a region. Errs when the file of certificates, an endpoint or the
/// region cannot be used.
pub async fn load(options: &Options) -> Result<SdkConfig, InvalidConfig> {
    checked(
        loaded(options, http_client(bundle(&|name| std::env::var_os(name).map(Into::into))?)).await,
    )
}

/// As [`load`], but every host that is called is added to `hosts`.
pub async fn load_watched(options: &Options, hosts: &Hosts) -> Result<SdkConfig, InvalidConfig> {
    let http = http_client(bundle(&|name| std::env::var_os(name).map(Into::into))?);
    checked(loaded(options, hosts.watch(http)).await)
}

/// The settings for single services and for all from environment and profile, without empty values:
/// the SDK's clients panic on an empty endpoint.
#[derive(Debug)]
struct NotEmpty(SdkConfig);

impl LoadServiceConfig for NotEmpty {
    fn load_config(&self, key: ServiceConfigKey<'_>) -> Option<String> {
        self.0.service_config()?.load_config(key).filter(|value| !value.trim().is_empty())
    }
}

/// Treats empty settings as not given (an empty key of a ConfigMap), and refuses invalid ones with
/// an error that names them.
fn checked(base: SdkConfig) -> Result<SdkConfig, InvalidConfig> {
    let (region, url) =
        (base.region().map(|r| r.as_ref().to_owned()), base.endpoint_url().map(str::to_owned));
    let mut builder = base.to_builder().service_config(NotEmpty(base));
    match region {
        Some(region) if region.trim().is_empty() => drop(builder.set_region(None)),
        Some(region)
            if !region
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-') =>
        {
            return Err(InvalidConfig::Region(region));
        }
        _ => {}
    }
    match url {
        Some(url) if url.trim().is_empty() => drop(builder.set_endpoint_url(None)),
        Some(url)
            if !url::Url::parse(&url)
                .is_ok_and(|u| matches!(u.scheme(), "http" | "https") && u.has_host()) =>
        {
            return Err(InvalidConfig::Endpoint(url));
        }
        _ => {}
    }
    Ok(builder.build())
}

async fn loaded(options: &Options, http: SharedHttpClient) -> SdkConfig {
    let mut loader = aws_config::defaults(BehaviorVersion::v2026_01_12()).http_client(http);
    if let Some(region) = &options.region {
        loader = loader.region(Region::new(region.clone()));
    }
    if let Some(url) = &options.endpoint_url {
        loader = loader.endpoint_url(url);
    }
    loader.load().await
}

/// One HTTP client for all services. By default each service client has its own connections and its
/// own copy of the root certificates.
fn http_client(bundle: Option<Vec<u8>>) -> SharedHttpClient {
    Builder::new().build_with_connector_fn(move |settings, components| {
        let mut connector =
            ConnectorBuilder::default().tls_provider(Provider::Rustls(CryptoMode::AwsLc));
        connector.set_connector_settings(settings.cloned());
        if let Some(components) = components {
            connector.set_sleep_impl(components.sleep_impl());
        }
        connector.set_proxy_config(Some(ProxyConfig::from_env()));
        // Only set if there are certificates to add. Otherwise the machine's certificates are
        // parsed once for all clients.
        let trusted =
            bundle.as_ref().map(|pem| TrustStore::default().with_pem_certificate(pem.clone()));
        if let Some(context) =
            trusted.and_then(|store| TlsContext::builder().with_trust_store(store).build().ok())
        {
            connector.set_tls_context(context);
        }
        connector.build()
    })
}

/// The content of the file in `AWS_CA_BUNDLE`; `None`: the variable is not set. Parses every
/// certificate, because the client panics on one that it cannot read.
fn bundle(variable: &dyn Fn(&str) -> Option<PathBuf>) -> Result<Option<Vec<u8>>, BadBundle> {
    let Some(file) = variable("AWS_CA_BUNDLE").filter(|f| !f.as_os_str().is_empty()) else {
        return Ok(None);
    };
    let bad = |why: String| BadBundle { file: file.clone(), why };
    let pem = std::fs::read(&file).map_err(|error| bad(format!("it cannot be read ({error})")))?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        let certificate = certificate.map_err(|error| bad(format!("it is not PEM ({error})")))?;
        roots.add(certificate).map_err(|error| {
            bad(format!("certificate {} cannot be used ({error})", roots.len() + 1))
        })?;
    }
    if roots.is_empty() { Err(bad("it contains no certificate".to_owned())) } else { Ok(Some(pem)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn arguments_override_the_environment() {
        let options = Options {
            region: Some("eu-central-2".into()),
            endpoint_url: Some("http://127.0.0.1:9".into()),
        };
        let config = load(&options).await.unwrap();
        assert_eq!(config.region().map(Region::as_ref), Some("eu-central-2"));
        assert_eq!(config.endpoint_url(), Some("http://127.0.0.1:9"));
        assert!(config.credentials_provider().is_some() && config.http_client().is_some());
    }

    const IDENTITY: &str = "<GetCallerIdentityResponse><GetCallerIdentityResult><Arn>arn:aws:iam::1:user/x</Arn><UserId>x</UserId><Account>1</Account></GetCallerIdentityResult></GetCallerIdentityResponse>";

    /// Starts a server with a certificate of a private authority that answers every request.
    /// Returns the certificate of the authority and the URL of the server.
    async fn private_server() -> (String, String) {
        use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        rustls::crypto::aws_lc_rs::default_provider().install_default().ok();
        let (key, mut authority) =
            (KeyPair::generate().unwrap(), CertificateParams::new(vec![]).unwrap());
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = authority.self_signed(&key).unwrap().pem();
        let issuer = Issuer::new(authority, key);
        let own_key = KeyPair::generate().unwrap();
        let own = CertificateParams::new(vec!["localhost".to_owned()])
            .unwrap()
            .signed_by(&own_key, &issuer)
            .unwrap();
        let private = rustls::pki_types::PrivateKeyDer::try_from(own_key.serialize_der()).unwrap();
        let config = rustls::ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![own.der().clone()], private)
            .unwrap();
        let acceptor = tokio_rustls::TlsAcceptor::from(std::sync::Arc::new(config));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://localhost:{}", listener.local_addr().unwrap().port());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                // A client that does not trust us hangs up.
                let Ok(mut stream) = acceptor.accept(stream).await else { continue };
                let mut request = [0; 8192];
                if !stream.read(&mut request).await.is_ok_and(|n| n > 0) {
                    continue;
                }
                let answer = format!(
                    "HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{IDENTITY}",
                    IDENTITY.len()
                );
                stream.write_all(answer.as_bytes()).await.ok();
                stream.shutdown().await.ok();
            }
        });
        (pem, url)
    }

    async fn identity(
        url: &str,
        bundle: Option<Vec<u8>>,
    ) -> Result<crate::aws::Identity, crate::aws::AwsError> {
        use aws_credential_types::{Credentials, provider::SharedCredentialsProvider};
        let options =
            Options { region: Some("eu-central-2".into()), endpoint_url: Some(url.to_owned()) };
        let config = loaded(&options, http_client(bundle)).await.into_builder();
        let config = config
            .credentials_provider(SharedCredentialsProvider::new(Credentials::new(
                "key", "secret", None, None, "test",
            )))
            .build();
        crate::aws::Clients::from_config(
            &config,
            crate::runtime::Clock::system(),
            std::sync::Arc::new(()),
        )
        .identity()
        .await
    }

    #[tokio::test]
    async fn a_private_authority_is_trusted_only_if_its_bundle_is_given() {
        let (pem, url) = private_server().await;
        let error = identity(&url, None).await.unwrap_err();
        assert!(error.message().to_lowercase().contains("certificate"), "{error}");
        let file = std::env::temp_dir().join(format!("sundown-bundle-{}.pem", std::process::id()));
        // Two certificates, because a bundle may have several.
        std::fs::write(&file, format!("{}{pem}", private_server().await.0)).unwrap();
        let read = bundle(&|_| Some(file.clone())).unwrap();
        std::fs::remove_file(&file).unwrap();
        assert_eq!(identity(&url, read).await.unwrap().arn, "arn:aws:iam::1:user/x");
    }

    #[derive(Debug)]
    struct Always(&'static str);

    impl LoadServiceConfig for Always {
        fn load_config(&self, _: ServiceConfigKey<'_>) -> Option<String> {
            Some(self.0.to_owned())
        }
    }

    #[test]
    fn empty_endpoints_and_regions_are_ignored_and_errors_name_invalid_ones() {
        let base = |region: &str, url: &str| {
            checked(
                SdkConfig::builder()
                    .region(Region::new(region.to_owned()))
                    .endpoint_url(url)
                    .behavior_version(BehaviorVersion::latest())
                    .build(),
            )
        };
        let good = base("eu-west-1", "https://vpce.example.com").unwrap();
        assert_eq!(
            (good.region().map(Region::as_ref), good.endpoint_url()),
            (Some("eu-west-1"), Some("https://vpce.example.com"))
        );
        let none = base("", " ").unwrap();
        assert_eq!((none.region(), none.endpoint_url()), (None, None));
        for url in ["vpce.example.com", "ftp://vpce.example.com", "https://"] {
            assert_eq!(
                base("eu-west-1", url).unwrap_err(),
                InvalidConfig::Endpoint(url.to_owned())
            );
        }
        assert_eq!(base("eu west", "").unwrap_err(), InvalidConfig::Region("eu west".to_owned()));
        // As the SDK's clients look for `AWS_ENDPOINT_URL_SQS`, and without it for
        // `AWS_ENDPOINT_URL`.
        let of_sqs = |value: &'static str| {
            let base = checked(SdkConfig::builder().service_config(Always(value)).build()).unwrap();
            let key = ServiceConfigKey::builder()
                .service_id("SQS")
                .env("AWS_ENDPOINT_URL")
                .profile("endpoint_url")
                .build()
                .unwrap();
            base.service_config().unwrap().load_config(key)
        };
        assert_eq!((of_sqs(" "), of_sqs("https://x").as_deref()), (None, Some("https://x")));
    }

    #[test]
    fn the_error_of_a_bad_bundle_names_the_file_and_the_reason() {
        assert_eq!(bundle(&|_| None), Ok(None));
        assert_eq!(bundle(&|_| Some(PathBuf::new())), Ok(None));
        let file =
            std::env::temp_dir().join(format!("sundown-bad-bundle-{}.pem", std::process::id()));
        for (text, word) in [
            ("", "no certificate"),
            ("-----BEGIN CERTIFICATE-----\n!!!\n-----END CERTIFICATE-----\n", "not PEM"),
            ("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "certificate 1"),
        ] {
            std::fs::write(&file, text).unwrap();
            let error = bundle(&|_| Some(file.clone())).unwrap_err().to_string();
            assert!(error.contains(word) && error.contains(file.to_str().unwrap()), "{error}");
        }
        std::fs::remove_file(&file).unwrap();
        assert!(
            bundle(&|_| Some(file.clone())).unwrap_err().to_string().contains("cannot be read")
        );
    }
}

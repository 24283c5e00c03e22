//! Posting over HTTP, through a proxy where there is one.

use std::{future::Future, pin::Pin, time::Duration};

use aws_smithy_async::rt::sleep::default_async_sleep;
use aws_smithy_http_client::{
    Connector, ConnectorBuilder,
    proxy::ProxyConfig,
    tls::{Provider, rustls_provider::CryptoMode},
};
use aws_smithy_runtime_api::client::{
    http::{HttpConnector as _, HttpConnectorSettings},
    orchestrator::HttpRequest,
};
use aws_smithy_types::body::SdkBody;

use super::Secret;

/// A connection that takes longer is not coming.
const CONNECT: Duration = Duration::from_millis(3100);

/// One message on its way.
#[derive(Debug, Clone)]
pub struct Post {
    /// Where to.
    pub url: Secret,
    /// Its headers.
    pub headers: http::HeaderMap,
    /// Its body.
    pub body: String,
}

/// What came back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// How long to wait before the next try, where it says so.
    pub retry_after: Option<Duration>,
}

/// An answer with what it says.
#[derive(Debug)]
pub struct Reply {
    /// The status.
    pub status: u16,
    /// How long to wait before the next try, where it says so.
    pub retry_after: Option<Duration>,
    /// The rest of it, not read yet.
    pub body: SdkBody,
}

/// An answer on its way; an error is told in a line, without the URL.
pub type Answering = Pin<Box<dyn Future<Output = Result<Answer, String>> + Send>>;

/// How messages are sent.
pub trait Transport: Send + Sync + 'static {
    /// Sends one. Who calls sets the deadline.
    fn post(&self, post: &Post) -> Answering;
}

/// HTTP and HTTPS, by the machine's own certificate authorities (`SSL_CERT_FILE` is honoured).
#[derive(Debug)]
pub struct Http(Connector);

impl Http {
    /// Through `proxy`; without one, as `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY` say. Errs when
    /// the proxy is none.
    pub fn new(proxy: Option<&Secret>) -> Result<Self, String> {
        let settings = HttpConnectorSettings::builder().connect_timeout(CONNECT).build();
        let mut connector =
            ConnectorBuilder::default().tls_provider(Provider::Rustls(CryptoMode::AwsLc));
        connector.set_connector_settings(Some(settings));
        connector.set_sleep_impl(default_async_sleep());
        connector
            .set_proxy_config(Some(proxy.map_or_else(|| Ok(ProxyConfig::from_env()), through)?));
        Ok(Self(connector.build()))
    }
}

fn through(proxy: &Secret) -> Result<ProxyConfig, String> {
    let mut url = url::Url::parse(proxy.expose()).map_err(|e| e.to_string())?;
    let (user, password) =
        (url.username().to_owned(), url.password().unwrap_or_default().to_owned());
    // Told apart from the address, they never come into an error's text.
    url.set_username("").ok();
    url.set_password(None).ok();
    let config = ProxyConfig::all(url.as_str()).map_err(|e| e.to_string())?;
    // As they stand in the URL, escaped: they are put into one again.
    Ok(if user.is_empty() { config } else { config.with_basic_auth(user, password) })
}

impl Http {
    /// Posts this. Who calls sets the deadline.
    pub fn exchange(
        &self,
        url: &Secret,
        headers: &http::HeaderMap,
        body: SdkBody,
    ) -> impl Future<Output = Result<Reply, String>> + Send + use<> {
        let mut request = http::Request::post(url.expose());
        if let Some(all) = request.headers_mut() {
            all.clone_from(headers);
        }
        let request = request.body(body).map_err(|e| e.to_string());
        let call = request
            .and_then(|r| HttpRequest::try_from(r).map_err(|e| e.to_string()))
            .map(|r| self.0.call(r));
        async move {
            let response = call?.await.map_err(|e| crate::domain::with_causes(&e))?;
            let seconds =
                response.headers().get("retry-after").and_then(|text| text.trim().parse().ok());
            Ok(Reply {
                status: response.status().as_u16(),
                retry_after: seconds.map(Duration::from_secs),
                body: response.into_body(),
            })
        }
    }
}

impl Transport for Http {
    fn post(&self, post: &Post) -> Answering {
        let reply = self.exchange(&post.url, &post.headers, SdkBody::from(post.body.clone()));
        Box::pin(async move {
            reply.await.map(|Reply { status, retry_after, .. }| Answer { status, retry_after })
        })
    }
}

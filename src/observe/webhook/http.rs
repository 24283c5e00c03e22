//! HTTP POST requests, through a proxy if one is configured.

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

/// How long opening a connection may take: a host that has not answered by then is down.
const CONNECT: Duration = Duration::from_millis(3100);

/// A notification as it is posted to the webhook.
#[derive(Debug, Clone)]
pub struct Post {
    /// The URL to post to.
    pub url: Secret,
    /// All headers; the values that come from a file are set sensitive.
    pub headers: http::HeaderMap,
    /// JSON, rendered from the template.
    pub body: String,
}

/// A response without its body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    /// The HTTP status code.
    pub status: u16,
    /// The pause that the `Retry-After` header asks for, if it is a number of seconds.
    pub retry_after: Option<Duration>,
}

/// A response with its body.
#[derive(Debug)]
pub struct Reply {
    /// The HTTP status code.
    pub status: u16,
    /// The pause that the `Retry-After` header asks for, if it is a number of seconds.
    pub retry_after: Option<Duration>,
    /// The body, not read yet.
    pub body: SdkBody,
}

/// The future of an [`Answer`]. Its error is one line that does not contain the URL.
pub type AnswerFuture = Pin<Box<dyn Future<Output = Result<Answer, String>> + Send>>;

/// Sends POST requests; replaced by a fake in tests.
pub trait Transport: Send + Sync + 'static {
    /// Sends a request. The caller must set a deadline.
    fn post(&self, post: &Post) -> AnswerFuture;
}

/// HTTP and HTTPS, with the machine's own certificate authorities (or those of `SSL_CERT_FILE`).
#[derive(Debug)]
pub struct Http(Connector);

impl Http {
    /// A client that uses `proxy`, or, if it is `None`, the proxy that `HTTPS_PROXY`, `HTTP_PROXY`
    /// and `NO_PROXY` define. Errs when `proxy` is not a URL.
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
    // User and password are passed separately, so that errors, which quote the URL, never show
    // them.
    url.set_username("").ok();
    url.set_password(None).ok();
    let config = ProxyConfig::all(url.as_str()).map_err(|e| e.to_string())?;
    // User and password stay percent-encoded: `with_basic_auth` puts them into a URL again.
    Ok(if user.is_empty() { config } else { config.with_basic_auth(user, password) })
}

impl Http {
    /// Posts `body` to `url`. The caller must set a deadline.
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
    fn post(&self, post: &Post) -> AnswerFuture {
        let reply = self.exchange(&post.url, &post.headers, SdkBody::from(post.body.clone()));
        Box::pin(async move {
            reply.await.map(|Reply { status, retry_after, .. }| Answer { status, retry_after })
        })
    }
}

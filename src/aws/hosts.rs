//! Notes the hosts that AWS's clients call, and which of them are reached through a proxy.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
};

use aws_smithy_runtime_api::client::{
    http::{
        HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpClient,
        SharedHttpConnector,
    },
    orchestrator::HttpRequest,
    runtime_components::RuntimeComponents,
};
use hyper_util::client::proxy::matcher::Matcher;
use url::Url;

/// The hosts that AWS's clients have called so far, as origins
/// (`https://sqs.eu-west-1.amazonaws.com`). Clones share the set.
#[derive(Debug, Clone, Default)]
pub struct Hosts(Arc<Mutex<BTreeSet<String>>>);

impl Hosts {
    /// All hosts, sorted.
    #[must_use]
    pub fn all(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    pub(super) fn watch(&self, inner: SharedHttpClient) -> SharedHttpClient {
        SharedHttpClient::new(Watched { inner, hosts: self.clone() })
    }

    fn note(&self, url: &str) {
        let origin = Url::parse(url).ok().map(|url| url.origin()).filter(url::Origin::is_tuple);
        if let Some(origin) = origin {
            self.0
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .insert(origin.ascii_serialization());
        }
    }
}

#[derive(Debug)]
struct Watched {
    inner: SharedHttpClient,
    hosts: Hosts,
}

#[derive(Debug)]
struct WatchedConnector {
    inner: SharedHttpConnector,
    hosts: Hosts,
}

impl HttpClient for Watched {
    fn http_connector(
        &self,
        settings: &HttpConnectorSettings,
        components: &RuntimeComponents,
    ) -> SharedHttpConnector {
        SharedHttpConnector::new(WatchedConnector {
            inner: self.inner.http_connector(settings, components),
            hosts: self.hosts.clone(),
        })
    }
}

impl HttpConnector for WatchedConnector {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        self.hosts.note(request.uri());
        self.inner.call(request)
    }
}

/// The proxy settings of the environment, as the clients read them.
#[derive(Debug)]
pub struct Proxy(Matcher);

impl Proxy {
    /// Reads the environment of this process.
    #[must_use]
    pub fn from_env() -> Self {
        Self(Matcher::from_env())
    }

    /// The proxy through which this URL is reached, without its password; `None`: directly.
    #[must_use]
    pub fn of(&self, url: &str) -> Option<String> {
        let through = self.0.intercept(&url.parse().ok()?)?;
        let uri = through.uri();
        Some(format!(
            "{}://{}",
            uri.scheme_str().unwrap_or("http"),
            uri.authority().map(http::uri::Authority::as_str)?
        ))
    }

    /// For tests: the settings from these values of the variables.
    #[must_use]
    pub fn of_variables(http: &str, https: &str, no: &str) -> Self {
        Self(
            Matcher::builder()
                .http(http.to_owned())
                .https(https.to_owned())
                .no(no.to_owned())
                .build(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_noted_once_without_paths() {
        let hosts = Hosts::default();
        for url in [
            "https://sqs.eu-west-1.amazonaws.com/1/q",
            "https://sqs.eu-west-1.amazonaws.com/",
            "http://127.0.0.1:9/",
            "garbage",
        ] {
            hosts.note(url);
        }
        assert_eq!(hosts.all(), ["http://127.0.0.1:9", "https://sqs.eu-west-1.amazonaws.com"]);
    }

    #[test]
    fn a_url_goes_through_the_proxy_unless_no_proxy_names_its_host() {
        let endpoints = [
            "http://169.254.170.23/v1/credentials",
            "http://[fd00:ec2::23]/v1/credentials",
            "http://169.254.169.254/latest",
        ];
        let none = Proxy::of_variables("", "http://proxy:3128", "");
        assert_eq!(
            none.of("https://sqs.eu-west-1.amazonaws.com/").as_deref(),
            Some("http://proxy:3128")
        );
        for endpoint in endpoints {
            assert_eq!(none.of(endpoint), None, "only https goes through it: {endpoint}");
        }
        let all = Proxy::of_variables(
            "http://user:secret@proxy:3128",
            "http://proxy:3128",
            ".cluster.local,.amazonaws.com",
        );
        for endpoint in endpoints {
            assert_eq!(all.of(endpoint).as_deref(), Some("http://proxy:3128"), "{endpoint}");
        }
        assert_eq!(all.of("https://sqs.eu-west-1.amazonaws.com/"), None);
        let some = Proxy::of_variables(
            "http://proxy:3128",
            "",
            "169.254.170.23,fd00:ec2::23,169.254.0.0/16",
        );
        for endpoint in endpoints {
            assert_eq!(some.of(endpoint), None, "{endpoint}");
        }
    }
}

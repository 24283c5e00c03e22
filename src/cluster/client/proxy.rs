//! Applies `NO_PROXY` to the API server.

use http::Uri;
use hyper_util::client::proxy::matcher::Matcher;
use kube::Config;

/// Removes the proxy of the environment if `NO_PROXY` exempts the API server. kube compares
/// `NO_PROXY` with the address of the proxy instead (kube-client 5.0, `config/file_loader.rs`). A
/// proxy that the kubeconfig names stays.
pub(super) fn apply_no_proxy(config: &mut Config) {
    let of_environment = ["HTTPS_PROXY", "https_proxy"]
        .into_iter()
        .filter_map(|name| std::env::var(name).ok())
        .collect::<Vec<_>>();
    if is_exempt(
        config.proxy_url.as_ref(),
        &config.cluster_url,
        &of_environment,
        &Matcher::from_env(),
    ) {
        config.proxy_url = None;
    }
}

fn is_exempt(
    proxy: Option<&Uri>,
    server: &Uri,
    of_environment: &[String],
    matcher: &Matcher,
) -> bool {
    let is_of_environment = |proxy: &Uri| {
        of_environment.iter().any(|text| text.parse::<Uri>().is_ok_and(|uri| uri == *proxy))
    };
    proxy.is_some_and(is_of_environment) && matcher.intercept(server).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_proxy_exempts_the_api_server_but_keeps_the_proxy_of_a_kubeconfig() {
        let environment = ["http://proxy:3128".to_owned()];
        for (proxy, server, no, expected) in [
            (None, "https://10.0.0.1:6443/", "10.0.0.0/8", false),
            (Some("http://proxy:3128"), "https://10.0.0.1:6443/", "", false),
            (Some("http://proxy:3128"), "https://10.0.0.1:6443/", "10.0.0.0/8", true),
            (Some("http://proxy:3128"), "https://api.example.com/", ".example.com", true),
            (Some("http://proxy:3128"), "https://api.example.com/", "proxy", false),
            (Some("http://other:3128"), "https://10.0.0.1:6443/", "10.0.0.0/8", false),
        ] {
            let proxy: Option<Uri> = proxy.map(|p| p.parse().unwrap());
            let matcher = Matcher::builder().https("http://proxy:3128").no(no).build();
            assert_eq!(
                is_exempt(proxy.as_ref(), &server.parse().unwrap(), &environment, &matcher),
                expected,
                "{proxy:?} {server} {no}"
            );
        }
    }
}

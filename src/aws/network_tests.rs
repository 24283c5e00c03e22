//! The host that each client calls, and the region for which it signs, in every partition, with
//! FIPS, dual stack and VPC endpoints.
#![allow(clippy::indexing_slicing, reason = "a test may panic")]

use std::sync::{Arc, Mutex};

use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_credential_types::{Credentials, provider::SharedCredentialsProvider};
use aws_smithy_async::{rt::sleep::TokioSleep, time::SystemTimeSource};
use aws_smithy_runtime_api::client::{
    http::{
        HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector,
    },
    orchestrator::HttpRequest,
    result::ConnectorError,
    runtime_components::RuntimeComponents,
};

use super::{Clients, GroupFilter};
use crate::runtime::Clock;

/// Answers no request, and keeps its host and the region and service of its signature.
#[derive(Debug, Clone, Default)]
struct Asked(Arc<Mutex<Vec<(String, String)>>>);

impl HttpConnector for Asked {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let host = url::Url::parse(request.uri()).unwrap().host_str().unwrap().to_owned();
        // `AWS4-HMAC-SHA256 Credential=KEY/DATE/REGION/SERVICE/aws4_request, …`
        let scope: Vec<_> = request
            .headers()
            .get("authorization")
            .unwrap_or_default()
            .split('/')
            .map(str::to_owned)
            .collect();
        self.0.lock().unwrap().push((host, format!("{}/{}", scope[2], scope[3])));
        HttpConnectorFuture::ready(Err(ConnectorError::io("connection refused".into())))
    }
}

impl HttpClient for Asked {
    fn http_connector(
        &self,
        _: &HttpConnectorSettings,
        _: &RuntimeComponents,
    ) -> SharedHttpConnector {
        SharedHttpConnector::new(self.clone())
    }
}

fn base(region: &str, fips: bool, dual_stack: bool) -> SdkConfig {
    SdkConfig::builder()
        .behavior_version(BehaviorVersion::v2026_01_12())
        .region(Region::new(region.to_owned()))
        .credentials_provider(SharedCredentialsProvider::new(Credentials::new(
            "KEY", "secret", None, None, "test",
        )))
        .sleep_impl(aws_smithy_async::rt::sleep::SharedAsyncSleep::new(TokioSleep::new()))
        .time_source(SystemTimeSource::new())
        .use_fips(fips)
        .use_dual_stack(dual_stack)
        .build()
}

/// The requests for the attributes of the queue at `url`, groups, instances, a rule and our
/// identity, in this order.
async fn asked(base: SdkConfig, url: &str) -> Vec<(String, String)> {
    let asked = Asked::default();
    let clients = Clients::from_config(
        &base.into_builder().http_client(asked.clone()).build(),
        Clock::system(),
        Arc::new(()),
    );
    assert!(clients.queue(url).attributes().await.is_err());
    assert!(clients.autoscaling().groups(&[GroupFilter::TagKey("k".to_owned())]).await.is_err());
    assert!(
        clients.ec2().describe_instances(&["i-0123456789abcdef0".parse().unwrap()]).await.is_err()
    );
    assert!(clients.event_bridge().rule("r").await.is_err());
    assert!(clients.identity().await.is_err());
    let all = asked.0.lock().unwrap().clone();
    assert_eq!(all.len(), 5, "each request was sent: {all:?}");
    all
}

/// Region of the instances; FIPS; dual stack; queue URL; host of the queue and region of its
/// signature; the part of other hosts between the service and the region, and their suffix.
type Row = (
    &'static str,
    bool,
    bool,
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    &'static str,
);

const ROWS: &[Row] = &[
    (
        "eu-west-1",
        false,
        false,
        "https://sqs.eu-west-1.amazonaws.com/1/q",
        "sqs.eu-west-1.amazonaws.com",
        "eu-west-1",
        "",
        "amazonaws.com",
    ),
    (
        "eu-west-1",
        false,
        false,
        "https://eu-west-1.queue.amazonaws.com/1/q",
        "sqs.eu-west-1.amazonaws.com",
        "eu-west-1",
        "",
        "amazonaws.com",
    ),
    (
        "eu-west-1",
        false,
        false,
        "https://vpce-1a-2b.sqs.eu-west-1.vpce.amazonaws.com/1/q",
        "vpce-1a-2b.sqs.eu-west-1.vpce.amazonaws.com",
        "eu-west-1",
        "",
        "amazonaws.com",
    ),
    // Requests for a queue in another region are signed for the region of the queue.
    (
        "eu-west-1",
        false,
        false,
        "https://sqs.us-east-2.amazonaws.com/1/q",
        "sqs.us-east-2.amazonaws.com",
        "us-east-2",
        "",
        "amazonaws.com",
    ),
    (
        "cn-north-1",
        false,
        false,
        "https://sqs.cn-north-1.amazonaws.com.cn/1/q",
        "sqs.cn-north-1.amazonaws.com.cn",
        "cn-north-1",
        "",
        "amazonaws.com.cn",
    ),
    (
        "cn-northwest-1",
        false,
        false,
        "https://vpce-1.sqs.cn-northwest-1.vpce.amazonaws.com.cn/1/q",
        "vpce-1.sqs.cn-northwest-1.vpce.amazonaws.com.cn",
        "cn-northwest-1",
        "",
        "amazonaws.com.cn",
    ),
    (
        "us-gov-west-1",
        false,
        false,
        "https://sqs.us-gov-west-1.amazonaws.com/1/q",
        "sqs.us-gov-west-1.amazonaws.com",
        "us-gov-west-1",
        "",
        "amazonaws.com",
    ),
    // Dual stack: by the URL only for the queue, by the environment for all services.
    (
        "eu-west-1",
        false,
        false,
        "https://sqs.eu-west-1.api.aws/1/q",
        "sqs.eu-west-1.api.aws",
        "eu-west-1",
        "",
        "amazonaws.com",
    ),
    (
        "eu-west-1",
        false,
        true,
        "https://sqs.eu-west-1.api.aws/1/q",
        "sqs.eu-west-1.api.aws",
        "eu-west-1",
        "",
        "api.aws",
    ),
    (
        "eu-west-1",
        false,
        true,
        "https://sqs.eu-west-1.amazonaws.com/1/q",
        "sqs.eu-west-1.api.aws",
        "eu-west-1",
        "",
        "api.aws",
    ),
    // FIPS: the same.
    (
        "us-east-1",
        false,
        false,
        "https://sqs-fips.us-east-1.amazonaws.com/1/q",
        "sqs-fips.us-east-1.amazonaws.com",
        "us-east-1",
        "",
        "amazonaws.com",
    ),
    (
        "us-east-1",
        true,
        false,
        "https://sqs-fips.us-east-1.amazonaws.com/1/q",
        "sqs-fips.us-east-1.amazonaws.com",
        "us-east-1",
        "-fips",
        "amazonaws.com",
    ),
    (
        "us-east-1",
        true,
        false,
        "https://sqs.us-east-1.amazonaws.com/1/q",
        "sqs-fips.us-east-1.amazonaws.com",
        "us-east-1",
        "-fips",
        "amazonaws.com",
    ),
    (
        "us-east-1",
        true,
        false,
        "https://vpce-1.sqs.us-east-1.vpce.amazonaws.com/1/q",
        "vpce-1.sqs.us-east-1.vpce.amazonaws.com",
        "us-east-1",
        "-fips",
        "amazonaws.com",
    ),
];

#[tokio::test(start_paused = true)]
async fn every_url_and_region_has_its_host_and_is_signed_for_its_region() {
    for (region, fips, dual_stack, url, host, signed, between, zone) in ROWS {
        let all = asked(base(region, *fips, *dual_stack), url).await;
        assert_eq!(all[0], ((*host).to_owned(), format!("{signed}/sqs")), "{region} {url}");
        for (n, service) in [(1, "autoscaling"), (2, "ec2"), (3, "events"), (4, "sts")] {
            let expected =
                (format!("{service}{between}.{region}.{zone}"), format!("{region}/{service}"));
            assert_eq!(all[n], expected, "{region} {url} fips {fips} dual stack {dual_stack}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn in_govcloud_fips_uses_the_ordinary_hosts_of_most_services() {
    let all =
        asked(base("us-gov-west-1", true, false), "https://sqs.us-gov-west-1.amazonaws.com/1/q")
            .await;
    let hosts: Vec<_> = all.iter().map(|(host, _)| host.as_str()).collect();
    assert_eq!(
        hosts,
        [
            "sqs.us-gov-west-1.amazonaws.com",
            "autoscaling.us-gov-west-1.amazonaws.com",
            "ec2.us-gov-west-1.amazonaws.com",
            "events.us-gov-west-1.amazonaws.com",
            "sts.us-gov-west-1.amazonaws.com",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn one_endpoint_for_all_services_overrides_the_other_settings() {
    for (fips, dual_stack) in [(false, false), (true, false), (false, true)] {
        let base = base("eu-west-1", fips, dual_stack)
            .into_builder()
            .endpoint_url("https://aws.example.com:8443")
            .build();
        for (host, _) in asked(base, "https://sqs.eu-west-1.amazonaws.com/1/q").await {
            assert_eq!(host, "aws.example.com", "fips {fips} dual stack {dual_stack}");
        }
    }
}

/// The endpoints of single services, as the environment sets them.
#[derive(Debug)]
struct ServiceEndpoints(&'static [(&'static str, &'static str)]);

impl aws_types::service_config::LoadServiceConfig for ServiceEndpoints {
    fn load_config(&self, key: aws_types::service_config::ServiceConfigKey<'_>) -> Option<String> {
        assert_eq!((key.env(), key.profile()), ("AWS_ENDPOINT_URL", "endpoint_url"));
        self.0
            .iter()
            .find(|(service, _)| *service == key.service_id())
            .map(|(_, url)| (*url).to_owned())
    }
}

#[tokio::test(start_paused = true)]
async fn a_service_may_have_an_endpoint_of_its_own_unless_the_program_names_one_for_all() {
    const QUEUE: &str = "https://sqs.eu-west-1.amazonaws.com/1/q";
    let own = || {
        ServiceEndpoints(&[
            ("EventBridge", "https://events.example.com/"),
            ("STS", "https://sts.example.com"),
        ])
    };
    let hosts = async |base: SdkConfig| {
        asked(base, QUEUE).await.into_iter().map(|(host, _)| host).collect::<Vec<_>>()
    };
    let with = |base: SdkConfig| base.into_builder().service_config(own()).build();
    let all = hosts(with(base("eu-west-1", false, false))).await;
    assert_eq!(
        all[1..],
        [
            "autoscaling.eu-west-1.amazonaws.com",
            "ec2.eu-west-1.amazonaws.com",
            "events.example.com",
            "sts.example.com"
        ]
    );
    // As `AWS_ENDPOINT_URL` does: for the services without an endpoint of their own.
    let for_all = base("eu-west-1", false, false)
        .into_builder()
        .endpoint_url("https://aws.example.com")
        .build();
    assert_eq!(
        hosts(with(for_all.clone())).await[2..],
        ["aws.example.com", "events.example.com", "sts.example.com"]
    );
    let mut by_program = with(for_all).into_builder();
    by_program.insert_origin("endpoint_url", aws_types::origin::Origin::shared_config());
    assert!(hosts(by_program.build()).await.iter().all(|host| host == "aws.example.com"));
}

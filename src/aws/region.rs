//! The region and the endpoint that the URL of a queue names.

use url::Url;

use crate::domain::{is_region, region_of_host};

/// The URL of a queue names no region.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the queue URL `{0}` names no region")]
pub struct UnknownRegion(pub String);

/// The region that the URL of a queue names: `https://sqs.eu-west-1.amazonaws.com/…`, the legacy
/// `https://eu-west-1.queue.amazonaws.com/…` and `https://queue.amazonaws.com/…` (us-east-1), FIPS,
/// dual-stack (`sqs.eu-west-1.api.aws`), China, GovCloud and the other partitions, and VPC
/// endpoints (`vpce-….sqs.eu-west-1.vpce.amazonaws.com`).
///
/// # Errors
/// When the URL names no region: a local endpoint or a custom host.
pub fn region_of_queue(url: &str) -> Result<String, UnknownRegion> {
    host(url).as_deref().and_then(region_of_host).ok_or_else(|| UnknownRegion(url.to_owned()))
}

/// The endpoint of the queue, if it is not the SDK's endpoint for the region: a VPC endpoint, a
/// dual-stack or FIPS host, or a host that does not belong to AWS.
pub(super) fn endpoint_of_queue(url: &str) -> Option<String> {
    let parsed = Url::parse(url).ok()?;
    let host = parsed.host_str()?;
    let labels: Vec<_> = host.split('.').collect();
    let standard = match *labels.as_slice() {
        // The legacy hosts may not support today's protocol; the endpoint of the region does.
        ["sqs", region, "amazonaws", ..] | [region, "queue", "amazonaws", ..] => is_region(region),
        ["queue", "amazonaws", ..] => true,
        _ => false,
    };
    let origin = parsed.origin();
    (!standard && origin.is_tuple()).then(|| origin.ascii_serialization())
}

/// The DNS suffixes of the hosts of an AWS partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Partition {
    /// The suffix of ordinary hosts.
    pub(super) zone: &'static str,
    /// The suffix of dual-stack hosts.
    pub(super) dual_stack: &'static str,
}

/// The partition that a region belongs to.
pub(super) fn partition(region: &str) -> Partition {
    let (zone, dual_stack) = match region {
        _ if region.starts_with("cn-") => ("amazonaws.com.cn", "api.amazonwebservices.com.cn"),
        _ if region.starts_with("eusc-") => ("amazonaws.eu", "api.amazonwebservices.eu"),
        _ if region.starts_with("us-isob-") => ("sc2s.sgov.gov", "api.aws.scloud"),
        _ if region.starts_with("us-iso-") => ("c2s.ic.gov", "api.aws.ic.gov"),
        _ => ("amazonaws.com", "api.aws"),
    };
    Partition { zone, dual_stack }
}

fn host(url: &str) -> Option<String> {
    Url::parse(url).ok()?.host_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shape_of_queue_url_names_its_region_and_endpoint() {
        for (url, region, endpoint) in [
            ("https://sqs.eu-west-1.amazonaws.com/123456789012/q", "eu-west-1", None),
            ("https://eu-west-1.queue.amazonaws.com/123456789012/q", "eu-west-1", None),
            ("https://queue.amazonaws.com/123456789012/q", "us-east-1", None),
            ("https://sqs.cn-north-1.amazonaws.com.cn/123456789012/q", "cn-north-1", None),
            ("https://sqs.us-gov-west-1.amazonaws.com/123456789012/q", "us-gov-west-1", None),
            ("https://sqs.eusc-de-east-1.amazonaws.eu/123456789012/q", "eusc-de-east-1", None),
            (
                "https://sqs.us-iso-east-1.c2s.ic.gov/123456789012/q",
                "us-iso-east-1",
                Some("https://sqs.us-iso-east-1.c2s.ic.gov"),
            ),
            (
                "https://sqs-fips.us-east-1.amazonaws.com/123456789012/q",
                "us-east-1",
                Some("https://sqs-fips.us-east-1.amazonaws.com"),
            ),
            (
                "https://sqs.eu-west-1.api.aws/123456789012/q",
                "eu-west-1",
                Some("https://sqs.eu-west-1.api.aws"),
            ),
            (
                "https://sqs.cn-north-1.api.amazonwebservices.com.cn/123456789012/q",
                "cn-north-1",
                Some("https://sqs.cn-north-1.api.amazonwebservices.com.cn"),
            ),
            (
                "https://sqs-fips.us-gov-west-1.api.aws/123456789012/q",
                "us-gov-west-1",
                Some("https://sqs-fips.us-gov-west-1.api.aws"),
            ),
            (
                "https://vpce-0a1b-xyz.sqs.eu-west-1.vpce.amazonaws.com/123456789012/q",
                "eu-west-1",
                Some("https://vpce-0a1b-xyz.sqs.eu-west-1.vpce.amazonaws.com"),
            ),
            (
                "http://sqs.us-east-1.localhost.localstack.cloud:4566/000000000000/q",
                "us-east-1",
                Some("http://sqs.us-east-1.localhost.localstack.cloud:4566"),
            ),
        ] {
            assert_eq!(region_of_queue(url).as_deref(), Ok(region), "{url}");
            assert_eq!(endpoint_of_queue(url).as_deref(), endpoint, "{url}");
        }
    }

    #[test]
    fn a_custom_host_names_no_region_and_is_its_own_endpoint() {
        for (url, endpoint) in [
            ("http://127.0.0.1:4566/000000000000/q", Some("http://127.0.0.1:4566")),
            ("https://sqs.example.com/1/q", Some("https://sqs.example.com")),
        ] {
            assert!(region_of_queue(url).is_err(), "{url}");
            assert_eq!(endpoint_of_queue(url).as_deref(), endpoint, "{url}");
        }
        for bad in ["", "q", "arn:aws:sqs:eu-west-1:123456789012:q"] {
            assert!(region_of_queue(bad).is_err(), "{bad}");
            assert_eq!(endpoint_of_queue(bad), None, "{bad}");
        }
    }
}

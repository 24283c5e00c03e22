//! AWS region names, and host names that contain them.

/// The region in the host of an SQS endpoint: `sqs.R.amazonaws.com` and those of other partitions,
/// `sqs-fips.R.…`, `sqs.R.api.aws` (dual stack), `vpce-….sqs.R.vpce.amazonaws.com`, and the legacy
/// `R.queue.amazonaws.com` and `queue.amazonaws.com` (AWS General Reference, "Amazon SQS
/// endpoints"). `None` if the host names no region.
#[must_use]
pub fn region_of_host(host: &str) -> Option<String> {
    let labels: Vec<_> = host.split('.').collect();
    if labels.starts_with(&["queue", "amazonaws"]) {
        return Some("us-east-1".to_owned());
    }
    labels.windows(2).find_map(|pair| match *pair {
        ["sqs" | "sqs-fips", region] | [region, "queue"] if is_region(region) => {
            Some(region.to_owned())
        }
        _ => None,
    })
}

/// Whether the text has the form of a region name: two words or more and a number, such as
/// `eu-west-1`, `us-gov-east-1`, `us-iso-east-1`, `eusc-de-east-1`.
#[must_use]
pub fn is_region(label: &str) -> bool {
    let mut words = label.split('-').rev();
    let number =
        words.next().is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()));
    let names: Vec<_> = words.collect();
    number
        && names.len() >= 2
        && names.iter().all(|w| !w.is_empty() && w.bytes().all(|b| b.is_ascii_lowercase()))
}

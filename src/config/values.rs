//! The values that flags take.

use std::{fmt, net::SocketAddr, str::FromStr};

use clap::builder::PossibleValue;

use crate::domain::{Exclusion, HookResult, WaitForVolumes, region_of_host};
pub use crate::domain::{duration_text, parse_duration};

/// Looks up an environment variable: of the process, or of a test.
pub(super) type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The trimmed value; `None` if it is empty, because templates leave empty values.
pub(super) fn given(value: Option<String>) -> Option<String> {
    value.map(|v| v.trim().to_owned()).filter(|v| !v.is_empty())
}

/// An SQS queue by its URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueUrl {
    /// The URL as it was given.
    pub url: String,
    /// The region that its host names; `None` for a host that is not AWS's.
    pub region: Option<String>,
    /// The name of the queue: the last segment of the URL's path.
    pub name: String,
}

impl clap::ValueEnum for Exclusion {
    fn value_variants<'a>() -> &'a [Self] {
        &[Self::Early, Self::Late, Self::Never]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(match self {
            Self::Early => PossibleValue::new("early").help("With the accept"),
            Self::Late => PossibleValue::new("late")
                .help("When the last pod that counts is terminating, or 60 s before the deadline"),
            Self::Never => PossibleValue::new("never").help("Not at all"),
        })
    }
}

impl clap::ValueEnum for HookResult {
    fn value_variants<'a>() -> &'a [Self] {
        &[Self::Continue, Self::Abandon]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(match self {
            Self::Continue => PossibleValue::new("continue")
                .help("Auto Scaling continues the launch or the termination"),
            Self::Abandon => PossibleValue::new("abandon").help("Auto Scaling abandons it"),
        })
    }
}

impl clap::ValueEnum for WaitForVolumes {
    fn value_variants<'a>() -> &'a [Self] {
        &[Self::Hooks, Self::Never]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(match self {
            Self::Hooks => PossibleValue::new("hooks").help("Before completing a lifecycle action"),
            Self::Never => PossibleValue::new("never").help("Not at all"),
        })
    }
}

/// Which Events are written on pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum PodEvents {
    /// Pods that are blocked for more than 30 s, and pods that are forced.
    #[default]
    Notable,
    /// Also every pod that is evicted.
    All,
}

/// Whether and where a port is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listen {
    /// `off`: the port is not opened.
    Off,
    /// The address to listen on. Port 0 lets the system choose one.
    At(SocketAddr),
}

impl Listen {
    pub(super) const fn address(self) -> Option<SocketAddr> {
        match self {
            Self::Off => None,
            Self::At(address) => Some(address),
        }
    }
}

impl FromStr for QueueUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let remedy = "use the queue's URL, as `aws sqs get-queue-url` prints it: \
            https://sqs.REGION.amazonaws.com/ACCOUNT/NAME";
        let url = url::Url::parse(text).map_err(|e| format!("not a URL ({e}); {remedy}"))?;
        if !matches!(url.scheme(), "https" | "http") {
            return Err(format!("not an http(s) URL; {remedy}"));
        }
        let host = url.host_str().ok_or_else(|| format!("no host in it; {remedy}"))?;
        let name = url.path_segments().and_then(|mut s| s.next_back()).filter(|n| !n.is_empty());
        let name = name.ok_or_else(|| format!("no queue name at its end; {remedy}"))?.to_owned();
        // While Sundown holds one message of a FIFO queue's group, SQS delivers no later message
        // of that group. EventBridge also needs a group for each message.
        if name.rsplit_once('.').is_some_and(|(_, kind)| kind == "fifo") {
            return Err("a FIFO queue, which brings nothing while a message before it is held; \
                give a standard queue"
                .to_owned());
        }
        Ok(Self { url: text.to_owned(), region: region_of_host(host), name })
    }
}

impl fmt::Display for QueueUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.url)
    }
}

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "off" {
            return Ok(Self::Off);
        }
        text.parse().map(Self::At).map_err(|_| {
            "use an address with a port, such as 0.0.0.0:9808 or [::]:9808, or off".to_owned()
        })
    }
}

/// Parses a boolean flag or variable: `true`, `yes`, `on`, `1` and their opposites, in any case.
pub(super) fn parse_switch(text: &str) -> Result<bool, String> {
    match text.trim().to_ascii_lowercase().as_str() {
        "true" | "t" | "yes" | "y" | "on" | "1" => Ok(true),
        "false" | "f" | "no" | "n" | "off" | "0" => Ok(false),
        _ => Err("use true or false".to_owned()),
    }
}

/// Parses a whole number that is not negative.
pub(super) fn parse_count(text: &str) -> Result<usize, String> {
    text.trim().parse().map_err(|_| "use a whole number".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_url_names_its_region() {
        for (url, region) in [
            ("https://sqs.eu-west-1.amazonaws.com/123456789012/nodes", Some("eu-west-1")),
            ("https://sqs.cn-north-1.amazonaws.com.cn/123456789012/nodes", Some("cn-north-1")),
            ("https://sqs-fips.us-gov-west-1.amazonaws.com/1/nodes", Some("us-gov-west-1")),
            ("https://eu-west-1.queue.amazonaws.com/1/nodes", Some("eu-west-1")),
            ("https://queue.amazonaws.com/1/nodes", Some("us-east-1")),
            ("https://sqs.eu-west-1.api.aws/1/nodes", Some("eu-west-1")),
            ("https://vpce-1a2b-xyz.sqs.eu-west-1.vpce.amazonaws.com/1/nodes", Some("eu-west-1")),
            (
                "https://vpce-1a2b-xyz.sqs.cn-north-1.vpce.amazonaws.com.cn/1/nodes",
                Some("cn-north-1"),
            ),
            (
                "https://sqs.cn-northwest-1.api.amazonwebservices.com.cn/1/nodes",
                Some("cn-northwest-1"),
            ),
            ("https://sqs.eusc-de-east-1.amazonaws.eu/1/nodes", Some("eusc-de-east-1")),
            ("http://localhost:9324/000000000000/nodes", None),
            ("http://127.0.0.1:4566/000000000000/nodes", None),
        ] {
            let queue: QueueUrl = url.parse().unwrap();
            assert_eq!(
                (queue.region.as_deref(), queue.name.as_str(), queue.url.as_str()),
                (region, "nodes", url)
            );
        }
        for bad in [
            "",
            "nodes",
            "arn:aws:sqs:eu-west-1:1:nodes",
            "https://sqs.eu-west-1.amazonaws.com/",
            "ftp://x/y",
        ] {
            let error = bad.parse::<QueueUrl>().unwrap_err();
            assert!(error.contains("aws sqs get-queue-url"), "{bad}: {error}");
        }
    }
}

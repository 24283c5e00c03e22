//! Checks hosts, proxies and the leader's `/readyz`. The functions that judge an answer are pure;
//! those that ask are at the end.

use std::{net::IpAddr, time::Duration};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use jiff::SignedDuration;
use url::Url;

use super::finding::Finding;
use crate::{
    aws::Proxy,
    domain::{seconds, with_causes},
};

/// How long a name may take to resolve, and `/readyz` to answer.
const LIMIT: Duration = seconds(5);
/// At most this many bytes of an answer are read.
const ANSWER: usize = 16 * 1024;
/// Where credentials come from: EKS Pod Identity in both families, and the instance's metadata.
const CREDENTIALS: [&str; 3] = [
    "http://169.254.170.23/v1/credentials",
    "http://[fd00:ec2::23]/v1/credentials",
    "http://169.254.169.254/latest/meta-data",
];
/// AWS refuses signatures that are five minutes off.
const SKEW: SignedDuration = SignedDuration::from_mins(4);

/// Whether requests for credentials would go through a proxy. `given`: the endpoint in the
/// environment (`AWS_CONTAINER_CREDENTIALS_FULL_URI`).
pub(super) fn judge_proxy(proxy: &Proxy, given: Option<&str>) -> Finding {
    const POINT: &str = "credentials.direct";
    let through = |url: &str| proxy.of(url).map(|proxy| (url.to_owned(), proxy));
    if let Some((url, proxy)) = given.and_then(through) {
        let host = host_of(&url).unwrap_or(url);
        let remedy = format!("add {host} to NO_PROXY: no proxy gives out credentials of this pod");
        return Finding::no(
            POINT,
            "",
            format!("credentials are asked for at {host} through {proxy}"),
            remedy,
        );
    }
    let all: Vec<_> = CREDENTIALS.into_iter().filter_map(through).collect();
    let Some((_, by)) = all.first() else {
        return Finding::yes(POINT, "", "credentials are asked for without a proxy");
    };
    let hosts = all.iter().filter_map(|(url, _)| host_of(url)).collect::<Vec<_>>().join(", ");
    let message = format!("requests to {hosts} would go through {by}");
    Finding::no(
        POINT,
        "",
        message,
        "set NO_PROXY=169.254.170.23,fd00:ec2::23,169.254.169.254 and the cluster's own addresses",
    )
    .advice()
}

fn host_of(url: &str) -> Option<String> {
    Some(Url::parse(url).ok()?.host_str()?.trim_matches(['[', ']']).to_owned())
}

/// Judges the DNS look-up of `host`, or of the `proxy` through which it is reached.
pub(super) fn judge_host(
    host: &str,
    proxy: Option<&str>,
    found: &Result<Vec<IpAddr>, String>,
) -> Finding {
    const POINT: &str = "host";
    let by = proxy.map(|proxy| format!(" through {proxy}")).unwrap_or_default();
    match found {
        Ok(addresses) => match addresses.as_slice() {
            [] => Finding::no(POINT, host, format!("it has no address{by}"), remedy()),
            [first, ..] => {
                let private =
                    if is_private(first) { ", a private one (a VPC endpoint)" } else { "" };
                Finding::yes(POINT, host, format!("{first}{private}{by}"))
            }
        },
        Err(why) => {
            Finding::no(POINT, host, format!("its name does not resolve{by}: {why}"), remedy())
        }
    }
}

/// The same for a sink of notifications or traces. Drains do not depend on it.
fn judge_sink(
    what: &str,
    host: &str,
    proxy: Option<&str>,
    found: &Result<Vec<IpAddr>, String>,
) -> Finding {
    let finding = judge_host(host, proxy, found).advice();
    let message = format!("{what}: {}", finding.message);
    // Not the remedy for AWS's hosts, because this host may be inside of the cluster.
    let remedy = finding.remedy.map(|_| {
        "look at its URL; a host inside of the cluster is found with dnsPolicy ClusterFirst, not \
         with Default. Drains go on without it"
            .to_owned()
    });
    Finding { message, remedy, ..finding }
}

fn remedy() -> &'static str {
    "look at the pod's dnsPolicy (`Default` asks the node's resolver and needs no CoreDNS), at \
     the region, and at private DNS of VPC endpoints"
}

fn is_private(address: &IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_private(),
        IpAddr::V6(v6) => v6.is_unique_local(),
    }
}

/// `skew`: how far AWS's clock is ahead of ours. `None`: AWS has not answered.
pub(super) fn judge_clock(skew: Option<SignedDuration>) -> Finding {
    const POINT: &str = "clock";
    let Some(skew) = skew else {
        return Finding::cannot_tell(
            POINT,
            "",
            "AWS has not answered, so its time is not known",
            "fix the point `credentials` first",
        );
    };
    let apart = format!("AWS's clock differs by {} s", skew.as_secs());
    match skew {
        SignedDuration::ZERO => Finding::yes(POINT, "", "it agrees with AWS's to 2 s"),
        _ if skew.abs() > SKEW => Finding::no(
            POINT,
            "",
            apart,
            "mend NTP on the node: AWS refuses requests that are five minutes off",
        ),
        _ => Finding::no(POINT, "", apart, "mend NTP on the node").advice(),
    }
}

/// Judges the leader's `/readyz`. A leader that receives proves that it is allowed to receive.
pub(super) fn judge_ready(leader: &str, answer: &Result<(u16, String), String>) -> Finding {
    const POINT: &str = "queue.receive";
    match answer {
        Ok((200, _)) => Finding::yes(POINT, leader, "/readyz answers that the leader receives"),
        Ok((503, text)) => {
            let why = text.trim().replace('\n', "; ");
            Finding::no(
                POINT,
                leader,
                format!("the leader is not ready: {why}"),
                "docs/operations.md, Probes: what it names is at fault, AWS, Kubernetes or a \
                 permission",
            )
        }
        Ok((status, _)) => Finding::cannot_tell(
            POINT,
            leader,
            format!("/readyz answers {status}"),
            "name the leader's with --readyz URL",
        ),
        Err(why) => Finding::cannot_tell(
            POINT,
            leader,
            format!("/readyz cannot be asked: {why}"),
            "name it with --readyz URL, or ask the queue itself with --receive",
        ),
    }
}

/// Looks up the host name of an origin, or of the proxy through which it is reached.
pub(super) async fn look_up(origin: &str, proxy: &Proxy) -> Finding {
    let by = proxy.of(origin);
    let asked = by.as_deref().unwrap_or(origin);
    let host = Url::parse(origin)
        .ok()
        .and_then(|u| u.host_str().map(str::to_owned))
        .unwrap_or_else(|| origin.to_owned());
    judge_host(&host, by.as_deref(), &resolve(asked).await)
}

/// Looks up the host of a sink (the webhook or the collector of traces), or of the proxy through
/// which it is reached. `check` sends nothing to it. `own`: the proxy of this sink alone.
pub(super) async fn look_up_sink(
    what: &str,
    url: &str,
    own: Option<&str>,
    proxy: &Proxy,
) -> Finding {
    let by = own.and_then(without_password).or_else(|| proxy.of(url));
    let asked = by.as_deref().unwrap_or(url);
    judge_sink(what, &host_of(url).unwrap_or_default(), by.as_deref(), &resolve(asked).await)
}

/// Keeps only scheme, host and port, because any other part of a URL may hold secrets.
fn without_password(url: &str) -> Option<String> {
    Some(Url::parse(url).ok()?.origin().ascii_serialization())
}

async fn resolve(origin: &str) -> Result<Vec<IpAddr>, String> {
    let url = Url::parse(origin).map_err(|e| e.to_string())?;
    let (host, port) = (
        url.host_str().unwrap_or_default().trim_matches(['[', ']']).to_owned(),
        url.port_or_known_default().unwrap_or(443),
    );
    match tokio::time::timeout(LIMIT, tokio::net::lookup_host((host, port))).await {
        Ok(found) => found.map(|all| all.map(|a| a.ip()).collect()).map_err(|e| e.to_string()),
        Err(_) => Err(format!("no answer within {} s", LIMIT.as_secs())),
    }
}

/// Sends GET. Returns the status and at most `ANSWER` bytes of the body.
pub(super) async fn get(url: &str) -> Result<(u16, String), String> {
    let uri: http::Uri = url.parse().map_err(|_| format!("`{url}` is no URL"))?;
    let client: Client<_, Empty<Bytes>> = Client::builder(TokioExecutor::new()).build_http();
    let asked = async {
        let answer = client.get(uri).await.map_err(|e| with_causes(&e))?;
        let status = answer.status().as_u16();
        let body =
            Limited::new(answer.into_body(), ANSWER).collect().await.map_err(|e| e.to_string())?;
        Ok((status, String::from_utf8_lossy(&body.to_bytes()).into_owned()))
    };
    match tokio::time::timeout(LIMIT, asked).await {
        Ok(answer) => answer,
        Err(_) => Err(format!("no answer within {} s", LIMIT.as_secs())),
    }
}

#[cfg(test)]
mod tests {
    use super::{super::finding::Answer, *};

    fn outcome(finding: &Finding) -> (Answer, bool) {
        (finding.answer, finding.needed)
    }

    #[test]
    fn no_proxy_must_name_the_endpoints_of_credentials() {
        let of = |http: &str, https: &str, no: &str, given: Option<&str>| {
            judge_proxy(&Proxy::of_variables(http, https, no), given)
        };
        let pod_identity = Some("http://169.254.170.23/v1/credentials");
        let all = "169.254.170.23,fd00:ec2::23,169.254.169.254";
        for (http, no, given, expected) in [
            ("", "", None, (Answer::Yes, true)),
            ("", "", pod_identity, (Answer::Yes, true)),
            ("http://p:3128", "", None, (Answer::No, false)),
            ("http://p:3128", "", pod_identity, (Answer::No, true)),
            ("http://p:3128", "169.254.170.23", pod_identity, (Answer::No, false)),
            ("http://p:3128", all, pod_identity, (Answer::Yes, true)),
        ] {
            assert_eq!(
                outcome(&of(http, "http://p:3128", no, given)),
                expected,
                "{http} {no} {given:?}"
            );
        }
        let found = of("http://p:3128", "", "169.254.170.23", None);
        assert!(
            found.message.contains("fd00:ec2::23, 169.254.169.254")
                && !found.message.contains("170.23"),
            "{}",
            found.message
        );
    }

    #[test]
    fn a_host_resolves_or_its_proxy_does() {
        let address = |text: &str| Ok(vec![text.parse::<IpAddr>().unwrap()]);
        assert!(judge_host("sqs", None, &address("10.0.0.7")).message.contains("private"));
        assert!(!judge_host("sqs", None, &address("52.95.1.1")).message.contains("private"));
        assert_eq!(outcome(&judge_host("sqs", None, &Ok(vec![]))), (Answer::No, true));
        let failed = judge_host("sqs", Some("http://p:3128"), &Err("not known".to_owned()));
        assert!(
            failed.answer == Answer::No
                && failed.message.contains("through http://p:3128")
                && failed.remedy.unwrap().contains("dnsPolicy")
        );
    }

    #[test]
    fn a_sink_that_does_not_resolve_is_reported_as_advice() {
        let there = judge_sink(
            "the webhook",
            "chat.example.com",
            None,
            &Ok(vec!["10.0.0.7".parse().unwrap()]),
        );
        assert!(
            outcome(&there) == (Answer::Yes, false)
                && there.remedy.is_none()
                && there.message.starts_with("the webhook: 10.0.0.7"),
            "{}",
            there.message
        );
        let away = judge_sink("the webhook", "chat.tools.svc", None, &Err("not known".to_owned()));
        assert!(
            outcome(&away) == (Answer::No, false)
                && away.remedy.clone().unwrap().contains("ClusterFirst"),
            "{away:?}"
        );
        assert_eq!(
            without_password("http://user:S3CR3T@proxy:3128/x?S3CR3T").as_deref(),
            Some("http://proxy:3128")
        );
    }

    #[test]
    fn a_clock_may_differ_by_less_than_aws_allows() {
        for (skew, expected) in [
            (0, (Answer::Yes, true)),
            (3, (Answer::No, false)),
            (-200, (Answer::No, false)),
            (241, (Answer::No, true)),
            (-300, (Answer::No, true)),
        ] {
            assert_eq!(
                outcome(&judge_clock(Some(SignedDuration::from_secs(skew)))),
                expected,
                "{skew}"
            );
        }
    }

    #[test]
    fn without_an_answer_of_aws_the_clock_is_unknown() {
        assert_eq!(outcome(&judge_clock(None)), (Answer::CannotTell, true));
    }

    #[test]
    fn a_ready_leader_receives() {
        assert_eq!(outcome(&judge_ready("a", &Ok((200, "ok\n".to_owned())))), (Answer::Yes, true));
        let not =
            judge_ready("a", &Ok((503, "receiving: nothing for 60 s\nqueue: gone\n".to_owned())));
        assert!(
            outcome(&not) == (Answer::No, true)
                && not.message.ends_with("receiving: nothing for 60 s; queue: gone"),
            "{}",
            not.message
        );
        assert_eq!(
            outcome(&judge_ready("a", &Ok((404, String::new())))),
            (Answer::CannotTell, true)
        );
        assert_eq!(
            outcome(&judge_ready("a", &Err("refused".to_owned()))),
            (Answer::CannotTell, true)
        );
    }
}

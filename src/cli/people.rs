//! Shared by the commands that users run: a runtime, clients with the user's credentials, standard
//! output.

use std::{io::Write as _, sync::Arc};

use anyhow::Context as _;

use crate::{
    aws::{self, AwsError, Clients, Outcome},
    cluster::{
        self,
        lease::{LeasePlace, LeaseSearch},
    },
    config::{AwsArgs, ConfigError, KubeArgs, LeaseArgs},
    runtime::{Clock, Random},
};

/// Runs a command to its end.
pub(super) fn block_on<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work)
}

/// Clients for AWS, with credentials and region of the environment. `region` is used if the flags
/// name none.
pub(super) async fn connect(args: &AwsArgs, region: Option<&str>) -> anyhow::Result<Clients> {
    let given = |value: &Option<String>| value.clone().filter(|v| !v.trim().is_empty());
    let region = given(&args.region).or_else(|| region.map(str::to_owned));
    let base =
        aws::load(&aws::Options { region, endpoint_url: given(&args.aws_endpoint_url) }).await?;
    if base.region().is_none() {
        return Err(ConfigError::no_region().into());
    }
    Ok(Clients::from_config(&base, Clock::system(), Arc::new(())))
}

/// A client for Kubernetes, configured as kubectl is.
pub(super) async fn connect_kube(args: &KubeArgs) -> anyhow::Result<kube::Client> {
    let options = cluster::ConnectOptions {
        kubeconfig: args.kubeconfig.clone(),
        context: args.context.clone(),
    };
    cluster::connect(&options).await.context("no Kubernetes cluster is configured")
}

/// Where to look for the Lease: at the place in flags, variables and the pod's environment, or else
/// any Lease with Sundown's label.
pub(super) fn lease_search(args: &LeaseArgs) -> LeaseSearch {
    let (place, is_placed) = args.place_or_default(&|name| std::env::var(name).ok());
    let (namespace, name) = place;
    // The user has most likely not chosen the default name, so a Lease of any name matches.
    let is_named = name != crate::config::defaults::LEASE_NAME;
    LeaseSearch {
        namespace: is_placed.then(|| namespace.clone()),
        name: is_named.then(|| name.clone()),
        default: LeasePlace { namespace, name },
    }
}

/// The error of a call with the user's own credentials, with a remedy. `policy`: where the
/// documentation has the policy that they may need.
pub(super) fn advised(error: AwsError, policy: &str) -> anyhow::Error {
    let remedy = match error.outcome() {
        // The SDK found no credentials, or AWS does not know them. No policy helps.
        Outcome::Credentials => {
            "AWS takes no credentials of yours: look at `aws sts get-caller-identity` and \
             AWS_PROFILE"
        }
        Outcome::Denied => {
            let permission = error.api().permission();
            return anyhow::Error::from(error)
                .context(format!("your credentials need {permission} ({policy})"));
        }
        Outcome::Gone => "look at the name, at --region, and at the account of your credentials",
        Outcome::Timeout | Outcome::Unreachable => {
            "look at the network, HTTPS_PROXY, NO_PROXY and --aws-endpoint-url"
        }
        Outcome::Throttled | Outcome::Server => "try again in a minute",
        Outcome::Ok | Outcome::Rejected => return error.into(),
    };
    anyhow::anyhow!("{error}; {remedy}")
}

/// A random UUID of version 4.
pub(super) fn uuid(random: &Random) -> String {
    let part = |bits: u32| random.below(1 << bits);
    format!(
        "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
        part(32),
        part(16),
        part(12),
        0x8000 | part(14),
        part(48)
    )
}

/// Prints a line on standard output.
pub(super) fn print_line(text: &str) {
    writeln!(std::io::stdout(), "{text}").ok();
}

#[cfg(test)]
#[allow(clippy::indexing_slicing, reason = "what is not there fails the test")]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_has_36_characters_and_is_of_version_4() {
        let random = Random::seeded(1);
        for _ in 0..100 {
            let id = uuid(&random);
            let parts: Vec<_> = id.split('-').map(str::len).collect();
            assert_eq!(parts, [8, 4, 4, 4, 12], "{id}");
            assert!(id.as_bytes()[14] == b'4' && b"89ab".contains(&id.as_bytes()[19]), "{id}");
        }
        assert_ne!(uuid(&random), uuid(&random));
    }
}

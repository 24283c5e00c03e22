//! Waits for the Event in which the service reports a test.

use std::{collections::BTreeMap, time::Duration};

use anyhow::Context as _;
use k8s_openapi::api::core::v1::Event;
use kube::{Api, Client, api::ListParams};
use tokio::time::Instant;

use crate::{
    cluster::{ConnectOptions, EventReason, connect},
    config::KubeArgs,
    domain::{InstanceId, seconds, with_causes},
};

/// How long one request may take.
const LIMIT: Duration = seconds(10);
/// How often Events are listed.
const EVERY: Duration = seconds(1);
/// Reason of the Event about a test that the service does not act on.
const REPORTED: &str = EventReason::TestReceived.as_str();
/// Reason of the Event about an accepted interruption, which includes tests that the service acts
/// on.
const ACTED_ON: &str = EventReason::InterruptionAccepted.as_str();

/// Looks for the Event about one test.
pub(super) struct EventWatch {
    client: Client,
    real: bool,
    /// Accept Events from before the test: UID and resource version. A repeated Event keeps its UID
    /// and changes its version.
    before: BTreeMap<String, String>,
}

impl EventWatch {
    /// Lists Events once before the test is sent, so that a missing permission shows at once.
    pub(super) async fn begin(kube: &KubeArgs, real: bool) -> anyhow::Result<Self> {
        let options =
            ConnectOptions { kubeconfig: kube.kubeconfig.clone(), context: kube.context.clone() };
        let client = connect(&options)
            .await
            .context("--wait looks for Events in Kubernetes; nothing was sent")?;
        let mut watch = Self { client, real, before: BTreeMap::new() };
        let why = "--wait looks for Events, which cannot be listed (it takes the right to list \
            events in all namespaces); nothing was sent";
        watch.look(REPORTED).await.map_err(anyhow::Error::msg).context(why)?;
        if real {
            let there = watch.look(ACTED_ON).await.map_err(anyhow::Error::msg).context(why)?;
            watch.before = there.iter().filter_map(identity).collect();
        }
        Ok(watch)
    }

    /// Waits at most `most` until the service reports the test, and returns the Event's message.
    /// Errs if Events could not be listed.
    pub(super) async fn wait(
        &self,
        id: &str,
        instance: &InstanceId,
        most: Duration,
    ) -> Result<Option<String>, String> {
        let end = Instant::now() + most;
        loop {
            let seen = self.find(id, instance).await;
            match seen {
                Ok(Some(message)) => return Ok(Some(message)),
                seen if Instant::now() >= end => return seen,
                _ => tokio::time::sleep_until((Instant::now() + EVERY).min(end)).await,
            }
        }
    }

    async fn find(&self, id: &str, instance: &InstanceId) -> Result<Option<String>, String> {
        let tests = self.look(REPORTED).await?;
        if let Some(message) =
            tests.into_iter().filter_map(|event| event.message).find(|message| message.contains(id))
        {
            return Ok(Some(message));
        }
        if !self.real {
            return Ok(None);
        }
        let accepts = self.look(ACTED_ON).await?;
        Ok(accepts.iter().find_map(|event| acted_on(event, instance, &self.before)))
    }

    async fn look(&self, reason: &str) -> Result<Vec<Event>, String> {
        let api: Api<Event> = Api::all(self.client.clone());
        let parameters = ListParams::default().fields(&format!("reason={reason}"));
        match tokio::time::timeout(LIMIT, api.list(&parameters)).await {
            Ok(answer) => answer.map(|list| list.items).map_err(|error| with_causes(&error)),
            Err(_) => Err(format!("no answer within {} s", LIMIT.as_secs())),
        }
    }
}

fn identity(event: &Event) -> Option<(String, String)> {
    Some((event.metadata.uid.clone()?, event.metadata.resource_version.clone()?))
}

/// The message of the Event, if it is about an accept of this instance and is new or repeated since
/// `before`.
fn acted_on(
    event: &Event,
    instance: &InstanceId,
    before: &BTreeMap<String, String>,
) -> Option<String> {
    let (uid, version) = identity(event)?;
    let message = event.message.clone()?;
    // An instance ID may be a prefix of another one.
    let names = message
        .split(|c: char| !c.is_ascii_alphanumeric() && c != '-')
        .any(|word| word == instance.as_str());
    (names && before.get(&uid) != Some(&version)).then_some(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_new_or_repeated_accept_event_counts() {
        let event = |uid: &str, version: &str, message: &str| {
            let mut event = Event { message: Some(message.to_owned()), ..Event::default() };
            event.metadata.uid = Some(uid.to_owned());
            event.metadata.resource_version = Some(version.to_owned());
            event
        };
        let instance: InstanceId = "i-0123456789abcdef0".parse().unwrap();
        let words = "spot of i-0123456789abcdef0: cordoned, draining";
        let before = BTreeMap::from([("a".to_owned(), "7".to_owned())]);
        for (event, is_news) in [
            (event("a", "7", words), false),
            (event("a", "8", words), true),
            (event("b", "1", words), true),
            (event("b", "1", "spot of i-0123456789abcdef01: cordoned, draining"), false),
        ] {
            assert_eq!(acted_on(&event, &instance, &before).is_some(), is_news, "{event:?}");
        }
    }
}

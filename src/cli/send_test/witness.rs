//! What the service tells of a test, where a person can see it: in Events of the Node.

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
/// How often Events are looked at.
const EVERY: Duration = seconds(1);
/// Told of every test that is not acted on.
const TOLD: &str = EventReason::TestReceived.as_str();
/// Told of one that is acted on as of any other interruption.
const ACTED_ON: &str = EventReason::InterruptionAccepted.as_str();

/// Looks for what is told of one test.
pub(super) struct Witness {
    client: Client,
    real: bool,
    /// Events of accepts that were there before, by UID with their version: equal ones are counted
    /// up in place.
    before: BTreeMap<String, String>,
}

impl Witness {
    /// Looks once, before anything is sent: who may not see Events would wait in vain.
    pub(super) async fn begin(kube: &KubeArgs, real: bool) -> anyhow::Result<Self> {
        let options =
            ConnectOptions { kubeconfig: kube.kubeconfig.clone(), context: kube.context.clone() };
        let client = connect(&options)
            .await
            .context("--wait looks for Events in Kubernetes; nothing was sent")?;
        let mut witness = Self { client, real, before: BTreeMap::new() };
        let why = "--wait looks for Events, which cannot be listed (it takes the right to list \
            events in all namespaces); nothing was sent";
        witness.look(TOLD).await.map_err(anyhow::Error::msg).context(why)?;
        if real {
            let there = witness.look(ACTED_ON).await.map_err(anyhow::Error::msg).context(why)?;
            witness.before = there.iter().filter_map(identity).collect();
        }
        Ok(witness)
    }

    /// Waits until the service has told of the test, for so long at most; what it has told. An
    /// error says what kept Events from being seen.
    pub(super) async fn wait(
        &self,
        id: &str,
        instance: &InstanceId,
        most: Duration,
    ) -> Result<Option<String>, String> {
        let end = Instant::now() + most;
        loop {
            let seen = self.told(id, instance).await;
            match seen {
                Ok(Some(message)) => return Ok(Some(message)),
                seen if Instant::now() >= end => return seen,
                _ => tokio::time::sleep_until((Instant::now() + EVERY).min(end)).await,
            }
        }
    }

    async fn told(&self, id: &str, instance: &InstanceId) -> Result<Option<String>, String> {
        let tests = self.look(TOLD).await?;
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

/// The Event tells of an accept of this instance, and did not before.
fn acted_on(
    event: &Event,
    instance: &InstanceId,
    before: &BTreeMap<String, String>,
) -> Option<String> {
    let (uid, version) = identity(event)?;
    let message = event.message.clone()?;
    // An instance's id may be the beginning of another's.
    let names = message
        .split(|c: char| !c.is_ascii_alphanumeric() && c != '-')
        .any(|word| word == instance.as_str());
    (names && before.get(&uid) != Some(&version)).then_some(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_accept_counts_that_was_not_there_before_or_is_counted_up_since() {
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

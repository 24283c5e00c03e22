//! Finds the rules about pods that the leader follows: in a file that the person gives, or in the
//! ConfigMap that has the label `sundown.dev/rules-of`.

use std::{path::Path, sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client, api::ListParams};

use crate::{
    cli::status::facts::LeaseFacts,
    config::{parse_rules, read_rules},
    domain::{PodRules, RULES_KEY, RULES_LABEL, seconds, with_causes},
};

/// How long the LIST of ConfigMaps may take.
const LIMIT: Duration = seconds(10);
/// The most ConfigMaps that are looked at: one is expected.
const MOST: u32 = 2;

/// The rules that are applied.
#[derive(Debug, Clone, Default)]
pub(super) struct KnownRules {
    pub(super) rules: Arc<PodRules>,
    /// Where they come from. `None`: there are no rules, or they are not known.
    pub(super) source: Option<String>,
    /// Why the rules of the leader are not known, as a sentence. `None`: they are, or it has none.
    pub(super) trouble: Option<String>,
}

impl KnownRules {
    fn unknown(why: &str) -> Self {
        let trouble = format!(
            "The leader follows rules about pods (--rules-file), which are not known here: {why}. \
             Give them with --rules-file FILE. Without them, this is what it would do if no rule \
             matched."
        );
        Self { trouble: Some(trouble), ..Self::default() }
    }
}

/// Reads the rules. Errs if the file of the person is bad.
pub(super) async fn read(
    client: &Client,
    lease: Option<&LeaseFacts>,
    file: Option<&Path>,
) -> anyhow::Result<KnownRules> {
    if let Some(path) = file {
        let text = path.display().to_string();
        let rules = read_rules(path)
            .map_err(|error| anyhow::anyhow!("--rules-file is `{text}`: {error}"))?;
        let source = Some(text);
        return Ok(KnownRules { rules: Arc::new(rules), source, trouble: None });
    }
    let has_rules = |lease: &&LeaseFacts| {
        lease.settings.as_ref().is_some_and(|settings| settings.rules_file.is_some())
    };
    let Some(lease) = lease.filter(has_rules) else { return Ok(KnownRules::default()) };
    Ok(of_config_map(client, lease).await.unwrap_or_else(|why| KnownRules::unknown(&why)))
}

async fn of_config_map(client: &Client, lease: &LeaseFacts) -> Result<KnownRules, String> {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), &lease.namespace);
    let label = format!("{RULES_LABEL}={}", lease.name);
    let parameters = ListParams::default().labels(&label).limit(MOST);
    let listed = match tokio::time::timeout(LIMIT, api.list(&parameters)).await {
        Ok(answer) => answer.map_err(|error| {
            format!(
                "the ConfigMaps in {} cannot be listed: {}",
                lease.namespace,
                with_causes(&error)
            )
        })?,
        Err(_) => return Err(format!("no answer within {} s", LIMIT.as_secs())),
    };
    chosen(&listed.items, &lease.namespace, &label)
}

/// Reads the rules of the only ConfigMap with the label.
pub(super) fn chosen(
    found: &[ConfigMap],
    namespace: &str,
    label: &str,
) -> Result<KnownRules, String> {
    let [map] = found else {
        let count = if found.is_empty() { "no ConfigMap" } else { "several ConfigMaps" };
        return Err(format!("{count} in {namespace} with the label {label}"));
    };
    let name = map.metadata.name.as_deref().unwrap_or_default();
    let source = format!("ConfigMap {namespace}/{name}");
    let text = map.data.as_ref().and_then(|data| data.get(RULES_KEY));
    let text = text.ok_or_else(|| format!("{source} has no key {RULES_KEY}"))?;
    let rules = parse_rules(text).map_err(|error| {
        format!("{source} is bad, so the leader follows earlier ones ({error})")
    })?;
    Ok(KnownRules { rules: Arc::new(rules), source: Some(source), trouble: None })
}

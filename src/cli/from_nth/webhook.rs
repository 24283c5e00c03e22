//! Translates NTH's webhook. Its template is a Go template; ours is JSON with names in its strings.

use std::{collections::BTreeMap, fmt::Write as _};

use serde_json::{Value, json};

use super::{ours::Ours, read::Given, secrets};
use crate::observe::webhook::Template;

/// Fields of NTH's Go template, and our names for them.
const NAMES: &[(&str, &str)] = &[
    (".EventID", "event"),
    (".Kind", "kind"),
    (".InstanceID", "instance"),
    (".NodeName", "node"),
    (".Description", "summary"),
    (".StartTime", "time"),
    (".AutoScalingGroupName", "group"),
    (".InstanceType", "type"),
    (".AvailabilityZone", "zone"),
    (".Region", "region"),
];

/// The Secret for values that NTH has in plain text.
const SECRET: &str = "sundown-webhook";
/// The key of the URL in a Secret: that of NTH's chart, and the default of ours.
const CHART_KEY: &str = "webhookurl";
/// The folder at which the headers are mounted.
const HEADERS: &str = "/etc/sundown/webhook";
/// The folder at which a template is mounted.
const TEMPLATE: &str = "/etc/sundown/template";

pub(super) fn translate(given: &Given, ours: &mut Ours) {
    let from_secret = given
        .text("webhookURLSecretName")
        .map(|name| json!({ "secretKeyRef": { "name": name, "key": CHART_KEY } }));
    let from_secret = from_secret.or_else(|| given.elsewhere.get("webhookURL").cloned());
    let from = match (from_secret, given.text("webhookURL")) {
        (Some(from), _) => {
            if let Some(name) = from.pointer("/secretKeyRef/name").and_then(Value::as_str) {
                ours.do_this(format!(
                    "the Secret {name}, which is where NTH runs, in Sundown's namespace too: {}",
                    copy("secret", name)
                ));
            }
            from
        }
        (None, Some(url)) => {
            if let Some(host) = in_the_cluster(&url) {
                ours.set("dnsPolicy", "ClusterFirst");
                ours.changes(
                    "dnsPolicy: ClusterFirst",
                    format!(
                        "{host} is a name of the cluster, which the node's own resolver does not \
                         know. AWS is then not found while CoreDNS is away: better give the \
                         webhook a name outside"
                    ),
                );
            }
            ours.do_this(format!(
                "a Secret `{SECRET}` in Sundown's namespace with a key `url` that holds NTH's \
                 webhookURL, which is a secret and not repeated here; webhook.urlSecretName names \
                 it, and pods do not start without it"
            ));
            json!({ "secretKeyRef": { "name": SECRET, "key": "url" } })
        }
        (None, None) => return,
    };
    url_from(&from, ours);
    ours.changes(
        "webhook",
        "one message when a drain has ended, from the leader alone, tried again for a minute; NTH \
         sends one for each replica and try. `config.webhookOn: accepted,ended` tells of the \
         beginning too",
    );
    if let Some(proxy) = given.text("webhookProxy") {
        let proxy = proxy.replacen("tcp://", "http://", 1);
        let bare = secrets::without_user(&proxy);
        if bare.is_some() {
            ours.do_this(
                "config.webhookProxy: the user and the password in the proxy's URL are left out \
                 here. If it asks for them, leave the value out and give SUNDOWN_WEBHOOK_PROXY \
                 from a Secret (extraEnv)",
            );
        }
        ours.set("config.webhookProxy", bare.unwrap_or(proxy));
    }
    headers(given, ours);
    template(given, ours);
}

/// Sets the chart's values for a URL from a Secret. The chart has no values for other sources or an
/// optional Secret, so these become an entry of `extraEnv`.
fn url_from(from: &Value, ours: &mut Ours) {
    let key_of = |field: &str| {
        from.pointer(&format!("/secretKeyRef/{field}")).and_then(Value::as_str).map(str::to_owned)
    };
    match (key_of("name"), key_of("key"), from.pointer("/secretKeyRef/optional")) {
        (Some(name), Some(key), None) => {
            ours.set("webhook.urlSecretName", name);
            if key != CHART_KEY {
                ours.set("webhook.urlSecretKey", key);
            }
        }
        _ => ours.push("extraEnv", json!({ "name": "SUNDOWN_WEBHOOK_URL", "valueFrom": from })),
    }
}

/// The command that copies an object into Sundown's namespace. Without the object the pods do not
/// start.
fn copy(kind: &str, name: &str) -> String {
    format!(
        "`kubectl -n kube-system get {kind} {name} -o json | jq \
         'del(.metadata)+{{metadata:{{name:\"{name}\"}}}}' | kubectl -n sundown apply -f -`"
    )
}

/// The host of the URL, if only the cluster's DNS can resolve it.
fn in_the_cluster(url: &str) -> Option<String> {
    let host = url::Url::parse(url).ok()?.host_str()?.to_owned();
    let is_name = host.parse::<std::net::IpAddr>().is_err() && !host.starts_with('[');
    let inside = !host.contains('.')
        || host.rsplit('.').next() == Some("svc")
        || host.ends_with(".cluster.local")
        || host.contains(".svc.");
    (is_name && inside && host != "localhost").then_some(host)
}

fn headers(given: &Given, ours: &mut Ours) {
    let from = given.elsewhere.get("webhookHeaders");
    let Some(text) = given.text("webhookHeaders").or_else(|| from.map(Value::to_string)) else {
        return;
    };
    let parsed: Option<BTreeMap<String, Value>> =
        serde_json::from_str(&text).ok().filter(|_| from.is_none());
    let plain = |(name, value): (&String, &Value)| {
        name.eq_ignore_ascii_case("content-type")
            && value.as_str().is_some_and(|v| v.starts_with("application/json"))
    };
    if parsed.as_ref().is_some_and(|all| all.iter().all(plain)) {
        return;
    }
    ours.push(
        "extraVolumes",
        json!({ "name": "webhook-headers", "secret": { "secretName": SECRET } }),
    );
    ours.push(
        "extraVolumeMounts",
        json!({ "name": "webhook-headers", "mountPath": HEADERS, "readOnly": true }),
    );
    ours.set("config.webhookHeadersFile", format!("{HEADERS}/headers"));
    let names = parsed
        .map(|all| format!(" ({})", all.into_keys().collect::<Vec<_>>().join(", ")))
        .unwrap_or_default();
    ours.do_this(format!(
        "a Secret `{SECRET}` with a key `headers` that holds NTH's webhookHeaders{names}, one \
         `Name: value` a line (they are not repeated here)"
    ));
}

fn template(given: &Given, ours: &mut Ours) {
    if let Some(name) = given.text("webhookTemplateConfigMapName") {
        ours.do_this(format!(
            "the ConfigMap {name}, which is where NTH runs, in Sundown's namespace too: {}",
            copy("configmap", &name)
        ));
        let key =
            given.text("webhookTemplateConfigMapKey").unwrap_or_else(|| "template".to_owned());
        ours.push(
            "extraVolumes",
            json!({ "name": "webhook-template", "configMap": { "name": name } }),
        );
        ours.push(
            "extraVolumeMounts",
            json!({ "name": "webhook-template", "mountPath": TEMPLATE, "readOnly": true }),
        );
        ours.set("config.webhookTemplateFile", format!("{TEMPLATE}/{key}"));
        ours.do_this(format!(
            "rewrite {key} in the ConfigMap {name}: it is a Go template; here it is JSON with \
             names in its strings (docs/notifications.md)"
        ));
        return;
    }
    if let Some(path) = given.text("webhook-template-file") {
        ours.set("config.webhookTemplateFile", path.clone());
        ours.do_this(format!(
            "mount {path} (extraVolumes, extraVolumeMounts), and rewrite it: it is a Go template; \
             here it is JSON with names in its strings (docs/notifications.md)"
        ));
        return;
    }
    let Some(text) = given.text("webhookTemplate") else { return };
    let why = match rewritten(&text) {
        Ok(template) => match Template::new(&template) {
            Ok(_) => return ours.set("config.webhookTemplate", template),
            Err(error) => format!("NTH's template cannot be rewritten: {error}"),
        },
        Err(action) => format!("NTH's template has `{action}`, which has no counterpart here"),
    };
    ours.do_this(format!(
        "config.webhookTemplate: {why}; write JSON with names in its strings \
         (docs/notifications.md)"
    ));
}

/// Rewrites a Go template that only inserts fields. Errs with the first action that does more.
pub(super) fn rewritten(template: &str) -> Result<String, String> {
    let mut out = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("{{") {
        out.push_str(before);
        let (action, next) = after.split_once("}}").ok_or_else(|| after.to_owned())?;
        let name = action.trim_matches('-').trim();
        let ours =
            NAMES.iter().find(|(theirs, _)| *theirs == name).map(|(_, ours)| (*ours).to_owned());
        let ours = ours.or_else(|| label(name)).ok_or_else(|| format!("{{{{{action}}}}}"))?;
        write!(out, "{{{{ {ours} }}}}").ok();
        rest = next;
    }
    out.push_str(rest);
    Ok(out.replace("[NTH]", "[Sundown]"))
}

/// `index .NodeLabels "KEY"`, which Go templates need for a label whose key has dots.
fn label(action: &str) -> Option<String> {
    let key = action.strip_prefix("index .NodeLabels ")?.trim().trim_matches(['"', '`']);
    (!key.is_empty() && !key.contains([' ', '"'])).then(|| format!("labels['{key}']"))
}

/// NTH's names of the fields that this file translates.
#[cfg(test)]
pub(super) fn theirs() -> impl Iterator<Item = &'static str> {
    NAMES.iter().map(|(theirs, _)| *theirs)
}

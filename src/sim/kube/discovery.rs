//! What is no object: health, version, and which resources there are.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{
    failure::Failure,
    json::Look as _,
    kinds::{Kind, REVIEWS},
    request::Reply,
    store::State,
};

impl State {
    /// Answers a GET of a path that names no object.
    pub(super) fn discover(&self, path: &str) -> Result<Reply, Failure> {
        let parts: Vec<&str> = path.split('/').filter(|s| !s.is_empty()).collect();
        let answer = match parts.as_slice() {
            ["healthz" | "readyz" | "livez", ..] => return Ok(Reply::Text("ok")),
            ["version"] => version(),
            ["api"] => {
                json!({
                    "kind": "APIVersions", "apiVersion": "v1", "versions": ["v1"],
                    "serverAddressByClientCIDRs": []
                })
            }
            ["apis"] => {
                json!({
                    "kind": "APIGroupList", "apiVersion": "v1",
                    "groups": self.groups().map(|(g, v)| group(&g, &v)).collect::<Vec<_>>()
                })
            }
            ["api", version] => self.resources("", version)?,
            ["apis", name] => self
                .groups()
                .find(|(g, _)| g == name)
                .map(|(g, v)| group(&g, &v))
                .ok_or_else(Failure::no_such_page)?,
            ["apis", name, version] => self.resources(name, version)?,
            ["openapi", "v3"] => self.openapi_index(),
            ["openapi", "v3", "api", version] => self.openapi("", version)?,
            ["openapi", "v3", "apis", name, version] => self.openapi(name, version)?,
            [] => {
                json!({
                    "paths": [
                        "/api", "/api/v1", "/apis", "/healthz", "/livez", "/readyz", "/version"
                    ]
                })
            }
            _ => return Err(Failure::no_such_page()),
        };
        Ok(Reply::Json(200, answer))
    }

    /// Names and versions of the groups, without the core group.
    fn groups(&self) -> impl Iterator<Item = (String, String)> {
        let all: BTreeSet<(String, String)> =
            self.kinds.iter().map(|k| (k.group.clone(), k.version.clone())).collect();
        all.into_iter().filter(|(g, _)| !g.is_empty())
    }

    fn openapi_index(&self) -> Value {
        let core = ("api/v1".to_owned(), json!({ "serverRelativeURL": "/openapi/v3/api/v1" }));
        let others = self.groups().map(|(g, v)| {
            (
                format!("apis/{g}/{v}"),
                json!({ "serverRelativeURL": format!("/openapi/v3/apis/{g}/{v}") }),
            )
        });
        let paths: serde_json::Map<String, Value> = std::iter::once(core).chain(others).collect();
        json!({ "paths": paths })
    }

    /// No schemas; only what makes kubectl leave validation to the server and trust its dry runs.
    fn openapi(&self, group: &str, version: &str) -> Result<Value, Failure> {
        let kinds = self.kinds.iter().filter(|k| k.group == group && k.version == version);
        let parameter =
            |name: &str| json!({ "name": name, "in": "query", "schema": { "type": "string" } });
        let path = |k: &std::sync::Arc<Kind>| {
            let root = if group.is_empty() {
                format!("/api/{version}")
            } else {
                format!("/apis/{group}/{version}")
            };
            let namespace = if k.namespaced { "/namespaces/{namespace}" } else { "" };
            let patch = json!({ "x-kubernetes-group-version-kind": {
                "group": group, "version": version, "kind": k.kind
            },
                "parameters": [
                    parameter("dryRun"), parameter("fieldValidation")
                ], "responses": { "200": { "description": "OK" } } });
            (format!("{root}{namespace}/{}/{{name}}", k.plural), json!({ "patch": patch }))
        };
        let paths: serde_json::Map<String, Value> = kinds.map(path).collect();
        if paths.is_empty() {
            return Err(Failure::no_such_page());
        }
        Ok(json!({
            "openapi": "3.0.0", "info": { "title": "Kubernetes", "version": "v1.33.0" },
            "paths": paths
        }))
    }

    fn resources(&self, group: &str, version: &str) -> Result<Value, Failure> {
        let kinds: Vec<_> =
            self.kinds.iter().filter(|k| k.group == group && k.version == version).collect();
        let first = kinds.first().ok_or_else(Failure::no_such_page)?;
        let all: Vec<Value> = kinds.iter().flat_map(|k| resource(k)).collect();
        Ok(json!({
            "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": first.api_version(),
            "resources": all
        }))
    }
}

fn version() -> Value {
    json!({
        "major": "1", "minor": "33", "gitVersion": "v1.33.0+sundown-sim", "gitCommit": "0",
        "gitTreeState": "clean",
        "buildDate": "2025-01-01T00:00:00Z", "goVersion": "go1.24", "compiler": "gc", "platform": "linux/amd64" })
}

fn group(name: &str, version: &str) -> Value {
    let version = json!({ "groupVersion": format!("{name}/{version}"), "version": version });
    json!({
        "kind": "APIGroup", "apiVersion": "v1", "name": name, "versions": [version],
        "preferredVersion": version
    })
}

fn resource(kind: &Kind) -> Vec<Value> {
    let mut own = json!({
        "name": kind.plural, "singularName": kind.kind.to_lowercase(),
        "namespaced": kind.namespaced, "kind": kind.kind,
        "verbs": [
            "create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"
        ] });
    if kind.plural == REVIEWS {
        own.put("verbs", json!(["create"]));
    }
    if !kind.short.is_empty()
        && let Value::Object(fields) = &mut own
    {
        fields.insert("shortNames".into(), json!([kind.short]));
    }
    let in_all =
        ["pods", "services", "deployments", "replicasets", "statefulsets", "daemonsets", "jobs"];
    if in_all.contains(&kind.plural.as_str())
        && let Value::Object(fields) = &mut own
    {
        fields.insert("categories".into(), json!(["all"]));
    }
    let sub = |name: &str, of: &str, verbs: &[&str], group_version: Option<(&str, &str)>| {
        let mut r = json!({
            "name": format!("{}/{name}", kind.plural), "singularName": "",
            "namespaced": kind.namespaced, "kind": of, "verbs": verbs
        });
        if let (Some((group, version)), Value::Object(fields)) = (group_version, &mut r) {
            fields.insert("group".into(), group.into());
            fields.insert("version".into(), version.into());
        }
        r
    };
    let mut all = vec![own];
    if kind.status {
        all.push(sub("status", &kind.kind, &["get", "patch", "update"], None));
    }
    if kind.scale {
        all.push(sub("scale", "Scale", &["get", "patch", "update"], Some(("autoscaling", "v1"))));
    }
    if kind.plural == "pods" {
        all.push(sub("eviction", "Eviction", &["create"], Some(("policy", "v1"))));
        all.push(sub("binding", "Binding", &["create"], None));
    }
    all
}

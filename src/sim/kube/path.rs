//! From a URL to a request.

use std::collections::BTreeMap;

use http::Method;

/// What a request asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Target {
    /// Objects: group, version, plural, namespace, name, subresource; "" for those not in the path.
    Resource {
        group: String,
        version: String,
        plural: String,
        namespace: String,
        name: String,
        subresource: String,
    },
    /// Anything else, by its path.
    Other(String),
}

impl Target {
    /// Reads a path: `/api/v1/namespaces/NS/pods/NAME/eviction`, `/apis/GROUP/VERSION/…`.
    pub(super) fn parse(path: &str) -> Self {
        let decoded: Vec<String> = path.split('/').filter(|s| !s.is_empty()).map(decode).collect();
        let parts: Vec<&str> = decoded.iter().map(String::as_str).collect();
        let (group, version, rest) = match parts.as_slice() {
            ["api", version, rest @ ..] if !rest.is_empty() => ("", *version, rest),
            ["apis", group, version, rest @ ..] if !rest.is_empty() => (*group, *version, rest),
            _ => return Self::Other(path.to_owned()),
        };
        let (namespace, plural, name, subresource) = match rest {
            ["namespaces", ns, sub @ ("status" | "finalize")] => ("", "namespaces", *ns, *sub),
            ["namespaces", ns, plural] => (*ns, *plural, "", ""),
            ["namespaces", ns, plural, name] => (*ns, *plural, *name, ""),
            ["namespaces", ns, plural, name, sub] => (*ns, *plural, *name, *sub),
            [plural] => ("", *plural, "", ""),
            [plural, name] => ("", *plural, *name, ""),
            [plural, name, sub] => ("", *plural, *name, *sub),
            _ => return Self::Other(path.to_owned()),
        };
        Self::Resource {
            group: group.into(),
            version: version.into(),
            plural: plural.into(),
            namespace: namespace.into(),
            name: name.into(),
            subresource: subresource.into(),
        }
    }
}

fn decode(segment: &str) -> String {
    if !segment.contains('%') {
        return segment.to_owned();
    }
    // A path segment is a query value where a plus is a plus.
    let text = format!("x={}", segment.replace('+', "%2B").replace('&', "%26"));
    form_urlencoded::parse(text.as_bytes()).next().map_or_else(String::new, |(_, v)| v.into_owned())
}

/// The parameters of a query.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Query(BTreeMap<String, Vec<String>>);

impl Query {
    pub(super) fn parse(text: &str) -> Self {
        let mut all = BTreeMap::<String, Vec<String>>::new();
        for (key, value) in form_urlencoded::parse(text.as_bytes()) {
            all.entry(key.into_owned()).or_default().push(value.into_owned());
        }
        Self(all)
    }

    /// The first value of a parameter; "" if it is absent.
    pub(super) fn get(&self, key: &str) -> &str {
        self.0.get(key).and_then(|v| v.first()).map_or("", String::as_str)
    }

    /// All values of a parameter.
    pub(super) fn all(&self, key: &str) -> &[String] {
        self.0.get(key).map_or(&[], Vec::as_slice)
    }

    /// Whether the first value is `true` or `1`.
    pub(super) fn flag(&self, key: &str) -> bool {
        matches!(self.get(key), "true" | "1")
    }
}

/// The verb of a request for objects, as RBAC names it.
pub(super) fn verb(method: &Method, named: bool, query: &Query) -> Option<&'static str> {
    Some(match *method {
        Method::GET if query.flag("watch") => "watch",
        Method::GET | Method::HEAD if named => "get",
        Method::GET | Method::HEAD => "list",
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE if named => "delete",
        Method::DELETE => "deletecollection",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource(path: &str) -> String {
        match Target::parse(path) {
            Target::Resource { group, version, plural, namespace, name, subresource } => {
                format!("{group}|{version}|{plural}|{namespace}|{name}|{subresource}")
            }
            Target::Other(path) => path,
        }
    }

    #[test]
    fn urls_name_resources() {
        for (path, expected) in [
            ("/api/v1/nodes", "|v1|nodes|||"),
            ("/api/v1/nodes/n1/status", "|v1|nodes||n1|status"),
            ("/api/v1/namespaces", "|v1|namespaces|||"),
            ("/api/v1/namespaces/x", "|v1|namespaces||x|"),
            ("/api/v1/namespaces/x/finalize", "|v1|namespaces||x|finalize"),
            ("/api/v1/namespaces/x/pods/a%2Bb/eviction", "|v1|pods|x|a+b|eviction"),
            ("/apis/policy/v1/poddisruptionbudgets", "policy|v1|poddisruptionbudgets|||"),
            ("/apis/apps/v1/namespaces/x/deployments/d/scale", "apps|v1|deployments|x|d|scale"),
            ("/apis/apps/v1", "/apis/apps/v1"),
            ("/healthz", "/healthz"),
        ] {
            assert_eq!(resource(path), expected);
        }
    }

    #[test]
    fn a_get_is_a_watch_a_list_or_a_get() {
        let none = Query::default();
        assert_eq!(verb(&Method::GET, true, &none), Some("get"));
        assert_eq!(verb(&Method::GET, false, &none), Some("list"));
        assert_eq!(verb(&Method::GET, false, &Query::parse("watch=true&limit=2")), Some("watch"));
        assert_eq!(verb(&Method::OPTIONS, false, &none), None);
    }
}

//! The rights that the chart gives against the calls that the code makes.

use k8s_openapi::api::rbac::v1::PolicyRule;
use serde_json::Value;

use crate::{
    calls::{self, Grants},
    tools::{Objects, Tools},
};

/// All that the roles of this kind allow. Each is bound, to the account of the pods.
fn granted(objects: &Objects, kind: &str, account: &str) -> Grants {
    let mut all = Grants::new();
    for (name, role) in objects.iter().filter(|(name, _)| name.split('/').next() == Some(kind)) {
        let rules: Vec<PolicyRule> = serde_json::from_value(role["rules"].clone()).unwrap();
        all.extend(calls::of_rules(&rules));
        let binding = &objects[&name.replacen('/', "Binding/", 1)];
        assert_eq!((&binding["roleRef"]["kind"], &binding["roleRef"]["name"]), (&Value::from(kind), &role["metadata"]["name"]));
        let subjects = serde_json::json!([{ "kind": "ServiceAccount", "name": account, "namespace": "sundown" }]);
        assert_eq!(binding["subjects"], subjects, "{name}");
    }
    all
}

#[test]
fn the_roles_allow_what_is_called_and_nothing_else() {
    let Some(tools) = Tools::found() else { return };
    for set in ["minimal", "company"] {
        let objects = tools.objects(set, &[]);
        assert_eq!(granted(&objects, "ClusterRole", "sundown"), calls::of_cluster(), "{set}");
        assert_eq!(granted(&objects, "Role", "sundown"), calls::of_lease(), "{set}");
        let force: Vec<PolicyRule> = serde_json::from_value(objects["ClusterRole/sundown-force"]["rules"].clone()).unwrap();
        assert_eq!(calls::of_rules(&force), calls::forcing(), "what takes a pod away against its will is in a role of its own");
    }
}

#[test]
fn a_dry_run_has_no_right_to_write_anything() {
    let Some(tools) = Tools::found() else { return };
    let objects = tools.objects("trial", &[]);
    let may = granted(&objects, "ClusterRole", "existing");
    assert_eq!(may, calls::of_a_dry_run());
    assert!(may.iter().all(|(_, _, verb)| ["get", "list", "watch"].contains(&verb.as_str())));
    assert!(granted(&objects, "Role", "existing").is_empty(), "it takes no Lease");
}

#[test]
fn no_role_is_made_where_somebody_else_makes_them() {
    let Some(tools) = Tools::found() else { return };
    let objects = tools.objects("minimal", &["--set", "rbac.create=false"]);
    assert!(objects.keys().all(|name| !name.contains("Role")), "{:?}", objects.keys());
}

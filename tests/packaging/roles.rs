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
        assert_eq!(
            (&binding["roleRef"]["kind"], &binding["roleRef"]["name"]),
            (&Value::from(kind), &role["metadata"]["name"])
        );
        let subjects = serde_json::json!([{
            "kind": "ServiceAccount", "name": account, "namespace": "sundown"
        }]);
        assert_eq!(binding["subjects"], subjects, "{name}");
    }
    all
}

#[test]
fn the_roles_allow_what_is_called_and_nothing_else() {
    let Some(tools) = Tools::found() else { return };
    for (set, args) in [("minimal", vec![]), ("company", vec!["--set", "config.forceAfter=0.5"])] {
        let objects = tools.objects(set, &args);
        assert_eq!(granted(&objects, "ClusterRole", "sundown"), calls::of_cluster(), "{set}");
        assert_eq!(granted(&objects, "Role", "sundown"), calls::of_lease(), "{set}");
        let force: Vec<PolicyRule> =
            serde_json::from_value(objects["ClusterRole/sundown-force"]["rules"].clone()).unwrap();
        assert_eq!(
            calls::of_rules(&force),
            calls::forcing(),
            "what takes a pod away against its will is in a role of its own"
        );
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

fn rules_of(objects: &Objects, name: &str) -> Option<Grants> {
    let rules: Vec<PolicyRule> =
        serde_json::from_value(objects.get(name)?["rules"].clone()).unwrap();
    Some(calls::of_rules(&rules))
}

#[test]
fn without_force_nothing_can_delete_a_pod() {
    let Some(tools) = Tools::found() else { return };
    let all: Grants = calls::of_cluster().difference(&calls::forcing()).cloned().collect();
    let never = r#"extraEnv=[{"name":"SUNDOWN_FORCE_AFTER","value":"never"}]"#;
    let unknown = r#"extraEnv=[{"name":"SUNDOWN_FORCE_AFTER","valueFrom":{"configMapKeyRef":{"name":"a","key":"b"}}}]"#;
    let from = r#"extraEnvFrom=[{"configMapRef":{"name":"a"}}]"#;
    let status = ["--set", "rbac.disruptionTarget=true"];
    for args in [
        &["--set", "config.forceAfter=never"][..],
        &["--set", "config.forceAfter=never", "--set", "rbac.force=false"],
        &["--set-json", never],
        &["--set", "config.forceAfter=0.5", "--set-json", never],
        &["--set", "extraArgs={--force-after,never}"],
        &["--set", "extraArgs={--force-after=never}"],
        &["--set", "rbac.force=false"],
        &["--set", "rbac.force=false", "--set-json", never],
        &["--set", "rbac.force=false", "--set-json", unknown],
        &["--set", "rbac.force=false", "--set-json", from],
        &["--set", "rbac.force=false", "--set", "extraArgs={--force-after=never}"],
    ] {
        // Without a delete, no pod gets the condition either.
        let objects = tools.objects("minimal", &[args, &status[..]].concat());
        assert_eq!(granted(&objects, "ClusterRole", "sundown"), all, "{args:?}");
        for (name, of) in
            [("Deployment/sundown", "/spec/template/spec"), ("Pod/sundown-check", "/spec")]
        {
            let env =
                objects[name].pointer(of).unwrap()["containers"][0]["env"].as_array().unwrap();
            let of = |name: &str| env.iter().filter(|e| e["name"] == name).collect::<Vec<_>>();
            let set = of("SUNDOWN_FORCE_AFTER");
            let last = set.last().unwrap();
            assert!(last["value"] == "never" || last["valueFrom"].is_object(), "{args:?}: {set:?}");
            assert!(of("SUNDOWN_DISRUPTION_TARGET").is_empty(), "{args:?}: {env:?}");
        }
        assert!(
            !objects.contains_key("ClusterRole/sundown-force")
                && objects.contains_key("Role/sundown")
        );
    }
    // Rules can force pods, too, and the chart does not know them.
    let of_rules = ["--set", "config.rulesFile=/etc/sundown/rules.yaml"];
    let ruled = |args: &[&str]| tools.objects("minimal", &[args, &of_rules].concat());
    let objects = ruled(&["--set", "config.forceAfter=never"]);
    assert!(objects.contains_key("ClusterRole/sundown-force"));
    let objects = ruled(&["--set", "rbac.force=false"]);
    assert!(!objects.contains_key("ClusterRole/sundown-force"));
    // A dry run has no such right to leave out.
    tools.objects("trial", &["--set", "rbac.force=false"]);
}

#[test]
fn the_rights_to_read_volumes_are_only_where_sundown_waits_for_them() {
    let Some(tools) = Tools::found() else { return };
    let all = calls::of_cluster();
    let without: Grants = all.difference(&calls::of_volumes()).cloned().collect();
    let by_env = r#"extraEnv=[{"name":"SUNDOWN_WAIT_FOR_VOLUMES","value":"never"}]"#;
    for (args, expected) in [
        (&["--set", "config.waitForVolumes=never"][..], &without),
        (&["--set-json", by_env], &without),
        (&["--set", "extraArgs={--wait-for-volumes=never}"], &without),
        (&["--set", "config.waitForVolumes=hooks"], &all),
    ] {
        let objects = tools.objects("minimal", args);
        assert_eq!(&granted(&objects, "ClusterRole", "sundown"), expected, "{args:?}");
    }
}

#[test]
fn the_right_to_list_namespaces_is_only_where_a_rule_about_pods_needs_it() {
    let Some(tools) = Tools::found() else { return };
    let all = calls::of_cluster();
    let with: Grants = all.union(&calls::of_namespaces()).cloned().collect();
    let rule = |matches: &str| {
        format!(r#"podRules=[{{"behavior":"Evict"}},{{"match":{matches},"behavior":"Skip"}}]"#)
    };
    for (args, expected) in [
        (["--set-json".to_owned(), rule(r#"{"namespaceLabels":"team=web"}"#)], &with),
        (["--set-json".to_owned(), rule(r#"{"namespaces":["web"]}"#)], &all),
        (["--set".to_owned(), "rbac.namespaceLabels=true".to_owned()], &with),
    ] {
        let args = args.each_ref().map(String::as_str);
        let objects = tools.objects("minimal", &args);
        assert_eq!(&granted(&objects, "ClusterRole", "sundown"), expected, "{args:?}");
    }
}

#[test]
fn the_right_to_patch_the_status_of_pods_is_in_a_role_of_its_own_and_only_where_it_is_asked_for() {
    let Some(tools) = Tools::found() else { return };
    let objects = tools.objects("minimal", &["--set", "rbac.disruptionTarget=true"]);
    assert_eq!(
        rules_of(&objects, "ClusterRole/sundown-disruption"),
        Some(calls::of_disruption_target())
    );
    let all: Grants = calls::of_cluster().union(&calls::of_disruption_target()).cloned().collect();
    assert_eq!(granted(&objects, "ClusterRole", "sundown"), all, "it is bound");
    assert_eq!(rules_of(&tools.objects("minimal", &[]), "ClusterRole/sundown-disruption"), None);
    assert_eq!(
        rules_of(
            &tools.objects("trial", &["--set", "rbac.disruptionTarget=true"]),
            "ClusterRole/trial-disruption"
        ),
        None
    );
}

#[test]
fn the_right_to_patch_the_status_of_nodes_is_in_a_role_of_its_own_and_only_where_it_is_asked_for() {
    let Some(tools) = Tools::found() else { return };
    for (value, role) in
        [("maintenanceCondition", "maintenance"), ("drainConditions", "drain-conditions")]
    {
        let set = format!("rbac.{value}=true");
        let on = ["--set", &set];
        let objects = tools.objects("minimal", &on);
        let (ours, of_trial) =
            (format!("ClusterRole/sundown-{role}"), format!("ClusterRole/trial-{role}"));
        let status = calls::of_node_conditions();
        assert_eq!(rules_of(&objects, &ours), Some(status.clone()));
        let all: Grants = calls::of_cluster().union(&status).cloned().collect();
        assert_eq!(granted(&objects, "ClusterRole", "sundown"), all, "it is bound");
        assert_eq!(rules_of(&tools.objects("minimal", &[]), &ours), None);
        assert_eq!(rules_of(&tools.objects("trial", &on), &of_trial), None);
    }
}

#[test]
fn the_right_to_delete_nodes_is_in_a_role_of_its_own_and_only_where_it_is_asked_for() {
    let Some(tools) = Tools::found() else { return };
    let on = ["--set", "rbac.deleteNode=true"];
    let objects = tools.objects("minimal", &on);
    let deletes = calls::of_deleted_nodes();
    assert_eq!(rules_of(&objects, "ClusterRole/sundown-delete-node"), Some(deletes.clone()));
    let all: Grants = calls::of_cluster().union(&deletes).cloned().collect();
    assert_eq!(granted(&objects, "ClusterRole", "sundown"), all, "it is bound");
    assert_eq!(rules_of(&tools.objects("minimal", &[]), "ClusterRole/sundown-delete-node"), None);
    let trial = tools.objects("trial", &on);
    assert_eq!(rules_of(&trial, "ClusterRole/trial-delete-node"), None);
}

#[test]
fn more_rules_are_added_to_the_role_of_the_cluster() {
    let Some(tools) = Tools::found() else { return };
    let rule = r#"additionalClusterRoleRules=[{"apiGroups":["apps"],"resources":["deployments"],"verbs":["get"]}]"#;
    let objects = tools.objects("minimal", &["--set-json", rule]);
    let more = [("apps".to_owned(), "deployments".to_owned(), "get".to_owned())].into();
    let all: Grants = calls::of_cluster().union(&more).cloned().collect();
    assert_eq!(granted(&objects, "ClusterRole", "sundown"), all);
}

/// What the policy refuses is shown by tests/control-plane.
#[test]
fn the_policy_is_about_our_account_alone_and_needs_kubernetes_1_30() {
    let Some(tools) = Tools::found() else { return };
    let on = ["--set", "rbac.admissionPolicy=true"];
    let objects = tools.objects("minimal", &on);
    let policy = &objects["ValidatingAdmissionPolicy/sundown"]["spec"];
    let conditions = policy["matchConditions"].as_array().unwrap();
    assert_eq!(conditions.len(), 1);
    assert_eq!(
        conditions[0]["expression"],
        r#"request.userInfo.username == "system:serviceaccount:sundown:sundown""#
    );
    assert_eq!(policy["failurePolicy"], "Fail");
    let binding = &objects["ValidatingAdmissionPolicyBinding/sundown"]["spec"];
    assert_eq!(
        (&binding["policyName"], &binding["validationActions"]),
        (&Value::from("sundown"), &serde_json::json!(["Deny"]))
    );
    let allows_nth = |objects: &Objects| {
        let rules = objects["ValidatingAdmissionPolicy/sundown"]["spec"]["validations"]
            .as_array()
            .unwrap()
            .clone();
        let adds = rules
            .into_iter()
            .find(|rule| {
                rule["message"]
                    .as_str()
                    .is_some_and(|text| text.starts_with("Sundown adds only its own taints"))
            })
            .unwrap();
        adds["expression"].as_str().unwrap().contains("aws-node-termination-handler/")
    };
    let by_env = r#"extraEnv=[{"name":"SUNDOWN_COMPAT","value":"nth"}]"#;
    let without = r#"extraEnv=[{"name":"SUNDOWN_COMPAT","value":""}]"#;
    for (args, allows) in [
        (&[][..], false),
        (&["--set", "config.compat=nth"], true),
        (&["--set-json", by_env], true),
        // The last value of a variable counts; an empty one is none.
        (&["--set", "config.compat=nth", "--set-json", without], false),
        (&["--set", "extraArgs={--compat,nth}"], true),
        (&["--set", "extraArgs={--compat=nth}"], true),
        (&["--set", "extraArgs={--max-pollers=2}"], false),
    ] {
        let objects = tools.objects("minimal", &[&on[..], args].concat());
        assert_eq!(allows_nth(&objects), allows, "{args:?}");
    }
    let is_there = |set: &str, args: &[&str]| {
        tools.objects(set, args).contains_key("ValidatingAdmissionPolicy/sundown")
    };
    assert!(!is_there("minimal", &[]), "off by default");
    let deletes = |args: &[&str]| {
        let name = "ValidatingAdmissionPolicy/sundown-delete-node";
        tools.objects("minimal", &[&on[..], args].concat()).contains_key(name)
    };
    assert!(deletes(&["--set", "rbac.deleteNode=true"]) && !deletes(&[]));
    assert!(!is_there("trial", &on), "a dry run patches nothing");
    let (chart, values) = (crate::tools::chart(), crate::tools::values("minimal"));
    let old = ["template", "sundown", &chart, "--values", &values, "--kube-version", "1.29.14"];
    for helm in tools.helms() {
        let output = tools.run(&helm, &[&old[..], &on[..]].concat()).unwrap_err();
        assert!(
            output.contains("needs Kubernetes 1.30")
                && output.contains("rbac.admissionPolicy: false"),
            "{output}"
        );
    }
}

/// What the policy refuses is shown by tests/control-plane.
#[test]
fn the_policy_of_requests_is_there_since_kubernetes_1_30() {
    let Some(tools) = Tools::found() else { return };
    let name = "ValidatingAdmissionPolicy/sundown-requests";
    let (on, off) = (["--set", "rbac.requestPolicy=true"], ["--set", "rbac.requestPolicy=false"]);
    let (old, first) = (["--kube-version", "1.29.14"], ["--kube-version", "1.30.0"]);
    for (set, args, is_there) in [
        ("minimal", &[][..], true),
        ("minimal", &first, true),
        ("minimal", &old, false),
        ("minimal", &on, true),
        ("minimal", &off, false),
        // A dry run obeys no request.
        ("trial", &on, false),
    ] {
        assert_eq!(tools.objects(set, args).contains_key(name), is_there, "{set} {args:?}");
    }
    let objects = tools.objects("minimal", &on);
    let policy = &objects[name]["spec"];
    assert_eq!(policy["failurePolicy"], "Ignore", "no Node waits for it");
    let rules = serde_json::json!([{
        "apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["nodes"]
    }]);
    assert_eq!(policy["matchConstraints"]["resourceRules"], rules);
    let conditions = policy["matchConditions"].as_array().unwrap();
    let condition = conditions[0]["expression"].as_str().unwrap();
    assert!(conditions.len() == 1 && condition.contains("oldObject"), "{condition}");
    let binding = &objects["ValidatingAdmissionPolicyBinding/sundown-requests"]["spec"];
    assert_eq!(
        (&binding["policyName"], &binding["validationActions"]),
        (&Value::from("sundown-requests"), &serde_json::json!(["Deny"]))
    );
    let (chart, values) = (crate::tools::chart(), crate::tools::values("minimal"));
    let template = ["template", "sundown", &chart, "--values", &values];
    for helm in tools.helms() {
        let output = tools.run(&helm, &[&template[..], &old, &on].concat()).unwrap_err();
        assert!(output.contains("rbac.requestPolicy: true needs Kubernetes 1.30"), "{output}");
    }
}

#[test]
fn no_role_is_made_where_somebody_else_makes_them() {
    let Some(tools) = Tools::found() else { return };
    let objects = tools.objects("minimal", &["--set", "rbac.create=false"]);
    assert!(objects.keys().all(|name| !name.contains("Role")), "{:?}", objects.keys());
}

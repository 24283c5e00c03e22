//! The rules about pods that the chart puts into a ConfigMap.

use std::fs;

use serde_json::{Value, json};
use sundown::config::RunArgs;

use crate::tools::Tools;

const VALUES: &str = "\
podRules:
- match: {namespaces: [batch-*], nodeLabels: pool=batch}
  behavior: WaitCompleted
- match: {podLabels: app=log-collector, ownerKinds: [Deployment]}
  behavior: Evict
  order: 10
  maxGracePeriod: 2m
  forceAfter: never
";

fn named<'a>(list: &'a Value, name: &str) -> &'a Value {
    let found = list.as_array().unwrap().iter().find(|one| one["name"] == name);
    found.unwrap_or_else(|| panic!("no {name} in {list}"))
}

#[test]
fn rules_about_pods_are_in_a_config_map_that_the_service_and_the_check_read() {
    let Some(tools) = Tools::found() else { return };
    let values = tools.work.path().join("values.yaml");
    fs::write(&values, VALUES).unwrap();
    let objects = tools.objects("minimal", &["--values", values.to_str().unwrap()]);
    let map = &objects["ConfigMap/sundown-pod-rules"];
    // By this label, `sundown explain` finds it.
    assert_eq!(map["metadata"]["labels"]["sundown.dev/rules-of"], "sundown");
    let text = map["data"]["rules.yaml"].as_str().unwrap();
    let file = tools.work.path().join("rules.yaml");
    fs::write(&file, text).unwrap();
    let queue = "--queue-url=https://sqs.eu-west-1.amazonaws.com/123456789012/sundown".to_owned();
    let flags = [queue, format!("--rules-file={}", file.display())];
    let config = RunArgs::from_flags(flags).unwrap().config(&|_| None).unwrap();
    assert_eq!(config.pod_rules.count(), 2, "{text}");

    let spec = &objects["Deployment/sundown"]["spec"]["template"]["spec"];
    let check = objects.iter().find(|(name, _)| name.starts_with("Pod/")).unwrap().1;
    for pod in [spec, &check["spec"]] {
        let container = &pod["containers"][0];
        let path = named(&container["env"], "SUNDOWN_RULES_FILE")["value"].as_str().unwrap();
        let mount = named(&container["volumeMounts"], "pod-rules");
        assert_eq!(path, format!("{}/rules.yaml", mount["mountPath"].as_str().unwrap()));
        // A file that is mounted by itself never changes.
        assert_eq!(mount["subPath"], Value::Null);
        let volume = named(&pod["volumes"], "pod-rules");
        assert_eq!(volume["configMap"], json!({ "name": "sundown-pod-rules" }));
    }
    let without = tools.objects("minimal", &[]);
    assert!(!without.contains_key("ConfigMap/sundown-pod-rules"));
}

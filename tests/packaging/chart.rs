//! What the chart says to Kubernetes and to Sundown.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    process::Command,
};

use serde_json::{Value, json};
use sundown::config::RunArgs;

use crate::{
    settings::{flag_of, flags},
    tools::{Objects, ROOT, Tools, chart, objects},
};

fn pod<'a>(objects: &'a Objects, name: &str) -> &'a Value {
    let object = &objects[name];
    if object["kind"] == "Pod" { &object["spec"] } else { &object["spec"]["template"]["spec"] }
}

/// Its variables with a value of their own.
fn variables(pod: &Value) -> BTreeMap<String, String> {
    let all = pod["containers"][0]["env"].as_array().unwrap().iter();
    all.filter_map(|e| Some((e["name"].as_str()?.to_owned(), e["value"].as_str()?.to_owned())))
        .collect()
}

/// Whatever `config` may say, in the words of the chart.
const ALL: &[&str] = &[
    "config.dlqUrls={https://sqs.eu-west-1.amazonaws.com/1/dead,https://sqs.eu-west-1.amazonaws.com/1/deader}",
    "config.sharedQueue=true",
    "config.maxPollers=8",
    // A number that is easily written as 1e+05.
    "config.maxHeld=100000",
    "config.lifecycleHook={a-*,b}",
    "config.nodeSelector=kubernetes.io/os",
    "config.managedTag=ours",
    "config.joinTimeout=6m",
    "config.launchTimeout=20m",
    "config.launchOnTimeout=abandon",
    "config.hookResultOnFailure=abandon",
    "config.launchDaemonset={kube-system/aws-node,kube-system/cni}",
    "config.launchStartupTaint={node.cilium.io/agent-not-ready}",
    "config.sweepInterval=2m",
    "config.drainTimeout=2h",
    "config.maxDrainTimeout=6h",
    "config.deadlineMargin=6s",
    "config.spotDeadlineMargin=11s",
    "config.responses={spot=cordon,impaired=drain}",
    "config.impairedAfter=15m",
    "config.maxImpaired=5",
    "config.then=impaired=unhealthy",
    "config.rebalanceTtl=30m",
    "config.evictAfter={rebalance=replacement-ready,terminate-hook=10m}",
    "config.maxDrainsPerGroup=2",
    "config.maxVoluntary=10%",
    "config.scheduledLead=2h",
    "config.scheduledWindow=Sat 02:00-06:00 UTC",
    "config.scheduledEventInterval=10m",
    "config.forceAfter=0.75",
    "config.requestsMayForce=true",
    "config.podOrder=together",
    "config.drainDaemonset={logging/fluent-bit,kube-system/shipper}",
    "config.rulesFile=/etc/sundown/rules.yaml",
    "config.honor={cluster.x-k8s.io/drain,karpenter.sh/do-not-disrupt}",
    "config.excludeFromLoadBalancers=late",
    "config.waitForVolumes=never",
    "config.completeDelay=1s",
    "config.minDrainTime=4s",
    "config.maxEvictions=64",
    "config.maxEvictionsPerBudget=16",
    "config.leaseDuration=30s",
    "config.leaseRenewDeadline=20s",
    "config.leaseRetry=3s",
    "config.awsEndpointUrl=https://aws.example.com",
    "config.podEvents=all",
    "config.otlpEndpoint=https://collector.example.com:4318",
    "config.otlpHeadersFile=/headers/y",
    "config.logLevel=debug",
    "config.logFormat=json",
    "config.dryRun=true",
    "config.acceptRealTests=1h",
    "config.trial=true",
    // Which it needs.
    "replicas=1",
    "config.trialLog=/log/trial",
    "config.compat=nth",
    "config.webhookUrl=https://chat.example.com",
    "config.webhookOn={accepted,ended}",
    "config.webhookTemplate=\"x\"",
    "config.webhookTemplateFile=/template/x",
    "config.webhookHeadersFile=/headers/x",
    "config.webhookProxy=http://proxy.example.com:3128",
    "aws.region=eu-central-1",
    "rbac.disruptionTarget=true",
    "rbac.maintenanceCondition=true",
    "rbac.drainConditions=true",
    "rbac.deleteNode=true",
    "config.outOfServiceTaint=true",
];

#[test]
fn every_value_of_config_reaches_its_flag() {
    let Some(tools) = Tools::found() else { return };
    let sets: Vec<_> = ALL.iter().flat_map(|set| ["--set", set]).collect();
    let objects = tools.objects("minimal", &sets);
    let output = variables(pod(&objects, "Deployment/sundown"));
    let ours: BTreeSet<_> =
        output.keys().filter(|name| name.starts_with("SUNDOWN_")).cloned().collect();
    let from_elsewhere = [
        "LEASE_NAMESPACE",
        "NODE_NAME",
        "POD_NAME",
        "POD_NAMESPACE",
        "KUBECONFIG",
        "CONTEXT",
        "PRINT_CONFIG",
    ];
    let elsewhere = from_elsewhere.map(|name| format!("SUNDOWN_{name}"));
    let all: BTreeSet<_> = flags()
        .into_iter()
        .map(|(_, variable)| variable)
        .filter(|v| !elsewhere.contains(v))
        .collect();
    assert_eq!(ours, all);
    let switches = [
        "SUNDOWN_SHARED_QUEUE",
        "SUNDOWN_DRY_RUN",
        "SUNDOWN_DISRUPTION_TARGET",
        "SUNDOWN_REQUESTS_MAY_FORCE",
        "SUNDOWN_MAINTENANCE_CONDITION",
        "SUNDOWN_DRAIN_CONDITIONS",
        "SUNDOWN_OUT_OF_SERVICE_TAINT",
        "SUNDOWN_DELETE_NODE",
    ];
    // None goes with one of the others; and not every build sends traces. The rules are read at once.
    let apart = [
        "SUNDOWN_TRIAL",
        "SUNDOWN_RULES_FILE",
        "SUNDOWN_WEBHOOK_TEMPLATE_FILE",
        "SUNDOWN_OTLP_ENDPOINT",
        "SUNDOWN_OTLP_HEADERS_FILE",
    ];
    let mut words = Vec::new();
    for (variable, value) in output
        .iter()
        .filter(|(name, _)| name.starts_with("SUNDOWN_") && !apart.contains(&name.as_str()))
    {
        words.push(format!("--{}", flag_of(variable)));
        if switches.contains(&variable.as_str()) {
            assert_eq!(value, "true");
        } else {
            words.push(value.clone());
        }
    }
    let config = RunArgs::from_flags(words).unwrap().config(&|_| None).unwrap();
    assert_eq!(
        (config.queue.max_held, config.drain.max_in_flight, config.dry_run),
        (100_000, 64, true)
    );
    assert_eq!(config.ours.cluster_name.as_deref(), Some("shop"));
    assert_eq!(
        config.queue.dead.iter().map(|queue| queue.name.as_str()).collect::<Vec<_>>(),
        ["dead", "deader"]
    );
}

#[test]
fn helm_test_runs_the_check_as_the_service_runs() {
    let Some(tools) = Tools::found() else { return };
    for set in ["minimal", "company", "trial"] {
        let objects = tools.objects(set, &[]);
        let name = objects.keys().find(|name| name.starts_with("Pod/")).unwrap();
        let deployment = objects.keys().find(|name| name.starts_with("Deployment/")).unwrap();
        assert_eq!(objects[name]["metadata"]["annotations"]["helm.sh/hook"], "test");
        let (check, service) = (pod(&objects, name), pod(&objects, deployment));
        assert_eq!(check["containers"][0]["args"][0], "check");
        for container in [check, service].map(|pod| &pod["containers"][0]) {
            let args =
                container["args"].as_array().unwrap().iter().map(|arg| arg.as_str().unwrap());
            let output = Command::new(env!("CARGO_BIN_EXE_sundown"))
                .args(args)
                .arg("--help")
                .output()
                .unwrap();
            assert!(
                output.status.success(),
                "the binary does not take {}: {}",
                container["args"],
                String::from_utf8_lossy(&output.stderr)
            );
        }
        for field in [
            "serviceAccountName",
            "dnsPolicy",
            "dnsConfig",
            "securityContext",
            "nodeSelector",
            "tolerations",
            "volumes",
        ] {
            assert_eq!(check[field], service[field], "{set}: {field}");
        }
        for field in ["image", "env", "envFrom", "securityContext", "volumeMounts"] {
            assert_eq!(
                check["containers"][0][field], service["containers"][0][field],
                "{set}: {field}"
            );
        }
        // Neither the budget nor the Deployment may take it for a replica.
        let labels = &objects[name]["metadata"]["labels"];
        let selected = objects[deployment]["spec"]["selector"]["matchLabels"].as_object().unwrap();
        assert!(selected.iter().any(|(label, value)| labels[label] != *value), "{set}");
    }
    assert!(
        tools
            .objects("minimal", &["--set", "check.enabled=false"])
            .keys()
            .all(|name| !name.starts_with("Pod/"))
    );
}

#[test]
fn a_budget_is_there_only_for_several_and_never_holds_one_that_is_not_ready() {
    let Some(tools) = Tools::found() else { return };
    let budget = tools.objects("minimal", &[]).remove("PodDisruptionBudget/sundown").unwrap();
    assert_eq!(
        (&budget["spec"]["maxUnavailable"], &budget["spec"]["unhealthyPodEvictionPolicy"]),
        (&json!(1), &json!("AlwaysAllow"))
    );
    for without in ["replicas=1", "podDisruptionBudget.enabled=false"] {
        assert!(
            !tools
                .objects("minimal", &["--set", without])
                .contains_key("PodDisruptionBudget/sundown"),
            "{without}"
        );
    }
}

#[test]
fn every_selector_selects_the_pods_and_the_lease_is_the_one_that_the_role_names() {
    let Some(tools) = Tools::found() else { return };
    // A name that is too long for a label with its suffixes, too.
    for name in
        ["sundown", "eu", "a-very-long-name-of-a-release-which-somebody-generated-from-a-branch"]
    {
        let args = ["--set", &format!("fullnameOverride={}", &name[..name.len().min(52)])];
        let objects = tools.objects("company", &args);
        let of = |kind: &str| {
            objects.iter().find(|(name, _)| name.starts_with(kind)).map(|(_, o)| o).unwrap()
        };
        let labels = &of("Deployment/")["spec"]["template"]["metadata"]["labels"];
        let selects = |selector: &Value| {
            let selector = selector.as_object().unwrap();
            !selector.is_empty() && selector.iter().all(|(label, value)| labels[label] == *value)
        };
        assert!(selects(&of("Deployment/")["spec"]["selector"]["matchLabels"]));
        assert!(selects(&of("PodDisruptionBudget/")["spec"]["selector"]["matchLabels"]));
        assert!(selects(&of("NetworkPolicy/")["spec"]["podSelector"]["matchLabels"]));
        assert!(selects(&of("Service/")["spec"]["selector"]));
        let monitored =
            of("ServiceMonitor/")["spec"]["selector"]["matchLabels"].as_object().unwrap();
        assert!(
            !monitored.is_empty()
                && monitored
                    .iter()
                    .all(|(label, value)| of("Service/")["metadata"]["labels"][label] == *value)
        );
        let lease =
            &variables(&of("Deployment/")["spec"]["template"]["spec"])["SUNDOWN_LEASE_NAME"];
        assert_eq!(of("Role/")["rules"][1]["resourceNames"], json!([lease]));
        for (name, object) in &objects {
            let name_of = object["metadata"]["name"].as_str().unwrap();
            assert!(name_of.len() <= 63, "{name}");
        }
    }
}

#[test]
fn the_network_policy_lets_out_what_is_needed_and_in_what_may_look() {
    let Some(tools) = Tools::found() else { return };
    let policy = tools.objects("company", &[]).remove("NetworkPolicy/sundown").unwrap();
    assert_eq!(policy["spec"]["policyTypes"], json!(["Ingress", "Egress"]));
    for (rule, port) in
        policy["spec"]["ingress"].as_array().unwrap().iter().zip(["metrics", "probes"])
    {
        assert_eq!(rule["ports"], json!([{ "port": port, "protocol": "TCP" }]));
    }
    let mut open = BTreeSet::new();
    for rule in policy["spec"]["egress"].as_array().unwrap() {
        for port in rule["ports"].as_array().unwrap() {
            let peer = |to: &Value| to["ipBlock"]["cidr"].as_str().unwrap_or("ours").to_owned();
            let to = rule["to"]
                .as_array()
                .map_or(vec!["anywhere".to_owned()], |to| to.iter().map(peer).collect());
            open.extend(
                to.into_iter().map(|to| {
                    format!("{} {} {to}", port["protocol"].as_str().unwrap(), port["port"])
                }),
            );
        }
    }
    for needed in [
        "TCP 443 anywhere",
        "TCP 6443 anywhere",
        "UDP 53 anywhere",
        "TCP 53 anywhere",
        "TCP 3128 anywhere",
        "TCP 4317 anywhere",
    ] {
        assert!(open.remove(needed), "{needed}");
    }
    let credentials =
        ["169.254.170.23/32", "fd00:ec2::23/128", "169.254.169.254/32", "fd00:ec2::254/128"];
    assert!(open.remove("TCP 9809 ours"), "the check asks the leader");
    assert_eq!(open, credentials.iter().map(|cidr| format!("TCP 80 {cidr}")).collect());
    assert!(!tools.objects("minimal", &[]).contains_key("NetworkPolicy/sundown"), "off by default");
}

/// The check asks the leader whether it receives: from a standby, and from the pod of `helm test`.
#[test]
fn the_network_policy_lets_our_own_pods_ask_the_leader() {
    let Some(tools) = Tools::found() else { return };
    let on = [
        "--set",
        "networkPolicy.enabled=true",
        "--set",
        "networkPolicy.ingressFrom[0].namespaceSelector.matchLabels.a=b",
    ];
    for set in ["minimal", "company", "trial"] {
        let objects = tools.objects(set, &on);
        let of = |kind: &str| {
            objects
                .iter()
                .find(|(name, _)| name.starts_with(kind))
                .map(|(_, object)| object)
                .unwrap()
        };
        let (service, check) = (
            &of("Deployment/")["spec"]["template"]["metadata"]["labels"],
            &of("Pod/")["metadata"]["labels"],
        );
        let selects = |selector: &Value, labels: &Value| {
            let wanted = selector["matchLabels"].as_object().unwrap();
            !wanted.is_empty() && wanted.iter().all(|(label, value)| labels[label] == *value)
        };
        let policy = &of("NetworkPolicy/")["spec"];
        for labels in [service, check] {
            assert!(selects(&policy["podSelector"], labels), "{set}");
            assert!(selects(&policy["ingress"][1]["from"][0]["podSelector"], labels), "{set}");
        }
        assert_eq!(
            policy["ingress"][1]["from"].as_array().unwrap().len(),
            1,
            "{set}: the probes are for us and the kubelet"
        );
        let readers = policy["ingress"][0]["from"].as_array().unwrap();
        assert_eq!(
            (readers.len(), &readers[0]["namespaceSelector"]["matchLabels"]["a"]),
            (1, &json!("b")),
            "{set}: who is named reads the metrics"
        );
        let egress = policy["egress"].as_array().unwrap();
        let to_ours: Vec<_> =
            egress.iter().filter(|rule| rule["to"][0]["podSelector"].is_object()).collect();
        assert_eq!(to_ours.len(), 1, "{set}");
        assert!(selects(&to_ours[0]["to"][0]["podSelector"], service), "{set}");
        let listens = &pod(
            &objects,
            objects.keys().find(|name| name.starts_with("Deployment/")).unwrap(),
        )["containers"][0]["ports"][1];
        assert_eq!(listens["name"], "probes");
        assert_eq!(
            to_ours[0]["ports"],
            json!([{ "port": listens["containerPort"], "protocol": "TCP" }]),
            "{set}"
        );
        // A list of nobody is everybody.
        let everybody = tools.objects(
            set,
            &["--set", "networkPolicy.enabled=true", "--set-json", "networkPolicy.ingressFrom=[]"],
        );
        let open = everybody.iter().find(|(name, _)| name.starts_with("NetworkPolicy/")).unwrap().1;
        let ingress = open["spec"]["ingress"].as_array().unwrap();
        assert!(
            ingress.len() == 2 && ingress.iter().all(|rule| rule.get("from").is_none()),
            "{set}"
        );
    }
}

#[test]
fn the_network_policy_lets_out_to_the_ports_that_the_values_name() {
    let Some(tools) = Tools::found() else { return };
    let args = [
        "networkPolicy.enabled=true",
        "config.queueUrls={http://10.0.0.2:9324/1/a,https://sqs.eu-west-1.amazonaws.com/1/a}",
        "config.dlqUrls={http://10.0.0.2:9325/1/dead}",
        "config.awsEndpointUrl=http://10.0.0.1:4566",
        "config.webhookUrl=https://chat.example.com/hook",
        "config.webhookProxy=http://proxy.example.com:3129",
        "config.otlpEndpoint=http://collector.example.com:4318",
        "extraEnv[0].name=AWS_ENDPOINT_URL_EC2",
        "extraEnv[0].value=http://10.0.0.3",
        "extraEnv[1].name=COUNT",
        "extraEnv[1].value=a:9999",
    ];
    let policy = tools
        .objects("minimal", &args.map(|set| ["--set", set]).concat())
        .remove("NetworkPolicy/sundown")
        .unwrap();
    let named: Vec<_> = policy["spec"]["egress"].as_array().unwrap().iter().skip(4).collect();
    let port = |port: u16| json!({ "port": port, "protocol": "TCP" });
    assert_eq!(
        named,
        [&json!({
            "ports": [port(4566), port(3129), port(4318), port(9324), port(9325), port(80)]
        })],
        "443 is open anyway"
    );
}

/// The release workflow adds two annotations to Chart.yaml.
#[test]
fn a_published_chart_knows_its_image_by_digest_and_any_other_by_what_is_said_of_it() {
    let Some(tools) = Tools::found() else { return };
    let workflow = fs::read_to_string(format!("{ROOT}/.github/workflows/release.yml")).unwrap();
    let digest = |digit: &str| format!("sha256:{}", digit.repeat(64));
    let added = format!(
        "  sundown.dev/image: ghcr.io/owner/sundown\n  sundown.dev/image-digest: {}\n",
        digest("a")
    );
    assert!(
        workflow.contains(r"printf '  sundown.dev/image: %s\n  sundown.dev/image-digest: %s\n'")
    );
    let published = tools.work.path().join("published");
    tools.run("cp".as_ref(), &["-r", &chart(), published.to_str().unwrap()]).unwrap();
    let file = published.join("Chart.yaml");
    fs::write(&file, fs::read_to_string(&file).unwrap() + &added).unwrap();
    let (other, given) =
        ("image.repository=mirror.example.com/sundown", format!("image.digest={}", digest("b")));
    for (values, image) in [
        (vec![], format!("ghcr.io/owner/sundown@{}", digest("a"))),
        (vec!["image.tag=next"], "ghcr.io/owner/sundown:next".to_owned()),
        (vec![given.as_str()], format!("ghcr.io/owner/sundown@{}", digest("b"))),
        (vec![other], format!("mirror.example.com/sundown:{}", env!("CARGO_PKG_VERSION"))),
        (vec![other, "image.tag=next"], "mirror.example.com/sundown:next".to_owned()),
    ] {
        let sets = ["config.queueUrls={https://sqs.eu-west-1.amazonaws.com/1/a}"]
            .iter()
            .chain(&values)
            .flat_map(|set| ["--set", set]);
        for helm in tools.helms() {
            let made = objects(
                &tools
                    .template(&helm, published.to_str().unwrap(), &sets.clone().collect::<Vec<_>>())
                    .unwrap(),
            );
            assert_eq!(
                pod(&made, "Deployment/sundown")["containers"][0]["image"],
                image,
                "{values:?}"
            );
        }
    }
}

/// With one replica, nobody is missed.
#[test]
fn a_second_replica_is_missed_only_where_there_is_to_be_one() {
    let Some(tools) = Tools::found() else { return };
    let alerts = |replicas: &str| {
        let rules = tools
            .objects(
                "minimal",
                &["--set", "metrics.prometheusRule.enabled=true", "--set", replicas],
            )
            .remove("PrometheusRule/sundown")
            .unwrap();
        let all = rules["spec"]["groups"][0]["rules"].as_array().unwrap().clone();
        all.iter().map(|rule| rule["alert"].as_str().unwrap().to_owned()).collect::<BTreeSet<_>>()
    };
    let (one, two) = (alerts("replicas=1"), alerts("replicas=2"));
    assert_eq!(two.difference(&one).collect::<Vec<_>>(), ["SundownReplicaMissing"]);
}

/// What a person copies from the chart's page is taken as it stands.
#[test]
fn the_values_on_the_page_are_taken() {
    let Some(tools) = Tools::found() else { return };
    let page = fs::read_to_string(format!("{}/README.md", chart())).unwrap();
    let blocks: Vec<_> =
        page.split("```yaml\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert_eq!(blocks.len(), 4, "{blocks:?}");
    for block in blocks {
        let file = tools.work.path().join("block.yaml");
        fs::write(&file, block.replace("REGISTRY", "registry.example.com")).unwrap();
        let objects = tools.objects("minimal", &["--values", file.to_str().unwrap()]);
        let spec = pod(&objects, "Deployment/sundown");
        if block.contains("dryRun") {
            assert_eq!(
                spec["serviceAccountName"], "sundown-trial",
                "the account of the real one may write"
            );
        }
        if block.contains("release:") {
            assert!(["PodMonitor", "PrometheusRule"].iter().all(|kind| {
                objects[&format!("{kind}/sundown")]["metadata"]["labels"]["release"].is_string()
            }));
        }
        assert_eq!(
            spec["nodeSelector"].get("node-role.kubernetes.io/control-plane").is_some(),
            block.contains("control-plane"),
            "{block}"
        );
    }
}

/// Through a proxy nobody is given credentials.
#[test]
fn what_hands_out_credentials_is_asked_directly() {
    let Some(tools) = Tools::found() else { return };
    let output = variables(pod(&tools.objects("company", &[]), "Deployment/sundown"));
    let direct: Vec<_> = output["NO_PROXY"].split(',').collect();
    for host in [
        "169.254.170.23",
        "fd00:ec2::23",
        "169.254.169.254",
        "$(KUBERNETES_SERVICE_HOST)",
        ".internal",
    ] {
        assert!(direct.contains(&host), "{direct:?}");
    }
    assert!(
        !variables(pod(&tools.objects("minimal", &[]), "Deployment/sundown"))
            .contains_key("NO_PROXY")
    );
}

/// A proxy for the way out of the cluster knows nobody in it.
#[test]
fn a_collector_or_a_webhook_in_the_cluster_is_asked_directly() {
    let Some(tools) = Tools::found() else { return };
    for (url, direct) in [
        ("http://otel.monitoring.svc:4318", Some("otel.monitoring.svc")),
        (
            "http://otel.monitoring.svc.cluster.local./in",
            Some("otel.monitoring.svc.cluster.local."),
        ),
        ("http://collector:4318", Some("collector")),
        ("https://hooks.example.com/T0K3N", None),
        ("http://10.1.2.3:4318", None),
    ] {
        for setting in ["config.otlpEndpoint", "config.webhookUrl"] {
            let given = format!("{setting}={url}");
            let objects = tools.objects(
                "minimal",
                &["proxy.https=http://proxy.example.com:3128", "dnsPolicy=ClusterFirst", &given]
                    .map(|set| ["--set", set])
                    .concat(),
            );
            let output = variables(pod(&objects, "Deployment/sundown"));
            let host = url.split_once("//").unwrap().1.split([':', '/']).next().unwrap();
            assert_eq!(
                output["NO_PROXY"].split(',').find(|name| *name == host),
                direct,
                "{given}: {}",
                output["NO_PROXY"]
            );
        }
    }
}

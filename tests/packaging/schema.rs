//! Values that are refused, and what is said of them.

use std::fs;

use crate::tools::{Tools, chart, objects, values};

const REFUSED: &[(&[&str], &str, &str)] = &[
    // Misspelt, at the top, in an object, in a list's object.
    (&["replica=3"], "'replica'", "not allowed"),
    (&["config.queueUrl=x"], "'/config': additional properties 'queueUrl'", "not allowed"),
    (&["extraEnv[0].name=A", "extraEnv[0].vale=b"], "'/extraEnv/0'", "'vale' not allowed"),
    (
        &["tolerations[0].key=a", "tolerations[0].efect=NoSchedule"],
        "'/tolerations/0'",
        "'efect' not allowed",
    ),
    // Of the wrong kind.
    (&["replicas=two"], "'/replicas'", "got string, want integer"),
    (&["config.sharedQueue=maybe"], "'/config/sharedQueue'", "want boolean"),
    (&["config.maxPollers=17"], "'/config/maxPollers'", "maximum: got 17, want 16"),
    (&["config.podEvents=some"], "'/config/podEvents'", "'notable', 'all'"),
    (&["antiAffinity=hard"], "'/antiAffinity'", "'required', 'preferred', 'off'"),
    (&["config.nodeSelector="], "'/config/nodeSelector'", "minLength"),
    // What Sundown would refuse as it starts, with the same remedy.
    (
        &["config.queueUrls=https://sqs.eu-west-1.amazonaws.com/1/a"],
        "'/config/queueUrls'",
        "config.queueUrls={URL}",
    ),
    (
        &["config.dlqUrls=https://sqs.eu-west-1.amazonaws.com/1/dead"],
        "'/config/dlqUrls'",
        "config.dlqUrls={URL}",
    ),
    (&["config.lifecycleHook=sundown"], "'/config/lifecycleHook'", "config.lifecycleHook={NAME}"),
    (&["config.clusterName=2024"], "'/config/clusterName'", "--set-string"),
    // What the API server would refuse, or the kubelet could not reach.
    (&["livenessProbe.successThreshold=3"], "'/livenessProbe/successThreshold'", "must be 1"),
    (&["listenAddress=127.0.0.1"], "'/listenAddress'", "no loopback"),
    (&["listenAddress=[::1]"], "'/listenAddress'", "no loopback"),
    (&["listenAddress=999.9"], "'/listenAddress'", "0.0.0.0"),
    // A key twice, or pods that their own selector does not find.
    (
        &["commonLabels.app\\.kubernetes\\.io/name=drainer"],
        "'/commonLabels/app.kubernetes.io~1name'",
        "nameOverride",
    ),
    (
        &["podLabels.app\\.kubernetes\\.io/component=drainer"],
        "'/podLabels/app.kubernetes.io~1component'",
        "nameOverride",
    ),
    (&["config.queueUrls={nodes}"], "'/config/queueUrls/0'", "aws sqs get-queue-url"),
    (&["config.drainTimeout=90"], "'/config/drainTimeout'", "such as 90s, 5m or 1h30m"),
    (&["config.leaseRetry=2x"], "'/config/leaseRetry'", "such as 90s, 5m or 1h30m"),
    (&["config.forceAfter=2"], "'/config/forceAfter'", "from 0 to 1"),
    (&["config.forceAfter=soon"], "'/config/forceAfter'", "never, deadline, or a share"),
    (
        &["config.clusterName=arn:aws:eks:eu-west-1:1:cluster/shop"],
        "'/config/clusterName'",
        "no ARN",
    ),
    (&["aws.region=eu-west-1a"], "'/aws/region'", "not an availability zone"),
    (&["image.digest=latest"], "'/image/digest'", "sha256:"),
    (&["proxy.https=proxy.example.com:3128"], "'/proxy/https'", "http or https URL"),
    (&["metrics.podMonitor.interval=often"], "'/metrics/podMonitor/interval'", "such as 30s"),
    (
        &["serviceAccount.annotations.eks\\.amazonaws\\.com/role-arn=sundown"],
        "role-arn'",
        "the ARN of a role",
    ),
    // The node's resolver knows no Service.
    (
        &["config.awsEndpointUrl=http://localstack.test.svc:4566"],
        "'/config/awsEndpointUrl'",
        "set dnsPolicy: ClusterFirst",
    ),
    (
        &["config.queueUrls={https://sqs.eu-west-1.amazonaws.com/1/a,http://sqs:9324/1/b}"],
        "'/config/queueUrls'",
        "set dnsPolicy: ClusterFirst",
    ),
    (
        &["config.otlpEndpoint=http://otel.seen.svc:4318"],
        "'/config/otlpEndpoint'",
        "set dnsPolicy: ClusterFirst",
    ),
    (
        &["config.dlqUrls={http://sqs:9324/1/dead}"],
        "'/config/dlqUrls'",
        "set dnsPolicy: ClusterFirst",
    ),
    (
        &["config.webhookUrl=http://chat.tools.svc/hook"],
        "'/config/webhookUrl'",
        "set dnsPolicy: ClusterFirst",
    ),
    (
        &["proxy.https=http://egress.network.svc.cluster.local.:3128"],
        "'/proxy/https'",
        "set dnsPolicy: ClusterFirst",
    ),
    (&["proxy.http=http://user:word@proxy:3128"], "'/proxy/http'", "set dnsPolicy: ClusterFirst"),
    (
        &[
            "extraEnv[0].name=OTEL_EXPORTER_OTLP_ENDPOINT",
            "extraEnv[0].value=http://otel.seen.svc:4317",
        ],
        "'/extraEnv/0/value'",
        "set dnsPolicy: ClusterFirst",
    ),
    (
        &["extraEnv[0].name=WEBHOOK", "extraEnv[0].value=chat.tools.svc.cluster.local:80"],
        "'/extraEnv/0/value'",
        "a host outside of the cluster",
    ),
    (&["dnsPolicy=None"], "'/dnsConfig'", "'nameservers'"),
    // What only goes together, or not together.
    (
        &["metrics.serviceMonitor.enabled=true"],
        "'/service/enabled'",
        "finds the pods by the Service",
    ),
    (
        &[
            "metrics.serviceMonitor.enabled=true",
            "metrics.podMonitor.enabled=true",
            "service.enabled=true",
        ],
        "'/metrics/podMonitor/enabled'",
        "one of serviceMonitor and podMonitor",
    ),
    (&["config.trial=true", "replicas=1"], "'/config/trial'", "beside config.dryRun: true"),
    (
        &["config.trial=true", "config.dryRun=false", "replicas=1"],
        "'/config/trial'",
        "beside config.dryRun: true",
    ),
    (&["config.trial=true", "config.dryRun=true"], "'/replicas'", "in a trial nobody leads"),
    (&["tolerations[0].operator=Exists"], "'/tolerations/0'", "is not drained from them"),
    (
        &["tolerations[0].key=sundown.dev/interruption"],
        "'/tolerations/0'",
        "is not drained from them",
    ),
    (&["dnsPolicy=ClusterFirstWithHostNet"], "'/dnsPolicy'", "for pods with hostNetwork: true"),
    (
        &["dnsPolicy=ClusterFirst", "hostNetwork=true"],
        "'/dnsPolicy'",
        "Kubernetes treats ClusterFirst as Default",
    ),
    (
        &["config.otlpEndpoint=http://otel.seen.svc:4318", "hostNetwork=true"],
        "'/config/otlpEndpoint'",
        "with hostNetwork: true, ClusterFirstWithHostNet",
    ),
    (
        &["podDisruptionBudget.maxUnavailable=0"],
        "'/podDisruptionBudget/maxUnavailable'",
        "1 or more",
    ),
    (
        &["podDisruptionBudget.maxUnavailable=0%"],
        "'/podDisruptionBudget/maxUnavailable'",
        "1 or more",
    ),
    (&["strategy.type=Canary"], "'/strategy/type'", "'RollingUpdate', 'Recreate'"),
    // What no schema can say.
    (&["metrics.port=9809"], "metrics.port and probes.port are both 9809", "a port of its own"),
    (
        &["rbac.force=false", "config.forceAfter=0.5"],
        "rbac.force: false",
        "Set config.forceAfter: never or leave it out",
    ),
    (
        &["rbac.force=false", "extraArgs={--force-after,deadline}"],
        "force-after is \"deadline\"",
        "Set config.forceAfter: never or leave it out",
    ),
    (
        &["rbac.force=false", "extraEnv[0].name=SUNDOWN_FORCE_AFTER", "extraEnv[0].value=deadline"],
        "force-after is \"deadline\"",
        "Set config.forceAfter: never or leave it out",
    ),
    (
        &[
            "rbac.admissionPolicy=true",
            "extraEnv[0].name=SUNDOWN_COMPAT",
            "extraEnv[0].valueFrom.configMapKeyRef.name=settings",
        ],
        "rbac.admissionPolicy allows the taints",
        "set config.compat: nth",
    ),
    (
        &[
            "rbac.admissionPolicy=true",
            "extraEnv[0].name=SUNDOWN_OUT_OF_SERVICE_TAINT",
            "extraEnv[0].valueFrom.configMapKeyRef.name=settings",
        ],
        "rbac.admissionPolicy allows the out-of-service taint",
        "set config.outOfServiceTaint: true",
    ),
    (
        &["webhook.urlSecretName=a", "config.webhookUrl=https://chat.example.com"],
        "webhook.urlSecretName and config.webhookUrl",
        "give one of them",
    ),
    (
        &["webhook.templateConfigMapName=a", "config.webhookTemplate=b"],
        "webhook.templateConfigMapName and config.webhookTemplate",
        "give one of them",
    ),
    (
        &["webhook.templateConfigMapName=a", "config.webhookTemplateFile=b"],
        "webhook.templateConfigMapName and config.webhookTemplate",
        "give one of them",
    ),
    (
        &["podRules[0].behavior=Skip", "config.rulesFile=/etc/sundown/rules.yaml"],
        "podRules and config.rulesFile",
        "give one of them",
    ),
    (&["image.repository="], "image.repository is empty", "deploy/Dockerfile"),
    (&["config.queueUrls=null"], "config.queueUrls is empty", "aws sqs get-queue-url"),
    (
        &["extraEnv[0].name=SUNDOWN_DRY_RUN", "extraEnv[0].value=yes"],
        "said by config.dryRun",
        "rights to write",
    ),
    (&["extraArgs={--dry-run}"], "said by config.dryRun", "rights to write"),
    (
        &["metrics.prometheusRule.enabled=true", "metrics.prometheusRule.disabled={Sundown}"],
        "no alert \"Sundown\"",
        "SundownNobodyLeads",
    ),
];

fn sets<'a>(all: &[&'a str]) -> Vec<&'a str> {
    all.iter().flat_map(|set| ["--set", set]).collect()
}

#[test]
fn what_is_refused_names_itself_and_its_remedy() {
    let Some(tools) = Tools::found() else { return };
    let minimal = values("minimal");
    for (given, itself, remedy) in REFUSED {
        for helm in tools.helms() {
            let args = [&["--values", minimal.as_str()], &sets(given)[..]].concat();
            let output = tools
                .template(&helm, &chart(), &args)
                .expect_err(&format!("{given:?} is taken by {}", helm.display()));
            assert!(
                output.contains(itself) && output.contains(remedy),
                "{} prints for {given:?}: {output}",
                helm.display()
            );
        }
    }
}

#[test]
fn hosts_outside_of_the_cluster_and_addresses_are_taken_and_with_its_own_dns_those_inside_too() {
    let Some(tools) = Tools::found() else { return };
    for taken in [
        &["proxy.https=http://proxy.example.com:3128", "proxy.http=http://10.0.0.1:3128"][..],
        &["config.awsEndpointUrl=https://vpce-1a2b.sqs.eu-west-1.vpce.amazonaws.com"],
        &["config.awsEndpointUrl=http://localhost:4566"],
        &["config.awsEndpointUrl=http://[fd00::1]:4566"],
        &["extraEnv[0].name=COLLECTOR", "extraEnv[0].value=https://otel.example.com:4317"],
        // Words that are no hosts.
        &[
            "extraEnv[0].name=WORD",
            "extraEnv[0].value=a: b://c d",
            "config.logLevel=info\\,sundown::drain=trace",
            "config.lifecycleHook={drain}",
        ],
        // Names that look like those of Services, where none is asked.
        &["extraEnv[0].name=NO_PROXY", "extraEnv[0].value=169.254.170.23\\,.svc\\,.cluster.local"],
        &["extraEnv[0].name=no_proxy", "extraEnv[0].value=registry.tools.svc:5000"],
        &[
            "config.clusterName=dev.cluster.local",
            "config.lifecycleHook={foo.svc}",
            "config.logLevel=kube.svc",
        ],
        &["extraEnv[0].name=ZONE", "extraEnv[0].value=dev.cluster.local"],
        // What is said elsewhere.
        &[
            "config.queueUrls=null",
            "extraEnv[0].name=SUNDOWN_QUEUE_URL",
            "extraEnv[0].value=https://sqs.eu-west-1.amazonaws.com/1/a",
        ],
        &["listenAddress=10.0.0.1", "livenessProbe.successThreshold=1"],
        &[
            "listenAddress=[fd00::1]",
            "livenessProbe=null",
            "commonLabels.app\\.kubernetes\\.io/part-of=platform",
        ],
        &[
            "config.awsEndpointUrl=http://localstack.test.svc:4566",
            "proxy.https=http://proxy:3128",
            "dnsPolicy=ClusterFirst",
        ],
        // Of two words either may be: a domain, or a Service and its namespace.
        &["config.otlpEndpoint=http://example.com:4318"],
        // A trial, and one that was put aside. A dry run that records nothing may have several.
        &["config.trial=true", "config.dryRun=true", "replicas=1"],
        &["config.trial=true", "config.dryRun=true", "replicas=0"],
        &["config.trial=false", "config.dryRun=true"],
    ] {
        tools.objects("minimal", &sets(taken));
    }
}

/// As part of another chart it is given what it does not know of: `global`, and its condition.
#[test]
fn it_is_part_of_another_chart() {
    let Some(tools) = Tools::found() else { return };
    let parent = tools.work.path().join("parent");
    fs::create_dir_all(parent.join("charts")).unwrap();
    tools
        .run("cp".as_ref(), &["-r", &chart(), parent.join("charts/sundown").to_str().unwrap()])
        .unwrap();
    let chart = "apiVersion: v2\nname: parent\nversion: 1.0.0\ndependencies: [{ name: sundown, \
        version: '*', condition: sundown.enabled }]\n";
    fs::write(parent.join("Chart.yaml"), chart).unwrap();
    let minimal = fs::read_to_string(values("minimal")).unwrap().replace('\n', "\n  ");
    fs::write(
        parent.join("values.yaml"),
        format!("global: {{ region: somewhere }}\nsundown:\n  enabled: true\n  {minimal}"),
    )
    .unwrap();
    let parent = parent.to_str().unwrap();
    for helm in tools.helms() {
        let on = objects(&tools.template(&helm, parent, &[]).unwrap());
        assert!(
            on.contains_key("Deployment/sundown") && on.contains_key("ServiceAccount/sundown"),
            "{:?}",
            on.keys()
        );
        assert!(
            objects(&tools.template(&helm, parent, &["--set", "sundown.enabled=false"]).unwrap())
                .is_empty()
        );
        let output = tools.template(&helm, parent, &["--set", "sundown.replica=3"]).unwrap_err();
        assert!(output.contains("sundown:") && output.contains("'replica'"), "{output}");
    }
}

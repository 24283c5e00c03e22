use clap::{Args as _, Command, FromArgMatches as _};

use super::*;

const TRIAL: &str = "https://sqs.eu-west-1.amazonaws.com/123456789012/sundown-shop-trial";
const QUEUE: &str = "https://sqs.eu-west-1.amazonaws.com/123456789012/nodes";

/// Parses and validates as `sundown run` does; an error as the person sees it.
fn run_in(
    environment: &[(&str, &str)],
    flags: &[&str],
) -> Result<(clap::ArgMatches, Config), String> {
    let matches = args::matches(flags).map_err(|e| e.to_string())?;
    let args = RunArgs::from_arg_matches(&matches).map_err(|e| e.to_string())?;
    let look =
        |name: &str| environment.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned());
    let config = args.config(&look).map_err(|e| e.to_string())?;
    Ok((matches, config))
}

fn run(flags: &[&str]) -> Result<Config, String> {
    run_in(&[], flags).map(|(_, config)| config)
}

#[test]
fn a_bad_file_with_rules_is_an_error_at_the_start() {
    let name = format!("sundown-rules-at-start-{}.yaml", std::process::id());
    let file = std::env::temp_dir().join(name);
    let started = |text: &str| {
        std::fs::write(&file, text).unwrap();
        run(&["--queue-url", QUEUE, "--rules-file", file.to_str().unwrap()])
    };
    assert_eq!(started("rules: [{behavior: Skip}]").unwrap().pod_rules.count(), 1);
    let path = file.to_str().unwrap();
    let never = ["--force-after", "never", "--disruption-target", "--rules-file", path];
    let config = run(&[&["--queue-url", QUEUE][..], &never].concat()).unwrap();
    assert!(without_effect(&config).is_empty(), "rules may set forceAfter later");
    let error = started("rules:\n- behavior: Evict\n  forceAfter: soon\n").unwrap_err();
    for words in
        ["--rules-file (SUNDOWN_RULES_FILE)", "line 3: rules[0].forceAfter is `soon`", "never"]
    {
        assert!(error.contains(words), "{words}: {error}");
    }
    std::fs::remove_file(&file).unwrap();
    assert!(run(&["--queue-url", QUEUE, "--rules-file", "/none"]).unwrap_err().contains("read"));
    assert_eq!(run(&["--queue-url", QUEUE]).unwrap().pod_rules.count(), 0);
}

#[test]
fn a_queue_is_all_that_must_be_given() {
    let config = run(&["--queue-url", QUEUE]).unwrap();
    assert_eq!(config.queue.urls.iter().map(|q| q.url.as_str()).collect::<Vec<_>>(), [QUEUE]);
    assert_eq!(
        (config.queue.max_pollers, config.queue.max_held, config.queue.shared),
        (16, 10_000, false)
    );
    assert_eq!(config.aws.region.as_deref(), Some("eu-west-1"));
    assert_eq!(config.ours.join_timeout, Duration::from_mins(5));
    assert_eq!((config.ours.managed_tag, config.ours.cluster_name), (None, None));
    assert_eq!((config.drain.timeout, config.drain.exclude), (None, None));
    assert_eq!(
        (config.drain.deadline_margin, config.drain.spot_deadline_margin),
        (Duration::from_secs(5), Duration::from_secs(10))
    );
    assert_eq!(config.drain.force_after, ForceAfter::Share(0.5));
    assert_eq!(
        (config.drain.complete_delay, config.drain.min_time),
        (Duration::ZERO, Duration::from_secs(5))
    );
    assert_eq!((config.drain.max_in_flight, config.drain.max_in_flight_per_budget), (32, 8));
    assert_eq!(config.election.lease, election::Settings::default());
    assert_eq!(
        (config.election.lease_name.as_str(), config.election.lease_namespace.as_str()),
        ("sundown", "kube-system")
    );
    assert_eq!((config.election.node, config.election.pod), (None, None));
    assert_eq!(config.service.metrics, Some("0.0.0.0:9808".parse().unwrap()));
    assert_eq!(config.service.probes, Some("0.0.0.0:9809".parse().unwrap()));
    assert_eq!((config.service.pod_events, config.dry_run), (PodEvents::Notable, false));
}

#[test]
fn a_simulation_takes_flags_without_a_binary_name_and_no_variable() {
    let args = RunArgs::from_flags(["--queue-url", QUEUE, "--dry-run"]).unwrap();
    assert!(args.dry_run && !args.print_config);
    assert_eq!(args.config(&|_| None).unwrap().queue.urls.len(), 1);
}

#[test]
fn the_pod_spec_names_the_own_pod_and_node() {
    let surroundings = [("NODE_NAME", "n1"), ("POD_NAME", "sundown-0"), ("POD_NAMESPACE", "infra")];
    let (_, config) = run_in(&surroundings, &["--queue-url", QUEUE]).unwrap();
    assert_eq!(config.election.lease_namespace, "infra");
    assert_eq!(config.election.node.map(|n| n.to_string()).as_deref(), Some("n1"));
    assert_eq!(config.election.pod.map(|p| p.to_string()).as_deref(), Some("infra/sundown-0"));
    let (_, config) = run_in(
        &surroundings,
        &["--queue-url", QUEUE, "--lease-namespace", "other", "--node-name", "n2"],
    )
    .unwrap();
    assert_eq!(
        (config.election.lease_namespace.as_str(), config.election.node.unwrap().as_str()),
        ("other", "n2")
    );
}

#[test]
fn empty_values_count_as_not_given() {
    let flags = [
        "--queue-url",
        QUEUE,
        "--cluster-name",
        "",
        "--managed-tag",
        " ",
        "--region",
        "",
        "--aws-endpoint-url",
        "",
        "--context",
        "",
    ];
    let (_, config) = run_in(&[("POD_NAMESPACE", ""), ("NODE_NAME", "")], &flags).unwrap();
    assert_eq!(
        (
            config.ours.cluster_name,
            config.ours.managed_tag,
            config.aws.endpoint_url,
            config.kube.context
        ),
        (None, None, None, None)
    );
    assert_eq!(
        (config.aws.region.as_deref(), config.election.lease_namespace.as_str()),
        (Some("eu-west-1"), "kube-system")
    );
}

#[test]
fn flags_that_are_missing_contradictory_or_out_of_range_are_refused_with_name_value_and_remedy() {
    let other = "https://sqs.us-east-1.amazonaws.com/123456789012/nodes";
    for (flags, name, value, remedy) in [
        // Missing.
        (&[][..], "--queue-url", "not given", "get-queue-url"),
        (
            &["--queue-url", QUEUE, "--queue-url", other],
            "--region",
            "not given",
            "eu-west-1 and us-east-1",
        ),
        (
            &["--queue-url", QUEUE, "--pod-name", "p"],
            "--pod-namespace",
            "not given",
            "set POD_NAMESPACE",
        ),
        // Not understood.
        (&["--queue-url", "nodes"], "--queue-url", "'nodes'", "get-queue-url"),
        (&["--queue-url", ""], "--queue-url", "''", "get-queue-url"),
        (&["--join-timeout", "300"], "--join-timeout", "'300'", "300s for seconds"),
        (&["--join-timeout=-5m"], "--join-timeout", "'-5m'", "90s, 5m or 1h30m"),
        (&["--launch-daemonset", "aws-node"], "--launch-daemonset", "'aws-node'", "NAMESPACE/NAME"),
        (&["--launch-on-timeout", "stop"], "--launch-on-timeout", "'stop'", "continue, abandon"),
        (&["--drain-timeout", "soon"], "--drain-timeout", "'soon'", "90s, 5m or 1h30m"),
        (
            &["--lifecycle-hook", "drain hook"],
            "--lifecycle-hook",
            "`drain hook`",
            "wildcards * and ?",
        ),
        (&["--lifecycle-hook", "[a-z]*"], "--lifecycle-hook", "`[a-z]*`", "wildcards * and ?"),
        (&["--lifecycle-hook", ""], "--lifecycle-hook", "``", "wildcards * and ?"),
        (&["--node-selector", "a in (b"], "--node-selector", "'a in (b'", "kubectl -l"),
        (&["--managed-tag", "a=b"], "--managed-tag", "`a=b`", "give the key alone"),
        (&["--force-after", "1.5"], "--force-after", "'1.5'", "from 0 to 1"),
        (&["--force-after", "NaN"], "--force-after", "'NaN'", "from 0 to 1"),
        (&["--force-after", "always"], "--force-after", "'always'", "never, deadline"),
        (
            &["--exclude-from-load-balancers", "soon"],
            "--exclude-from-load-balancers",
            "'soon'",
            "early, late, never",
        ),
        (&["--pod-events", "some"], "--pod-events", "'some'", "notable, all"),
        (&["--metrics-listen", "9808"], "--metrics-listen", "'9808'", "0.0.0.0:9808"),
        (&["--probe-listen", "9809"], "--probe-listen", "'9809'", "0.0.0.0:9808"),
        (
            &["--aws-endpoint-url", "localhost:4566"],
            "--aws-endpoint-url",
            "`localhost:4566`",
            "http://localhost:4566",
        ),
        (&["--region", "eu-west-1 "], "", "", ""),
        (&["--region", "eu-west-1a"], "--region", "`eu-west-1a`", "not an availability zone's"),
        (&["--region", "us-gov-east-1"], "", "", ""),
        (&["--cluster-name", "a b"], "--cluster-name", "`a b`", "kubernetes.io/cluster/NAME"),
        (&["--cluster-name", "*"], "--cluster-name", "`*`", "no wildcard"),
        (
            &["--cluster-name", "arn:aws:eks:eu-west-1:1:cluster/shop"],
            "--cluster-name",
            "cluster/shop`",
            "no ARN",
        ),
        (&["--cluster-name", "shop.k8s_2.example-3.org"], "", "", ""),
        (&["--region", "EU (Ireland)"], "--region", "`EU (Ireland)`", "eu-west-1"),
        (&["--log-level", "sundown=loud"], "--log-level", "`sundown=loud`", "use a level"),
        (&["--log-format", "xml"], "--log-format", "'xml'", "auto, pretty, json"),
        (&["--lease-name", "Sun down"], "--lease-name", "`Sun down`", "lower-case"),
        (&["--lease-namespace", "A.b"], "--lease-namespace", "`A.b`", "lower-case"),
        (&["--dlq-url", "dead"], "--dlq-url", "'dead'", "aws sqs get-queue-url"),
        (&["--compat", "other"], "--compat", "'other'", "use nth"),
        (&["--webhook-url", "chat"], "--webhook-url", "`(not shown)`", "https://hooks.slack.com"),
        (
            &["--webhook-url", "https://chat/x", "--webhook-on", "begun"],
            "--webhook-on",
            "'begun'",
            "accepted, ended",
        ),
        (
            &["--webhook-url", "https://chat/x", "--webhook-proxy", "proxy:3128"],
            "--webhook-proxy",
            "`(not shown)`",
            "http://proxy.internal:3128",
        ),
        (&["--scheduled-window", "Sat"], "--scheduled-window", "'Sat'", "Sat 02:00-06:00 UTC"),
        // Out of range.
        (
            &["--scheduled-event-interval", "30s"],
            "--scheduled-event-interval",
            "`30s`",
            "use 1m to 1h, or 0s",
        ),
        (&["--max-pollers", "0"], "--max-pollers", "`0`", "1 to 16"),
        (&["--max-pollers", "17"], "--max-pollers", "`17`", "1 to 16"),
        (&["--max-pollers", "many"], "--max-pollers", "'many'", "whole number"),
        (&["--max-held", "1"], "--max-held", "`1`", "10 to 100000"),
        (&["--join-timeout", "2h"], "--join-timeout", "`2h`", "1h or less"),
        (&["--launch-timeout", "12h"], "--launch-timeout", "`12h`", "30s to 11h"),
        (&["--launch-timeout", "10s"], "--launch-timeout", "`10s`", "30s to 11h"),
        (
            &["--launch-startup-taint", "a=b:NoSchedule"],
            "--launch-startup-taint",
            "`a=b:NoSchedule`",
            "give the key alone",
        ),
        (&["--impaired-after", "1m"], "--impaired-after", "`1m`", "2m to 24h"),
        (&["--impaired-after", "25h"], "--impaired-after", "`25h`", "2m to 24h"),
        (&["--max-impaired", "0"], "--max-impaired", "`0`", "1 to 100"),
        (&["--then", "impaired=terminate"], "--then", "impaired=terminate", "the only one is"),
        (&["--drain-timeout", "49h"], "--drain-timeout", "`49h`", "30s to 48h"),
        (&["--drain-timeout", "10s"], "--drain-timeout", "`10s`", "30s to 48h"),
        (&["--deadline-margin", "10m"], "--deadline-margin", "`10m`", "5m or less"),
        (&["--spot-deadline-margin", "2m"], "--spot-deadline-margin", "`2m`", "1m or less"),
        (&["--min-drain-time", "5m"], "--min-drain-time", "`5m`", "1m or less"),
        (&["--complete-delay", "2h"], "--complete-delay", "`2h`", "1h or less"),
        (&["--max-evictions", "0"], "--max-evictions", "`0`", "1 to 1000"),
        (&["--lease-duration", "15500ms"], "--lease-duration", "`15s500ms`", "whole seconds"),
        // Contradictory.
        (
            &["--then", "impaired=unhealthy"],
            "--then",
            "`impaired=unhealthy`",
            "set --on impaired=drain",
        ),
        (
            &["--on", "impaired=cordon", "--then", "impaired=unhealthy"],
            "--then",
            "`impaired=unhealthy`",
            "set --on impaired=drain",
        ),
        (&["--on", "impaired=drain", "--then", "impaired=unhealthy"], "", "", ""),
        (
            &["--on", "impaired=drain", "--sweep-interval", "0s"],
            "--sweep-interval",
            "`0s`",
            "the sweep finds sick instances",
        ),
        (&["--trial"], "--trial", "`true`", "add --dry-run"),
        (&["--trial", "--dry-run"], "--queue-url", QUEUE, "ends with -trial"),
        (
            &[
                "--trial",
                "--dry-run",
                "--queue-url",
                "https://sqs.eu-west-1.amazonaws.com/1/shop-trials",
            ],
            "--queue-url",
            "shop-trials`",
            "-trial",
        ),
        (
            &["--trial", "--dry-run", "--shared-queue", "--queue-url", TRIAL],
            "--trial",
            "`true`",
            "queue of its own",
        ),
        (&["--trial", "--dry-run", "--queue-url", TRIAL], "", "", ""),
        (
            &[
                "--trial",
                "--dry-run",
                "--queue-url",
                "https://sqs.eu-west-1.amazonaws.com/1/shop-trial-20260105090000000000000001",
            ],
            "",
            "",
            "",
        ),
        (&["--webhook-template", "x"], "--webhook-url", "not given", "there is no URL to send to"),
        (
            &[
                "--webhook-url",
                "https://chat/x",
                "--webhook-template",
                "x",
                "--webhook-template-file",
                "y",
            ],
            "--webhook-template-file",
            "`y`",
            "one of the two",
        ),
        (
            &["--webhook-url", "https://chat/x", "--webhook-template", "{{ node }} is gone"],
            "--webhook-template",
            "`{{ node }} is gone`",
            r#"write {"text":"{{ node }} is gone"}"#,
        ),
        (
            &[
                "--webhook-url",
                "https://chat/x",
                "--webhook-on",
                "accepted",
                "--webhook-template",
                r#"["{{ took + 1 }}"]"#,
            ],
            "--webhook-template",
            r#"`["{{ took + 1 }}"]`"#,
            "cannot be rendered",
        ),
        (&["--queue-url", QUEUE, "--queue-url", QUEUE], "--queue-url", QUEUE, "once"),
        (&["--otlp-headers-file", "h"], "--otlp-endpoint", "not given", "no collector to send to"),
        (
            &["--otlp-endpoint", "collector"],
            "--otlp-endpoint",
            "`collector`",
            if cfg!(feature = "otlp") { ":4318" } else { "the feature `otlp`" },
        ),
        #[cfg(feature = "otlp")]
        (
            &["--otlp-endpoint", "https://user:S3CR3T@collector:4318"],
            "--otlp-endpoint",
            "`(not shown)`",
            "--otlp-headers-file",
        ),
        #[cfg(feature = "otlp")]
        (&["--otlp-endpoint", "https://collector:4318"], "", "", ""),
        #[cfg(not(feature = "otlp"))]
        (
            &["--otlp-endpoint", "https://collector:4318"],
            "--otlp-endpoint",
            "collector:4318`",
            "this build sends no traces",
        ),
        (&["--queue-url", QUEUE, "--dlq-url", QUEUE], "--dlq-url", QUEUE, "redrive policy"),
        (&["--dlq-url", other, "--dlq-url", other], "--dlq-url", other, "once"),
        (&["--dlq-url", other], "", "", ""),
        (
            &["--dlq-url", other, "--dlq-url", "https://sqs.eu-west-3.amazonaws.com/2/nodes"],
            "--dlq-url",
            other,
            "one series",
        ),
        (
            &["--drain-timeout", "30s", "--deadline-margin", "30s"],
            "--deadline-margin",
            "`30s`",
            "--drain-timeout 30s",
        ),
        (
            &["--probe-listen", "0.0.0.0:9808"],
            "--probe-listen",
            "`0.0.0.0:9808`",
            "--metrics-listen",
        ),
        (&["--probe-listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0"], "", "", ""),
        (&["--max-drains-per-group", "0"], "--max-drains-per-group", "`0`", "1 to 1000"),
        (&["--max-evictions", "4"], "--max-evictions-per-budget", "`8`", "--max-evictions 4"),
        (
            &["--lease-renew-deadline", "15s"],
            "--lease-renew-deadline",
            "`15s`",
            "--lease-duration (15s)",
        ),
        (&["--lease-duration", "12s"], "--lease-renew-deadline", "`10s`", "--lease-duration (12s)"),
        (&["--lease-retry", "6s"], "--lease-retry", "`6s`", "--lease-renew-deadline (10s)"),
        (&["--lease-retry", "0"], "--lease-retry", "`0s`", "100ms"),
    ] {
        let mut all = flags.to_vec();
        if !flags.is_empty() && !flags.contains(&"--queue-url") {
            all.extend(["--queue-url", QUEUE]);
        }
        match run(&all) {
            Ok(_) => assert_eq!(name, "", "{flags:?} is accepted"),
            Err(error) => {
                assert!(!name.is_empty(), "{flags:?}: {error}");
                assert!(
                    error.contains(name) && error.contains(value) && error.contains(remedy),
                    "{flags:?}: {error}"
                );
            }
        }
    }
}

#[test]
fn a_webhook_gets_ended_drains_by_default_and_its_secrets_are_not_shown() {
    use crate::observe::webhook::{On, TemplateSource};
    let flags = [
        "--queue-url",
        QUEUE,
        "--webhook-url",
        "https://chat/T0K3N",
        "--webhook-proxy",
        "http://u:S3CR3T@proxy:3128",
    ];
    let config = run(&flags).unwrap();
    assert!(!format!("{config:?}").contains("T0K3N") && !format!("{config:?}").contains("S3CR3T"));
    let printed = printed(&[], &flags);
    assert!(!printed.contains("T0K3N") && !printed.contains("S3CR3T"), "{printed}");
    assert!(printed.contains("--webhook-url (not shown)  # from the flag"), "{printed}");
    let webhook = config.webhook.unwrap();
    assert_eq!((webhook.url.expose(), webhook.on), ("https://chat/T0K3N", [On::Ended].into()));
    let config = run(&[
        "--queue-url",
        QUEUE,
        "--webhook-url",
        "http://chat",
        "--webhook-on",
        "accepted,ended",
        "--webhook-template-file",
        "t",
    ])
    .unwrap();
    let webhook = config.webhook.unwrap();
    assert_eq!(
        (webhook.on, webhook.template),
        ([On::Accepted, On::Ended].into(), TemplateSource::File("t".into()))
    );
    assert_eq!(run(&["--queue-url", QUEUE, "--webhook-url", " "]).unwrap().webhook, None);
}

#[test]
fn several_queues_and_hooks_may_be_given_in_one_value() {
    let config = run(&[
        "--queue-url",
        &format!("{QUEUE},{QUEUE}-2"),
        "--lifecycle-hook",
        "a*,Terminate-LC-Hook",
    ])
    .unwrap();
    assert_eq!(config.queue.urls.len(), 2);
    assert!(
        config.ours.hooks.names(&"Terminate-LC-Hook".into())
            && config.ours.hooks.names(&"abc".into())
    );
    assert!(!config.ours.hooks.cover(&"b".into()));
    let other = "https://sqs.us-east-1.amazonaws.com/1/nodes";
    let config =
        run(&["--queue-url", QUEUE, "--queue-url", other, "--region", "eu-west-1"]).unwrap();
    assert_eq!(config.aws.region.as_deref(), Some("eu-west-1"));
}

#[test]
fn every_flag_has_a_variable_of_its_own_and_is_printed_with_value_variable_and_default() {
    let flags = ["--queue-url", QUEUE, "--drain-timeout", "2h", "--dry-run"];
    let printed = printed(&[("POD_NAMESPACE", "infra")], &flags);
    let command = RunArgs::augment_args(Command::new("run"));
    let mut variables = std::collections::BTreeSet::new();
    for arg in command.get_arguments().filter(|a| a.get_id() != "help") {
        let (long, variable) =
            (arg.get_long().unwrap(), arg.get_env().unwrap_or_default().to_str().unwrap());
        assert!(variable.starts_with("SUNDOWN_"), "--{long} has the variable `{variable}`");
        assert!(variables.insert(variable.to_owned()), "{variable} is used twice");
        assert!(arg.get_help().is_some(), "--{long} has no help text");
        let lines = printed.lines().filter(|l| {
            l.starts_with(&format!("--{long} "))
                && l.contains(&format!("variable {variable}; default: "))
        });
        assert_eq!(lines.count(), usize::from(long != "print-config"), "--{long} in\n{printed}");
    }
    for line in [
        "--drain-timeout 2h  # from the flag; variable SUNDOWN_DRAIN_TIMEOUT; default: 1 h, or \
         the hook's HeartbeatTimeout if that is longer",
        "--join-timeout 5m  # default; variable SUNDOWN_JOIN_TIMEOUT; default: 5m",
        "--dry-run true  # from the flag; variable SUNDOWN_DRY_RUN; default: false",
        "--lease-namespace infra  # from POD_NAMESPACE; variable SUNDOWN_LEASE_NAMESPACE; \
         default: POD_NAMESPACE, else kube-system",
        "--cluster-name (none)  # default; variable SUNDOWN_CLUSTER_NAME; default: none",
        "--kubeconfig (derived)  # default; variable SUNDOWN_KUBECONFIG; default: KUBECONFIG or \
         ~/.kube/config, else in-cluster",
    ] {
        assert!(printed.lines().any(|l| l == line), "{line} is missing in\n{printed}");
    }
}

fn printed(environment: &[(&str, &str)], flags: &[&str]) -> String {
    let matches = args::matches(flags).unwrap();
    let args = RunArgs::from_arg_matches(&matches).unwrap();
    let look =
        |name: &str| environment.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned());
    args.clone().config(&look).unwrap();
    print_config(&matches, &args, &look)
}

#[test]
fn the_printed_configuration_names_sources_and_needs_no_queue() {
    let local = "http://127.0.0.1:9/0/q";
    for (environment, flags, line) in [
        (&[][..], &[][..], "--queue-url (none)  # required"),
        (&[], &["--queue-url", QUEUE], "--region eu-west-1  # from the queue's URL"),
        (
            &[("AWS_REGION", "eu-north-1")],
            &["--queue-url", local],
            "--region eu-north-1  # from AWS_REGION",
        ),
        (
            &[("AWS_DEFAULT_REGION", "eu-north-1")],
            &["--region", " "],
            "--region eu-north-1  # from AWS_DEFAULT_REGION",
        ),
        (&[], &["--queue-url", local], "--region (derived)  # default"),
        (&[("POD_NAMESPACE", "infra")], &[], "--pod-namespace infra  # from POD_NAMESPACE"),
        (&[], &[], "--lease-namespace kube-system  # default"),
        (&[], &[], "--node-name (none)  # NODE_NAME is not set"),
        (&[("NODE_NAME", "n1")], &[], "--node-name n1  # from NODE_NAME"),
        (&[], &["--cluster-name", " "], "--cluster-name (none)  # default"),
        (&[], &["--node-selector", ""], "--node-selector (every node)  # from the flag"),
    ] {
        let all: Vec<_> = flags.iter().copied().chain(["--print-config"]).collect();
        let printed = printed(environment, &all);
        assert!(
            printed.lines().any(|l| l.starts_with(&format!("{line}; variable "))),
            "{flags:?}: {line} is missing in\n{printed}"
        );
    }
}

#[test]
fn a_misspelled_variable_is_found_but_those_of_a_service_are_not() {
    let set = [
        "SUNDOWN_DRAIN_TIMEOUT",
        "SUNDOWN_DRAIN_TIMOUT",
        "PATH",
        "SUNDOWN_SERVICE_HOST",
        "SUNDOWN_SERVICE_PORT_HTTP",
        "SUNDOWN_PORT_9808_TCP_ADDR",
    ];
    assert_eq!(unknown_variables(set.iter().map(ToString::to_string)), ["SUNDOWN_DRAIN_TIMOUT"]);
}

#[test]
fn flags_without_an_effect_are_named_with_what_would_give_them_one() {
    let of = |flags: &[&str]| {
        let config = run(&[&["--queue-url", QUEUE], flags].concat()).unwrap();
        without_effect(&config).into_iter().map(|w| (w.flag, w.why)).collect::<Vec<_>>()
    };
    assert_eq!(of(&[]), []);
    for (flag, with, needed) in [
        ("--evict-after", &["--evict-after", "rebalance=5m"][..], "--on rebalance=drain"),
        (
            "--evict-after",
            &["--evict-after", "terminate-hook=5m", "--on", "terminate-hook=cordon"],
            "--on terminate-hook=drain",
        ),
        (
            "--hook-result-on-failure",
            &["--hook-result-on-failure", "abandon", "--on", "terminate-hook=ignore"],
            "--on terminate-hook=drain",
        ),
        (
            "--max-drains-per-group",
            &[
                "--max-drains-per-group",
                "2",
                "--on",
                "terminate-hook=cordon,scheduled-change=cordon,root-volume=cordon",
            ],
            "--on KIND=drain",
        ),
        (
            "--max-voluntary",
            &[
                "--max-voluntary",
                "10%",
                "--on",
                "terminate-hook=cordon,scheduled-change=cordon,root-volume=cordon",
            ],
            "--on KIND=drain",
        ),
        ("--launch-timeout", &["--launch-timeout", "1h", "--on", "launch-hook=ignore"], "remove"),
        (
            "--launch-startup-taint",
            &["--launch-startup-taint", "a/b", "--on", "launch-hook=ignore"],
            "remove",
        ),
        (
            "--maintenance-condition",
            &["--maintenance-condition", "--on", "scheduled-change=ignore"],
            "--on scheduled-change=drain",
        ),
        (
            "--scheduled-window",
            &["--scheduled-window", "Sat 02:00-06:00 UTC", "--on", "scheduled-change=ignore"],
            "--on scheduled-change=drain",
        ),
        ("--rebalance-ttl", &["--rebalance-ttl", "2h", "--on", "rebalance=ignore"], "prefer"),
        (
            "--disruption-target",
            &["--disruption-target", "--force-after", "never"],
            "never deletes a pod",
        ),
    ] {
        let found = of(with);
        assert!(
            matches!(&found[..], [(name, why)] if *name == flag && why.contains(needed)),
            "{with:?}: {found:?}"
        );
        // Without the other flag, it has an effect.
        let is_other = |(n, word): (usize, &&str)| n > 0 && word.starts_with("--");
        let others = with.iter().enumerate().position(is_other).unwrap_or(0);
        let (alone, _) = with.split_at(others);
        assert_eq!(of(alone), [], "{alone:?}");
    }
    assert_eq!(of(&["--on", "spot=cordon"]), []);
    // The drain for a new root volume may fail, and then a terminate hook joins it.
    let only_root_volumes = "terminate-hook=cordon,scheduled-change=cordon";
    let abandon = ["--hook-result-on-failure", "abandon", "--on", only_root_volumes];
    assert_eq!(of(&abandon), []);
}

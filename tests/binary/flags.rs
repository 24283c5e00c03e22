//! The command line: an error names the flag, its value and a remedy, and the exit code is 2.

use crate::process::{CommandOutput, Folder, run, sundown};

const QUEUE: &str = "https://sqs.eu-west-1.amazonaws.com/123456789012/interruptions";

async fn asked(flags: &[&str], variables: &[(&str, &str)]) -> CommandOutput {
    let folder = Folder::new();
    run(folder.path(), sundown(folder.path()).args(flags).envs(variables.iter().copied())).await
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_flags_end_it_with_code_2_and_name_flag_value_and_remedy() {
    // Flags after `run`; whether a queue is given; what the error must contain.
    let rows: &[(&[&str], bool, &[&str])] = &[
        (&[], false, &["--queue-url", "SUNDOWN_QUEUE_URL", "not given", "aws sqs get-queue-url"]),
        (
            &["--queue-url", "http://127.0.0.1:9/000000000000/q"],
            false,
            &["--region", "SUNDOWN_REGION", "not given", "eu-west-1"],
        ),
        (
            &["--queue-url", "my-queue"],
            false,
            &["--queue-url", "my-queue", "https://sqs.REGION.amazonaws.com"],
        ),
        (
            &["--queue-url", "https://sqs.eu-west-1.amazonaws.com/1/q.fifo"],
            false,
            &["--queue-url", "q.fifo", "give a standard queue"],
        ),
        (&["--queue-url", QUEUE], true, &["--queue-url", QUEUE, "once"]),
        (
            &["--queue-url", "https://sqs.us-east-1.amazonaws.com/1/q"],
            true,
            &["--region", "eu-west-1 and us-east-1"],
        ),
        (&["--max-pollers", "17"], true, &["--max-pollers", "`17`", "1 to 16"]),
        (&["--max-pollers", "many"], true, &["--max-pollers", "many"]),
        (&["--max-held", "0"], true, &["--max-held", "`0`", "10 to 100000"]),
        (&["--lifecycle-hook", "drain me"], true, &["--lifecycle-hook", "`drain me`", "sundown*"]),
        (&["--node-selector", "a in b"], true, &["--node-selector", "a in b"]),
        (&["--managed-tag", "a=b"], true, &["--managed-tag", "`a=b`", "key alone"]),
        (&["--join-timeout", "300"], true, &["--join-timeout", "300", "300s"]),
        (&["--join-timeout", "2h"], true, &["--join-timeout", "`2h`", "1h or less"]),
        (&["--drain-timeout", "49h"], true, &["--drain-timeout", "`49h`", "30s to 48h"]),
        (
            &["--drain-timeout", "1m", "--deadline-margin", "2m"],
            true,
            &["--deadline-margin", "`2m`", "--drain-timeout 1m"],
        ),
        (&["--deadline-margin=-5s"], true, &["--deadline-margin", "-5s", "negative"]),
        (
            &["--spot-deadline-margin", "2m"],
            true,
            &["--spot-deadline-margin", "`2m`", "1m or less"],
        ),
        (
            &["--drain-timeout", "2h", "--max-drain-timeout", "1h"],
            true,
            &["--max-drain-timeout", "`1h`", "2h to 48h"],
        ),
        (
            &["--evict-after", "spot=10s"],
            true,
            &["--evict-after", "terminate-hook, rebalance; not for `spot`"],
        ),
        (
            &["--evict-after", "rebalance=1m,rebalance=2m"],
            true,
            &["--evict-after", "`rebalance=2m`", "two values"],
        ),
        (&["--max-drains-per-group", "0"], true, &["--max-drains-per-group", "`0`", "1 to 1000"]),
        (&["--max-voluntary", "0"], true, &["--max-voluntary", "0", "1% to 100%"]),
        (&["--max-voluntary", "101%"], true, &["--max-voluntary", "101%", "1% to 100%"]),
        (&["--force-after", "1.5"], true, &["--force-after", "1.5"]),
        (&["--force-after", "soon"], true, &["--force-after", "soon", "never"]),
        (
            &["--exclude-from-load-balancers", "maybe"],
            true,
            &["--exclude-from-load-balancers", "maybe", "early", "late", "never"],
        ),
        (&["--complete-delay", "2h"], true, &["--complete-delay", "`2h`", "1h or less"]),
        (&["--min-drain-time", "5m"], true, &["--min-drain-time", "`5m`", "1m or less"]),
        (&["--max-evictions", "0"], true, &["--max-evictions", "`0`", "1 to 1000"]),
        (
            &["--max-evictions", "4"],
            true,
            &["--max-evictions-per-budget", "`8`", "--max-evictions 4"],
        ),
        (&["--lease-name", "My Lease"], true, &["--lease-name", "`My Lease`", "lower-case"]),
        (&["--lease-duration", "1500ms"], true, &["--lease-duration", "whole seconds"]),
        (
            &["--lease-duration", "12s"],
            true,
            &["--lease-renew-deadline", "`10s`", "--lease-duration (12s)"],
        ),
        (
            &["--lease-retry", "6s"],
            true,
            &["--lease-retry", "`6s`", "--lease-renew-deadline (10s)"],
        ),
        (&["--pod-name", "sundown-0"], true, &["--pod-namespace", "not given", "POD_NAMESPACE"]),
        (&["--region", "eu-west-1a!"], true, &["--region", "`eu-west-1a!`", "eu-west-1"]),
        (
            &["--aws-endpoint-url", "localhost:4566"],
            true,
            &["--aws-endpoint-url", "`localhost:4566`", "http://localhost:4566"],
        ),
        (&["--accept-real-tests", "48h"], true, &["--accept-real-tests", "`48h`", "24h or less"]),
        (&["--probe-listen", "everywhere"], true, &["--probe-listen", "everywhere"]),
        (&["--log-level", "sundown=loud"], true, &["--log-level", "sundown=loud"]),
        (&["--log-format", "xml"], true, &["--log-format", "xml", "json"]),
        (&["--shared"], true, &["--shared", "--shared-queue"]),
    ];
    for (flags, with_queue, needles) in rows {
        let mut all = vec!["run"];
        if *with_queue {
            all.extend(["--queue-url", QUEUE]);
        }
        all.extend(*flags);
        let output = asked(&all, &[("AWS_EC2_METADATA_DISABLED", "true")]).await;
        assert_eq!(output.code, Some(2), "{flags:?}: {}", output.err);
        for needle in *needles {
            assert!(
                output.err.contains(needle),
                "{flags:?}: «{needle}» is not in «{}»",
                output.err
            );
        }
        assert!(output.out.is_empty(), "{flags:?}: {}", output.out);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_variable_that_is_wrong_is_named() {
    for (variable, value, remedy) in [
        ("SUNDOWN_MAX_POLLERS", "99", "1 to 16"),
        ("SUNDOWN_MAX_POLLERS", "many", "whole number"),
        ("SUNDOWN_DRY_RUN", "maybe", "true or false"),
        ("SUNDOWN_LOG_FORMAT", "xml", "json"),
        ("SUNDOWN_LOG", "inof", "use a level"),
        ("SUNDOWN_DRAIN_TIMEOUT", "5", "5s for seconds"),
        ("SUNDOWN_LIFECYCLE_HOOK", "drain me", "sundown*"),
    ] {
        let output = asked(&["run", "--queue-url", QUEUE], &[(variable, value)]).await;
        assert_eq!(output.code, Some(2), "{variable}: {}", output.err);
        for needle in [variable, value, remedy] {
            assert!(
                output.err.contains(needle),
                "{variable}={value}: «{needle}» is not in «{}»",
                output.err
            );
        }
    }
    let output = asked(&["run", "--max-pollers", "many"], &[("SUNDOWN_MAX_POLLERS", "3")]).await;
    assert!(
        output.err.contains("--max-pollers") && !output.err.contains("SUNDOWN_MAX_POLLERS"),
        "the flag is wrong: {}",
        output.err
    );
    let output =
        asked(&["pause"], &[("SUNDOWN_LEASE_NAME", ""), ("KUBECONFIG", "/nowhere/config")]).await;
    assert!(
        output.err.contains("no Kubernetes cluster")
            && output.err.matches("os error 2").count() == 1,
        "each cause once: {}",
        output.err
    );
}

/// What was printed, without where it comes from.
fn values(printed: &str) -> Vec<&str> {
    printed.lines().map(|line| line.split("  # ").next().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_variable_that_is_empty_is_as_good_as_none_for_every_flag() {
    let page = include_str!("../../docs/configuration.md");
    let variables = page.lines().filter_map(|l| l.split("| `SUNDOWN_").nth(1)?.split('`').next());
    let all: Vec<String> = variables.map(|name| format!("SUNDOWN_{name}")).collect();
    assert!(all.len() > 30 && all.iter().any(|name| name == "SUNDOWN_NODE_SELECTOR"), "{all:?}");
    let flags = ["run", "--print-config"];
    let without = asked(&flags, &[]).await;
    assert_eq!(without.code, Some(0), "{}", without.err);
    assert!(without.out.contains("--node-selector !karpenter.sh/nodepool"), "{}", without.out);
    for blank in ["", "  "] {
        let empty: Vec<_> = all.iter().map(|name| (name.as_str(), blank)).collect();
        let with = asked(&flags, &empty).await;
        assert_eq!((with.code, with.out), (Some(0), without.out.clone()), "{}", with.err);
    }
    let one = asked(&flags, &[("SUNDOWN_MAX_POLLERS", "3")]).await;
    assert_eq!(
        values(&one.out).iter().zip(values(&without.out)).filter(|(a, b)| **a != *b).count(),
        1,
        "{}",
        one.out
    );
    let output = asked(&["run"], &[("SUNDOWN_QUEUE_URL", "")]).await;
    assert!(
        output.code == Some(2)
            && output.err.contains("--queue-url (SUNDOWN_QUEUE_URL) is not given"),
        "{}",
        output.err
    );
    let help = asked(&["run", "--help"], &[("SUNDOWN_QUEUE_URL", "")]).await;
    assert!(help.code == Some(0) && help.out.contains("SUNDOWN_QUEUE_URL"), "{}", help.out);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_variable_that_no_flag_has_is_reported_in_the_log_and_by_print_config() {
    let variables = [("SUNDOWN_DRAIN_TIMOUT", "2h"), ("AWS_EC2_METADATA_DISABLED", "true")];
    let output =
        asked(&["run", "--queue-url", "http://127.0.0.1:9/000000000000/q"], &variables).await;
    let is_reported = output.err.lines().any(|line| {
        line.contains("WARN") && line.contains("SUNDOWN_DRAIN_TIMOUT") && line.contains("ignored")
    });
    assert!(is_reported, "{}", output.err);
    let output = asked(&["run", "--print-config"], &variables).await;
    assert_eq!(
        output.out.lines().last(),
        Some("# SUNDOWN_DRAIN_TIMOUT: no such setting, ignored"),
        "{}",
        output.out
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn print_config_shows_every_flag_with_its_value_and_where_that_comes_from() {
    let output = asked(
        &["run", "--print-config", "--queue-url", QUEUE, "--drain-timeout", "2h"],
        &[("SUNDOWN_CLUSTER_NAME", "prod"), ("POD_NAMESPACE", "ops")],
    )
    .await;
    assert_eq!(output.code, Some(0), "{}", output.err);
    let line = |flag: &str| {
        output
            .out
            .lines()
            .find(|l| l.starts_with(&format!("--{flag} ")))
            .unwrap_or_else(|| panic!("no {flag} in {}", output.out))
            .to_owned()
    };
    assert!(line("queue-url").contains(QUEUE));
    assert!(
        line("drain-timeout").contains("2h") && line("drain-timeout").contains("from the flag")
    );
    assert!(
        line("cluster-name").contains("prod") && line("cluster-name").contains("from its variable")
    );
    assert!(line("lease-namespace").contains("ops"));
    assert!(line("region").contains("eu-west-1"));
    assert!(
        line("max-pollers").contains("16") && line("max-pollers").contains("SUNDOWN_MAX_POLLERS")
    );
    let documented = include_str!("../../docs/configuration.md");
    for flag in documented.lines().filter_map(|l| l.strip_prefix("| `--")?.split(['`', ' ']).next())
    {
        if flag != "print-config" {
            line(flag);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn help_and_version_are_there_and_no_command_is_an_error() {
    let help = asked(&["run", "--help"], &[]).await;
    assert_eq!(help.code, Some(0));
    assert!(
        help.out.contains("--queue-url") && help.out.contains("SUNDOWN_QUEUE_URL"),
        "{}",
        help.out
    );
    let words = help.out.split_whitespace().collect::<Vec<_>>().join(" ");
    for default in [
        "[required]",
        "[default: 1 h, or the hook's HeartbeatTimeout if that is longer]",
        "[default: 5m]",
    ] {
        assert!(words.contains(default), "{default} is not in {}", help.out);
    }
    assert!(asked(&["--version"], &[]).await.out.contains(env!("CARGO_PKG_VERSION")));
    assert_eq!(asked(&[], &[]).await.code, Some(2));
    assert_eq!(asked(&["walk"], &[]).await.code, Some(2));
}

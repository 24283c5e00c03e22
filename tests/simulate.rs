//! `sundown simulate` as a person runs it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    clippy::print_stderr,
    unreachable_pub,
    reason = "tests: a panic is how they fail"
)]

#[path = "binary/skip.rs"]
mod skip;

use std::{
    io::{Read as _, Write as _},
    process::{Command, Output},
    sync::{Arc, Mutex},
    time::Duration,
};

use serde_json::Value;

fn simulate(arguments: &[&str], environment: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sundown"));
    command.arg("simulate").args(arguments).envs(environment.iter().copied());
    command.output().unwrap()
}

fn json(arguments: &[&str]) -> Value {
    let output = simulate(arguments, &[]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn the_same_seed_gives_the_same_bytes_in_two_processes_whatever_the_environment() {
    let one = simulate(&["-o", "json", "--seed", "7"], &[]);
    let two = simulate(
        &["-o", "json", "--seed", "7"],
        &[("SUNDOWN_NODE_SELECTOR", "no=such"), ("SUNDOWN_DRY_RUN", "true"), ("TZ", "Asia/Tokyo")],
    );
    assert!(one.status.success() && !one.stdout.is_empty());
    assert_eq!(String::from_utf8_lossy(&one.stdout), String::from_utf8_lossy(&two.stdout));
    let other = simulate(&["-o", "json", "--seed", "8"], &[]);
    assert_ne!(one.stdout, other.stdout);
}

#[test]
fn everything_comes_to_rest_and_every_hook_is_completed_by_us() {
    let summary = json(&["-o", "json"]);
    assert_eq!(summary["atRest"], true);
    let hooks = summary["hooks"].as_array().unwrap();
    assert_eq!(hooks.len(), 6, "one for each instance of the scale-in");
    assert!(hooks.iter().all(|h| h["ended"] == "Completed(Continue)"), "{hooks:#?}");
    let nodes = summary["nodes"].as_array().unwrap();
    assert_eq!(nodes.len(), 9, "six of the scale-in, three of the reclaim");
    for node in nodes {
        assert_eq!(node["ended"], "empty", "{node:#}");
        assert!(node["drainedAfterMs"].as_u64().unwrap() >= 5_000, "{node:#}");
        assert!(node["evictions"].as_u64().unwrap() > 0, "{node:#}");
        let completed = if node["kind"] == "terminate-hook" {
            serde_json::json!(["CONTINUE"])
        } else {
            serde_json::json!([])
        };
        assert_eq!(node["completedWith"], completed, "{node:#}");
    }
}

#[test]
fn a_budget_that_allows_nothing_holds_a_node_until_the_deadline_and_heartbeats_keep_its_hook_open()
{
    let summary = json(&["-o", "json"]);
    let nodes = summary["nodes"].as_array().unwrap();
    let with = |name: &str| {
        nodes
            .iter()
            .find(|n| {
                n["forced"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .any(|p| p.as_str().unwrap().starts_with(name))
            })
            .unwrap()
    };
    let ledger = with("shop/ledger-");
    assert_eq!(ledger["kind"], "terminate-hook");
    assert!(
        ledger["heartbeats"].as_u64().unwrap() >= 6,
        "20 min with a heartbeat timeout of 5 min: {ledger:#}"
    );
    let blocked = &ledger["blocked"][0];
    assert_eq!(blocked["reason"], "pdb");
    assert!(blocked["seconds"].as_u64().unwrap() > 1_100, "{ledger:#}");
    let reports = with("batch/reports-");
    assert_eq!(reports["kind"], "spot");
    assert!(
        reports["drainedAfterMs"].as_u64().unwrap() < 110_000,
        "before the machine goes: {reports:#}"
    );
}

#[test]
fn people_see_events_lines_and_a_table_but_no_flood() {
    let output = simulate(&[], &[]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("Auto Scaling terminates 6 instances of `general`"), "{text}");
    assert!(
        text.contains("cordoned  terminate-hook")
            && text.contains("pods left")
            && text.contains("s to go")
            && text.contains("blocked: "),
        "{text}"
    );
    assert!(
        text.contains("heartbeats") && text.contains("Forced by a deadline: shop/ledger-"),
        "{text}"
    );
    assert!(
        text.lines().any(|line| line.contains("  forced    shop/ledger-")
            && line.ends_with(": deleted because of the deadline")),
        "{text}"
    );
    assert!(!text.contains("compute.internal"), "nodes are named without their domain: {text}");
    assert!(!text.contains('\u{1b}'), "no control sequences where there is no terminal");
    assert!(text.lines().count() < 100, "{} lines", text.lines().count());
}

#[test]
fn instances_that_come_into_service_can_be_watched_by_the_name_of_a_scenario() {
    let serves = "is in service: its launch hook is completed";
    for (name, lines) in [
        ("launch", ["Auto Scaling launches 3 instances of `general`", serves]),
        (
            "warm-pool",
            [
                "Auto Scaling returns to the warm pool 2 instances of `general`",
                "takes pods again: it is as it was before its drain",
            ],
        ),
        (
            "root-volume",
            [
                "Auto Scaling replaces the root volume of 2 instances of `general`",
                "takes pods again: it has booted from its new root volume",
            ],
        ),
        (
            "standby",
            [
                "Somebody puts into standby 2 instances of `general`",
                "is in service: its launch hook is completed",
            ],
        ),
        ("lost-events", ["EventBridge loses all events for 1h", serves]),
        (
            "instance-refresh",
            [
                "Auto Scaling replaces 2 instances of `general`",
                "is in service: it is a replacement",
            ],
        ),
        (
            "maintenance",
            ["AWS Health announces the retirement of 2 instances of `general`", "scheduled-change"],
        ),
        ("rebalance", ["EC2 recommends to rebalance 2 instances of `spot`", "expired"]),
    ] {
        let output = simulate(&["--scenario", name], &[]);
        let shown = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{name}: {shown}");
        for line in lines {
            assert!(shown.contains(line), "{name}, {line}: {shown}");
        }
    }
}

#[test]
fn time_can_be_carried_on_at_a_speed_of_ones_own() {
    let file = scenario(
        "speed",
        "{ name: n, groups: [{ name: g, nodes: 2, spot: true }], events: [{ at: 5s, spot: { \
         group: g, count: 1 } }], until: 10m }",
    );
    let begun = std::time::Instant::now();
    let output =
        simulate(&["--scenario", file.to_str().unwrap(), "--speed", "200", "-o", "json"], &[]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    let (seconds, took) = (summary["seconds"].as_f64().unwrap(), begun.elapsed().as_secs_f64());
    assert!(took >= seconds / 200.0 * 0.98, "{took} s: not as fast as it can");
    assert!(took < seconds, "{took} s: nor as slowly as real time");
}

#[test]
fn however_fast_time_is_told_to_go_no_timer_is_late_and_every_hook_is_completed() {
    let begun = std::time::Instant::now();
    let summary = json(&["--speed", "2000", "-o", "json"]);
    let (seconds, took) = (summary["seconds"].as_f64().unwrap(), begun.elapsed().as_secs_f64());
    assert!(took >= seconds / 2000.0 * 0.98, "{took} s for {seconds}: not faster than told");
    assert!(took < seconds / 10.0, "{took} s for {seconds}: nor far slower");
    // The same as without a bound.
    let unbound = json(&["-o", "json"]);
    assert_eq!(summary["atRest"], true);
    assert!(
        summary["hooks"].as_array().unwrap().iter().all(|h| h["ended"] == "Completed(Continue)"),
        "{summary:#}"
    );
    assert_eq!((&summary["hooks"], &summary["seconds"]), (&unbound["hooks"], &unbound["seconds"]));
}

/// `sundown simulate` that is to be ended by a signal.
struct Running {
    child: std::process::Child,
    errors: std::path::PathBuf,
}

impl Running {
    fn start(name: &str, arguments: &[&str]) -> Self {
        let errors =
            std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("simulate-{name}.err"));
        let mut command = Command::new(env!("CARGO_BIN_EXE_sundown"));
        command.arg("simulate").args(arguments).stdout(std::process::Stdio::piped());
        let child = command.stderr(std::fs::File::create(&errors).unwrap()).spawn().unwrap();
        Self { child, errors }
    }

    fn said(&self) -> String {
        std::fs::read_to_string(&self.errors).unwrap()
    }

    /// Waits until standard error says this, and gives what follows up to white space or a
    /// semicolon.
    fn says(&mut self, text: &str) -> String {
        let end = std::time::Instant::now() + Duration::from_secs(90);
        loop {
            let said = self.said();
            // A line that is written in full.
            if let Some((word, _)) =
                said.split_once(text).and_then(|(_, rest)| rest.split_once([';', ' ', '\n']))
            {
                return word.to_owned();
            }
            assert!(
                self.child.try_wait().unwrap().is_none() && std::time::Instant::now() < end,
                "it does not say {text}: {said}"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn interrupt(mut self) -> Output {
        let sent = Command::new("sh")
            .args(["-c", &format!("kill -INT {}", self.child.id())])
            .status()
            .unwrap();
        assert!(sent.success());
        let end = std::time::Instant::now() + Duration::from_mins(1);
        while self.child.try_wait().unwrap().is_none() {
            assert!(std::time::Instant::now() < end, "Ctrl-C does not end it");
            std::thread::sleep(Duration::from_millis(20));
        }
        let mut stdout = Vec::new();
        self.child.stdout.take().unwrap().read_to_end(&mut stdout).unwrap();
        Output { status: self.child.wait().unwrap(), stdout, stderr: self.said().into_bytes() }
    }
}

/// Asks a server on loopback.
fn ask(address: &str, request: &str) -> String {
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_mins(1))).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn both_servers_can_be_looked_into_and_ctrl_c_ends_them_with_the_summary_alone_on_standard_output()
{
    let mut running = Running::start("serve", &["--serve", "-o", "json"]);
    let kubeconfig = running.says("KUBECONFIG=");
    let aws = running.says("AWS_ENDPOINT_URL=");
    let config: Value =
        serde_json::from_str(&std::fs::read_to_string(&kubeconfig).unwrap()).unwrap();
    let kube = config["clusters"][0]["cluster"]["server"]
        .as_str()
        .unwrap()
        .strip_prefix("http://")
        .unwrap()
        .to_owned();
    let nodes = ask(&kube, "GET /api/v1/nodes HTTP/1.1\r\nhost: kube\r\nconnection: close\r\n\r\n");
    assert!(
        nodes.starts_with("HTTP/1.1 200")
            && nodes.contains("NodeList")
            && nodes.contains("providerID"),
        "{nodes}"
    );
    let aws = aws.strip_prefix("http://").unwrap().trim_end_matches('/');
    let body = "Action=DescribeAutoScalingGroups&Version=2011-01-01";
    let head = "POST / HTTP/1.1\r\nhost: aws\r\nconnection: close\r\ncontent-type: \
        application/x-www-form-urlencoded";
    let authorization = "AWS4-HMAC-SHA256 \
        Credential=x/20260101/eu-west-1/autoscaling/aws4_request, SignedHeaders=host, Signature=x";
    let groups = ask(
        aws,
        &format!(
            "{head}\r\nauthorization: {authorization}\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        ),
    );
    assert!(groups.starts_with("HTTP/1.1 200") && groups.contains("general"), "{groups}");
    let output = running.interrupt();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{said}");
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(summary["atRest"], false, "nobody waited for that");
    assert!(said.contains("Metrics of the service: curl http://127.0.0.1:"), "{said}");
    assert!(!std::path::Path::new(&kubeconfig).exists(), "nobody listens there any more");
}

#[test]
fn in_real_time_pods_are_there_and_ready_and_a_short_scenario_takes_as_long_as_it_says() {
    let text = "{ name: n, groups: [{ name: g, nodes: 3, hook: { name: h, heartbeatTimeout: 5m } \
        }], workloads: [{ kind: Deployment, namespace: a, name: slow-to-start, replicas: 3, ready: \
        5m, stop: 1s, budget: { minAvailable: 1 } }], events: [{ at: 1s, scaleIn: { group: g, \
        count: 1 } }], until: 80s }";
    let file = scenario("real", text);
    let begun = std::time::Instant::now();
    let output =
        simulate(&["--scenario", file.to_str().unwrap(), "--real-time", "-o", "json"], &[]);
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    // Pods that take five minutes to be ready could not go before: their budget would not let them.
    let node = &summary["nodes"][0];
    assert_eq!((&node["ended"], &node["refusals"]), (&"empty".into(), &0.into()), "{summary:#}");
    assert_eq!(summary["hooks"][0]["ended"], "Completed(Continue)");
    let (seconds, took) = (summary["seconds"].as_f64().unwrap(), begun.elapsed().as_secs_f64());
    assert!(took >= seconds, "{took} s for {seconds}");
}

#[test]
fn ctrl_c_ends_a_simulation_in_real_time_before_it_has_begun() {
    let mut running = Running::start("early", &["--serve"]);
    running.says("KUBECONFIG=");
    let output = running.interrupt();
    assert_eq!(output.status.code(), Some(0));
    assert!(
        String::from_utf8_lossy(&output.stdout).contains("ended by hand"),
        "{}",
        String::from_utf8_lossy(&output.stdout)
    );
}

#[test]
fn a_scenario_that_makes_no_sense_is_refused_with_the_reason() {
    let event = "{ at: 1s, spot: { group: g, count: 1 } }";
    let flags = |flags: &str| {
        format!(
            "{{ name: n, groups: [{{ name: g, nodes: 2 }}], events: [{event}], flags: {flags} }}"
        )
    };
    let cases = [
        ("yaml", "groups: [".to_owned(), "is no valid YAML, line 1"),
        (
            "field",
            "{ name: n, groups: [], events: [], colour: blue }".to_owned(),
            "there is no field colour",
        ),
        (
            "nodes",
            format!("{{ name: n, groups: [{{ name: g, nodes: 99999999 }}], events: [{event}] }}"),
            "groups[0].nodes is 99999999: use a number",
        ),
        (
            "events",
            "{ name: n, groups: [{ name: g, nodes: 2 }], events: [] }".to_owned(),
            "events has 0 entries",
        ),
        ("flags", flags("[--no-such-flag]"), "flags: unexpected argument '--no-such-flag'"),
        ("value", flags("[--max-pollers=99]"), "flags: --max-pollers"),
        ("print", flags("[--print-config]"), "flags: --print-config has no effect in a simulation"),
        ("logs", flags("[--log-level, debug]"), "flags: --log-level has no effect in a simulation"),
        (
            "metrics",
            flags("[\"--metrics-listen=127.0.0.1:9\"]"),
            "flags: --metrics-listen has no effect in a simulation",
        ),
        ("help", flags("[--help]"), "flags: --help has no effect in a simulation"),
        (
            "dead letters",
            flags("[\"--dlq-url=https://sqs.eu-west-1.amazonaws.com/1/d\"]"),
            "flags: --dlq-url has no effect in a simulation",
        ),
        ("pod", flags("[--pod-name=sundown-0]"), "flags: --pod-name has no effect in a simulation"),
        (
            "lease",
            flags("[--lease-namespace=nowhere]"),
            "flags: --lease-namespace has no effect in a simulation",
        ),
        ("again", flags("[--cluster-name=x]"), "flags: --cluster-name is given by the simulation"),
    ];
    for (name, text, why) in cases {
        let file = scenario(name, &text);
        let output = simulate(&["--scenario", file.to_str().unwrap()], &[]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{name}: {said}");
        assert!(said.starts_with("sundown: ") && said.contains(why), "{name}: {said}");
        assert!(output.stdout.is_empty() && !said.contains("Usage"), "{name}: {said}");
    }
    let output = simulate(&["--scenario", "/nowhere/at-all.yaml"], &[]);
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(
        said,
        "sundown: cannot read the scenario /nowhere/at-all.yaml: No such file or directory (os \
         error 2)\n",
        "the cause once"
    );
}

#[test]
fn a_scenario_follows_rules_about_pods_and_may_wait_for_no_volumes() {
    let rules = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("rules-of-a-scenario.yaml");
    std::fs::write(&rules, "rules: [{ match: { namespaces: [shop] }, behavior: Skip }]").unwrap();
    let with_rules = format!("--rules-file={}", rules.display());
    for (flag, is_skipped) in [(with_rules.as_str(), true), ("--wait-for-volumes=never", false)] {
        let yaml = format!(
            "{{ name: n, flags: ['{flag}'], groups: [{{ name: g, nodes: 2, hook: {{ name: h, \
             heartbeatTimeout: 5m }} }}], workloads: [{{ kind: Deployment, namespace: shop, name: \
             web, replicas: 1 }}], events: [{{ at: 5s, scaleIn: {{ group: g, count: 1, running: \
             shop/web }} }}] }}"
        );
        let file = scenario("flags", &yaml);
        let summary = json(&["-o", "json", "--scenario", file.to_str().unwrap()]);
        assert_eq!(summary["atRest"], true, "{flag}: {summary:#}");
        let node = &summary["nodes"][0];
        assert_eq!(node["completedWith"], serde_json::json!(["CONTINUE"]), "{flag}: {node:#}");
        let evictions = node["evictions"].as_u64().unwrap();
        assert_eq!(evictions == 0, is_skipped, "{flag}: {node:#}");
    }
}

#[test]
fn output_that_cannot_be_written_is_an_error_and_a_closed_pipe_is_none() {
    let file = scenario(
        "full",
        "{ name: n, groups: [{ name: g, nodes: 2, spot: true }], events: [{ at: 5s, spot: { \
         group: g, count: 1 } }] }",
    );
    for output in ["text", "json"] {
        let simulate = || {
            let mut command = Command::new(env!("CARGO_BIN_EXE_sundown"));
            command
                .args(["simulate", "-o", output, "--scenario", file.to_str().unwrap()])
                .stderr(std::process::Stdio::piped());
            command
        };
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let said = simulate().stdout(full).output().unwrap();
        let errors = String::from_utf8_lossy(&said.stderr);
        assert!(
            said.status.code() == Some(1) && errors.contains("No space left on device"),
            "{output}: {errors}"
        );
        let mut child = simulate().stdout(std::process::Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        assert_eq!(child.wait().unwrap().code(), Some(0), "{output}");
    }
}

#[test]
fn flags_that_contradict_each_other_or_are_out_of_range_are_refused() {
    for flags in [
        &["--real-time", "--speed", "3"][..],
        &["--speed", "0"],
        &["--speed", "fast"],
        &["--seed", "-1"],
        &["-o", "xml"],
        &["--log-level", "inof"],
    ] {
        assert_eq!(simulate(flags, &[]).status.code(), Some(2), "{flags:?}");
    }
    let said = String::from_utf8(simulate(&["--log-level", "inof"], &[]).stderr).unwrap();
    assert!(said.contains("--log-level") && said.contains("`inof` is not a level"), "{said}");
}

#[test]
fn a_service_of_ones_own_needs_servers_that_listen() {
    for flags in [&["--no-service"][..], &["--serve", "--no-service", "--log-level", "info"]] {
        let output = simulate(flags, &[]);
        assert_eq!(output.status.code(), Some(2), "{flags:?}");
    }
}

/// What `sundown simulate` prints on a terminal of 80 columns and 24 rows; `None`: there is no
/// `script` (util-linux) to make one.
fn on_a_terminal(arguments: &str, environment: &[(&str, &str)]) -> Option<String> {
    let line =
        format!("stty cols 80 rows 24; {} simulate {arguments}", env!("CARGO_BIN_EXE_sundown"));
    let mut command = Command::new("script");
    command
        .args(["-qec", &line, "/dev/null"])
        .env_remove("NO_COLOR")
        .env("TERM", "xterm")
        .envs(environment.iter().copied());
    let output = command.stdin(std::process::Stdio::null()).output().ok()?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).unwrap().replace('\r', ""))
}

/// Lines that a terminal shows, without colors and other control sequences.
fn without_sequences(text: &str) -> Vec<String> {
    let mut parts = text.split('\u{1b}');
    let first = parts.next().unwrap_or_default().to_owned();
    let rest = parts.map(|part| {
        part.split_once(|c: char| c.is_ascii_alphabetic()).map_or("", |(_, text)| text)
    });
    rest.fold(first, |all, part| all + part).lines().map(str::to_owned).collect()
}

#[test]
fn a_terminal_shows_the_timeline_of_a_pipe_in_color_and_cut_to_its_width() {
    let Some(shown) = on_a_terminal("--speed max", &[]) else {
        skip::skip("there is no `script` (util-linux)");
        return;
    };
    let lines = without_sequences(&shown);
    let piped = String::from_utf8(simulate(&[], &[]).stdout).unwrap();
    let mut below = lines.iter();
    for line in piped
        .lines()
        .take_while(|line| !line.contains("simulated time"))
        .filter(|line| !line.is_empty())
    {
        let cut: String = line.chars().take(79).collect();
        assert!(
            below.any(|shown| shown.starts_with(&cut)),
            "missing on the terminal, or too late: {line}\n{lines:#?}"
        );
    }
    let longest = lines
        .iter()
        .filter(|line| !line.contains("Forced by") && !line.contains("Pods left"))
        .map(|line| line.chars().count())
        .max();
    assert_eq!(longest, Some(80), "{lines:#?}");
    assert!(
        lines.iter().any(|line| line.chars().count() == 80 && line.ends_with('…')),
        "{lines:#?}"
    );
    assert!(shown.contains("\u{1b}[31m") && shown.contains("\u{1b}[32m"), "colors");
    assert!(
        lines.iter().any(|line| line.contains(" 0 draining, 9 done, speed max; Ctrl-C: stop")),
        "{lines:#?}"
    );
    let plain = on_a_terminal("--speed max", &[("NO_COLOR", "1")]).unwrap();
    assert!(plain.contains("\u{1b}[J"), "drawn in place");
    assert!(
        ["1", "2", "31", "32", "33"]
            .iter()
            .all(|color| !plain.contains(&format!("\u{1b}[{color}m"))),
        "without colors"
    );
    let dumb = on_a_terminal("--speed max", &[("TERM", "dumb")]).unwrap();
    assert!(!dumb.contains('\u{1b}'), "{dumb}");
}

/// `sundown simulate` on a terminal of 80 columns and 24 rows, with somebody at its keyboard.
/// Dropped, it ends.
struct Terminal {
    script: std::process::Child,
    shown: Arc<Mutex<Vec<u8>>>,
    reader: Option<std::thread::JoinHandle<()>>,
}

impl Terminal {
    /// Plays a scenario. The terminal shows its settings (`stty -g`) before and afterwards. `None`:
    /// there is no `script` (util-linux) to make one.
    fn play(name: &str, text: &str) -> Option<Self> {
        let file = scenario(name, text);
        // Without the trap, the Ctrl-C that ends the simulation ends the shell too.
        let line = format!(
            "stty cols 80 rows 24 echo; trap : INT; stty -g; '{}' simulate --scenario '{}'; \
             status=$?; stty -g; exit $status",
            env!("CARGO_BIN_EXE_sundown"),
            file.display()
        );
        let mut command = Command::new("script");
        command.args(["-qec", &line, "/dev/null"]).env_remove("NO_COLOR");
        command.envs([("TERM", "xterm"), ("SHELL", "/bin/sh")]);
        command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        let mut script = command.spawn().ok()?;
        let (mut output, shown) = (script.stdout.take().unwrap(), Arc::default());
        let all: Arc<Mutex<Vec<u8>>> = Arc::clone(&shown);
        let read = move || {
            let mut some = [0; 4096];
            while let Ok(n @ 1..) = output.read(&mut some) {
                all.lock().unwrap().extend_from_slice(&some[..n]);
            }
        };
        Some(Self { script, shown, reader: Some(std::thread::spawn(read)) })
    }

    fn shown(&self) -> String {
        String::from_utf8_lossy(&self.shown.lock().unwrap()).into_owned()
    }

    /// Waits until a line with all of these words is shown.
    fn shows(&mut self, words: &[&str]) {
        let end = std::time::Instant::now() + Duration::from_mins(1);
        let is_shown =
            |text: &str| text.lines().any(|line| words.iter().all(|word| line.contains(word)));
        while !is_shown(&self.shown()) {
            assert!(
                self.script.try_wait().unwrap().is_none() && std::time::Instant::now() < end,
                "no line with {words:?}:\n{}",
                self.shown()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Presses a key and waits for the end. Returns the exit code and what the terminal has shown.
    fn ends_after(mut self, key: u8, limit: Duration) -> (Option<i32>, String) {
        let pressed = std::time::Instant::now();
        self.script.stdin.as_mut().unwrap().write_all(&[key]).unwrap();
        loop {
            if let Some(status) = self.script.try_wait().unwrap() {
                self.reader.take().unwrap().join().unwrap();
                return (status.code(), self.shown());
            }
            assert!(pressed.elapsed() < limit, "it goes on after {limit:?}:\n{}", self.shown());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        drop(self.script.kill());
        drop(self.script.wait());
    }
}

#[test]
fn a_terminal_shows_the_default_speed_and_enter_goes_to_the_end() {
    // At the default speed the event comes after three minutes. To go to the end takes seconds.
    let text = "{ name: n, groups: [{ name: g, nodes: 2, spot: true }], events: [{ at: 90m, spot: \
        { group: g, count: 1 } }], until: 2h }";
    let Some(mut terminal) = Terminal::play("enter", text) else {
        skip::skip("there is no `script` (util-linux)");
        return;
    };
    terminal.shows(&["speed 30", "Enter"]);
    let (code, shown) = terminal.ends_after(b'\r', Duration::from_mins(1));
    assert_eq!(code, Some(0), "{shown}");
    let lines = without_sequences(&shown);
    for words in [" 1:30:00  EC2 reclaims", "cordoned  spot", "simulated time"] {
        assert!(lines.iter().any(|line| line.contains(words)), "no {words}: {lines:#?}");
    }
    // Until the event the block is one row. Enter has moved the cursor down by another.
    let before = shown.split("EC2 reclaims").next().unwrap();
    assert!(before.contains("\u{1b}[2A"), "the row of Enter is not drawn over: {before}");
}

#[test]
fn ctrl_c_on_a_terminal_ends_a_simulation_at_once_and_leaves_the_terminal_as_it_was() {
    // The drain takes 20 minutes, 40 seconds at the default speed.
    let text = "{ name: n, groups: [{ name: g, nodes: 2, hook: { name: h, heartbeatTimeout: 5m } \
        }], workloads: [{ kind: Deployment, namespace: shop, name: one, replicas: 1, budget: { \
        minAvailable: 1 } }], events: [{ at: 1s, scaleIn: { group: g, count: 1, running: shop/one \
        } }] }";
    let Some(mut terminal) = Terminal::play("ctrl-c", text) else {
        skip::skip("there is no `script` (util-linux)");
        return;
    };
    terminal.shows(&["1 draining", "Ctrl-C"]);
    let (code, shown) = terminal.ends_after(b'\x03', Duration::from_secs(5));
    assert_eq!(code, Some(0), "as docs/commands.md says: {shown}");
    assert!(shown.contains("ended by hand"), "{shown}");

    let after_the_block = shown.rsplit("\u{1b}[J").next().unwrap();
    assert!(!after_the_block.contains("Ctrl-C"), "the block stays: {shown}");
    for (what, begin, end) in [
        ("the cursor is hidden", "\u{1b}[?25l", "\u{1b}[?25h"),
        ("lines are not wrapped", "\u{1b}[?7l", "\u{1b}[?7h"),
        ("the other screen is shown", "\u{1b}[?1049h", "\u{1b}[?1049l"),
    ] {
        assert!(shown.rfind(begin) <= shown.rfind(end), "{what}: {shown}");
    }
    let last_color = shown
        .rsplit("\u{1b}[")
        .filter_map(|part| part.split_once('m').map(|(color, _)| color))
        .find(|color| color.bytes().all(|b| b.is_ascii_digit() || b == b';'));
    assert_eq!(last_color, Some("0"), "a color stays: {shown}");
    let settings: Vec<_> = shown.lines().collect();
    assert!(settings[0].contains(':'), "{shown}");
    assert_eq!(settings.first(), settings.last(), "the settings of the terminal: {shown}");
}

#[test]
fn ctrl_c_ends_a_simulation_at_once_whatever_its_speed() {
    for (name, speed) in [("slow", "1"), ("medium", "30")] {
        let mut running = Running::start(name, &["--speed", speed, "--log-level", "info"]);
        running.says("This process leads");
        let begun = std::time::Instant::now();
        let output = running.interrupt();
        assert!(begun.elapsed() < Duration::from_secs(10), "{speed}: {:?}", begun.elapsed());
        assert_eq!(output.status.code(), Some(0), "{speed}");
        assert!(
            String::from_utf8_lossy(&output.stdout)
                .contains("Not everything came to rest before it was ended by hand"),
            "{speed}"
        );
    }
}

#[test]
fn a_block_that_is_not_over_counts_and_pods_that_are_left_are_named() {
    let text = "{ name: n, groups: [{ name: g, nodes: 2, hook: { name: h, heartbeatTimeout: 5m } \
        }], workloads: [{ kind: Deployment, namespace: shop, name: one, replicas: 1, budget: { \
        minAvailable: 1 } }], events: [{ at: 1s, scaleIn: { group: g, count: 1, running: shop/one \
        } }], until: 5m }";
    let file = scenario("left", text);
    let output = simulate(&["--scenario", file.to_str().unwrap(), "-o", "json"], &[]);
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    let node = &summary["nodes"][0];
    assert_eq!(node["ended"], "draining", "{summary:#}");
    let pod = node["podsLeft"][0].as_str().unwrap();
    assert!(
        pod.starts_with("shop/one-") && node["podsLeft"].as_array().unwrap().len() == 1,
        "{summary:#}"
    );
    assert_eq!(
        (&node["blocked"][0]["pod"], &node["blocked"][0]["reason"]),
        (&pod.into(), &"pdb".into()),
        "{summary:#}"
    );
    assert!(node["blocked"][0]["seconds"].as_u64().unwrap() > 280, "{summary:#}");
    let output = simulate(&["--scenario", file.to_str().unwrap()], &[]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains(&format!("Pods left: {pod} (ip-")) && text.contains("by pdb"), "{text}");
}

#[test]
fn a_sick_node_that_nobody_replaces_is_drained_and_then_all_is_at_rest() {
    let text = include_str!("../docs/scenarios/impaired.yaml");
    let without_then = text.replace(", --then=impaired=unhealthy", "");
    assert_ne!(without_then, text);
    let file = scenario("impaired-without-then", &without_then);
    let summary = json(&["-o", "json", "--scenario", file.to_str().unwrap()]);
    assert_eq!(summary["atRest"], true, "{summary}");
    let nodes = summary["nodes"].as_array().unwrap();
    assert_eq!(nodes.len(), 1, "{summary}");
    assert_eq!(nodes[0]["kind"], "impaired");
    assert!(nodes[0]["drainedAfterMs"].is_u64(), "{summary}");
}

#[test]
fn what_does_not_come_to_rest_in_time_is_no_success() {
    let text = "{ name: n, groups: [{ name: g, nodes: 2, hook: { name: h, heartbeatTimeout: 5m } \
        }], workloads: [{ kind: Deployment, namespace: a, name: one, replicas: 2, budget: { \
        minAvailable: 2 } }], events: [{ at: 1s, scaleIn: { group: g, count: 1 } }], until: 2m }";
    let file = scenario("short", text);
    let output = simulate(&["--scenario", file.to_str().unwrap()], &[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stdout).contains("Not everything came to rest"));
}

fn scenario(name: &str, text: &str) -> std::path::PathBuf {
    let path =
        std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("scenario-{name}.yaml"));
    std::fs::write(&path, text).unwrap();
    path
}

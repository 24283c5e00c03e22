//! Checks the flags of `sundown run` that a scenario gives to the service.

use clap::{Args as _, Command};

use super::scenario::ScenarioError;
use crate::config::RunArgs;

/// Flags that change what the service does in a simulation. `docs/scenarios.md` has the same list.
const ALLOWED: [&str; 47] = [
    "--accept-real-tests",
    "--compat",
    "--complete-delay",
    "--deadline-margin",
    "--delete-node",
    "--disruption-target",
    "--drain-conditions",
    "--drain-daemonset",
    "--drain-timeout",
    "--dry-run",
    "--evict-after",
    "--exclude-from-load-balancers",
    "--force-after",
    "--honor",
    "--impaired-after",
    "--join-timeout",
    "--launch-daemonset",
    "--launch-on-timeout",
    "--launch-startup-taint",
    "--launch-timeout",
    "--lifecycle-hook",
    "--maintenance-condition",
    "--managed-tag",
    "--max-drain-timeout",
    "--max-drains-per-group",
    "--max-evictions",
    "--max-evictions-per-budget",
    "--max-held",
    "--max-impaired",
    "--max-pollers",
    "--max-voluntary",
    "--min-drain-time",
    "--node-selector",
    "--on",
    "--out-of-service-taint",
    "--pod-events",
    "--pod-order",
    "--rebalance-ttl",
    "--rules-file",
    "--scheduled-event-interval",
    "--scheduled-lead",
    "--scheduled-window",
    "--shared-queue",
    "--spot-deadline-margin",
    "--sweep-interval",
    "--then",
    "--wait-for-volumes",
];
/// Flags that the simulation sets itself.
const GIVEN: [&str; 2] = ["--queue-url", "--cluster-name"];
/// Flags of every command.
const OF_COMMANDS: [&str; 4] = ["--help", "-h", "--version", "-V"];

/// Refuses flags that the simulation sets itself, and flags without effect in it. Anything that is
/// not a flag is refused by `RunArgs`.
pub(super) fn check(flags: &[String]) -> Result<(), ScenarioError> {
    let known = of_run();
    for flag in flags {
        let name = flag.split('=').next().unwrap_or_default();
        if GIVEN.contains(&name) {
            return Err(ScenarioError::Flags(format!(
                "{name} is given by the simulation: remove it"
            )));
        }
        let is_known = OF_COMMANDS.contains(&name) || known.iter().any(|flag| flag == name);
        if is_known && !ALLOWED.contains(&name) {
            return Err(ScenarioError::Flags(format!(
                "{name} has no effect in a simulation: remove it"
            )));
        }
    }
    Ok(())
}

/// The flags of `sundown run`.
fn of_run() -> Vec<String> {
    let command = RunArgs::augment_args(Command::new("run"));
    command.get_arguments().filter_map(|arg| Some(format!("--{}", arg.get_long()?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(flag: &str) -> Option<String> {
        check(&[flag.to_owned()]).err().map(|error| error.to_string())
    }

    #[test]
    fn flags_without_effect_in_a_simulation_are_refused_by_name() {
        for flag in [
            "--dlq-url=https://sqs.eu-west-1.amazonaws.com/1/dead",
            "--help",
            "-h",
            "--version",
            "--pod-name=sundown-0",
            "--pod-namespace",
            "--lease-namespace=nowhere",
            "--lease-duration=15s",
            "--node-name=n",
            "--print-config",
            "--log-level",
            "--metrics-listen=127.0.0.1:9",
            "--webhook-url=http://127.0.0.1:9",
            "--region",
        ] {
            let name = flag.split('=').next().unwrap_or_default();
            let error = refusal(flag).unwrap_or_else(|| panic!("{flag} is accepted"));
            assert!(
                error.contains(&format!("flags: {name} has no effect in a simulation")),
                "{error}"
            );
        }
        for flag in
            ["--drain-timeout=20m", "--force-after", "never", "--shared-queue", "--no-such-flag"]
        {
            assert_eq!(refusal(flag), None, "{flag}");
        }
        assert!(
            refusal("--queue-url=x").is_some_and(|error| error.contains("given by the simulation"))
        );
    }

    #[test]
    fn the_page_lists_the_allowed_flags_and_each_exists() {
        let page =
            std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/scenarios.md"))
                .unwrap();
        let row = page.lines().find(|line| line.starts_with("| `flags` |")).unwrap();
        for flag in ALLOWED {
            assert!(of_run().contains(&flag.to_owned()), "{flag}");
            assert!(row.contains(&format!("`{flag}`")), "{flag} is not in {row}");
        }
    }
}

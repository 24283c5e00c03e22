//! Flags whose values differ from the default, but have no effect because of other flags.

use super::{Config, RunArgs};
use crate::domain::{ForceAfter, HookResult, Kind, Response};

/// A flag without effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WithoutEffect {
    /// The flag, with its dashes.
    pub flag: &'static str,
    /// Why it has no effect, and how to give it one.
    pub why: String,
}

/// The flags of this configuration that have no effect. They are no error: Sundown logs a warning
/// for each and runs.
#[must_use]
pub fn without_effect(config: &Config) -> Vec<WithoutEffect> {
    // The default configuration. Without a queue URL, only `--print-config` is valid.
    let default =
        RunArgs::from_flags(["--print-config"]).ok().and_then(|a| a.config(&|_| None).ok());
    let Some(default) = default else { return Vec::new() };
    let (drain, default_drain) = (&config.drain, &default.drain);
    let (launch, default_launch) = (&config.launch, &default.launch);
    let response = |kind| drain.responses.of(kind);
    let is_ignored = |kind| response(kind) == Response::Ignore;
    let drains_nothing = Kind::ALL.into_iter().all(|kind| {
        matches!(kind, Kind::LaunchHook | Kind::LaunchSuccessful) || !response(kind).evicts()
    });
    let needs_response = |kind: Kind, needed: &str| {
        let (kind, now) = (kind.as_str(), response(kind).as_str());
        format!("the response to {kind} is `{now}`; set --on {kind}={needed}, or remove the flag")
    };
    let no_launches =
        || "launch hooks are ignored; remove --on launch-hook=ignore or this flag".to_owned();
    let (handles_launches, handles_changes) =
        (!is_ignored(Kind::LaunchHook), !is_ignored(Kind::ScheduledChange));
    let given_kinds = drain.evict_after.given().map(|given| given.kind);
    let evict_after: Vec<_> = given_kinds
        .filter(|kind| !response(*kind).evicts())
        .map(|kind| WithoutEffect { flag: "--evict-after", why: needs_response(kind, "drain") })
        .collect();
    // The drain for something else may fail while the hook waits.
    let no_drain_beside_a_hook = [
        Kind::TerminateHook,
        Kind::Rebalance,
        Kind::ScheduledChange,
        Kind::Impaired,
        Kind::RootVolume,
    ]
    .into_iter()
    .all(|kind| !response(kind).evicts());
    let only_drained = || {
        "it applies only to drained nodes, and --on drains no kind; set --on KIND=drain for one, or \
         remove the flag"
            .to_owned()
    };
    let only_waiting = || {
        "it applies only to terminate hooks, scheduled changes, recommendations and sick instances, \
         and --on drains none of these kinds; set --on KIND=drain for one, or remove the flag"
            .to_owned()
    };
    let change = || needs_response(Kind::ScheduledChange, "drain");
    let table: [(&'static str, bool, &dyn Fn() -> String); 18] = [
        (
            "--hook-result-on-failure",
            drain.hook_result_on_failure != HookResult::Continue
                && (is_ignored(Kind::TerminateHook) || no_drain_beside_a_hook),
            &|| needs_response(Kind::TerminateHook, "drain"),
        ),
        (
            "--rebalance-ttl",
            drain.rebalance_ttl != default_drain.rebalance_ttl && is_ignored(Kind::Rebalance),
            &|| needs_response(Kind::Rebalance, "prefer"),
        ),
        (
            "--scheduled-lead",
            drain.changes.lead != default_drain.changes.lead && !handles_changes,
            &change,
        ),
        (
            "--scheduled-window",
            drain.changes.window != default_drain.changes.window && !handles_changes,
            &change,
        ),
        ("--maintenance-condition", drain.maintenance_condition && !handles_changes, &change),
        (
            "--launch-timeout",
            launch.timeout != default_launch.timeout && !handles_launches,
            &no_launches,
        ),
        (
            "--launch-on-timeout",
            launch.on_timeout != default_launch.on_timeout && !handles_launches,
            &no_launches,
        ),
        ("--launch-daemonset", !launch.daemon_sets.is_empty() && !handles_launches, &no_launches),
        (
            "--launch-startup-taint",
            !launch.startup_taints.is_empty() && !handles_launches,
            &no_launches,
        ),
        (
            "--disruption-target",
            drain.disruption_target
                && matches!(drain.force_after, ForceAfter::Never)
                // A rule may set another time.
                && drain.rules_file.is_none(),
            &|| {
                "--force-after is `never`, so Sundown never deletes a pod whose eviction was refused; \
                 set another --force-after, or remove the flag".to_owned()
            },
        ),
        (
            "--drain-daemonset",
            !drain.drained_daemon_sets.is_empty() && drains_nothing,
            &only_drained,
        ),
        ("--rules-file", drain.rules_file.is_some() && drains_nothing, &only_drained),
        ("--honor", !drain.honored.is_empty() && drains_nothing, &only_drained),
        (
            "--max-drains-per-group",
            drain.pace.per_group.is_some() && no_drain_beside_a_hook,
            &only_waiting,
        ),
        ("--max-voluntary", drain.pace.in_all.is_some() && no_drain_beside_a_hook, &only_waiting),
        ("--drain-conditions", drain.drain_conditions && drains_nothing, &only_drained),
        ("--out-of-service-taint", drain.gone_nodes.taint && drains_nothing, &only_drained),
        ("--delete-node", drain.gone_nodes.delete && drains_nothing, &only_drained),
    ];
    let others = table
        .into_iter()
        .filter(|(_, is_without_effect, _)| *is_without_effect)
        .map(|(flag, _, why)| WithoutEffect { flag, why: why() });
    evict_after.into_iter().chain(others).collect()
}

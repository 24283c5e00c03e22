//! Flags whose values differ from the default, but have no effect because of other flags.

use super::{Config, RunArgs};
use crate::domain::{ForceAfter, HookResult, Kind, Response};

/// A flag without effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WithoutEffect {
    /// The flag, with its dashes.
    pub flag: &'static str,
    /// What makes it so, and what would give it an effect.
    pub why: String,
}

/// The flags of this configuration that have no effect: a person who sets them expects something
/// that does not happen. Sundown runs all the same.
#[must_use]
pub fn without_effect(config: &Config) -> Vec<WithoutEffect> {
    // Without a queue, only `--print-config` is valid.
    let default =
        RunArgs::from_flags(["--print-config"]).ok().and_then(|a| a.config(&|_| None).ok());
    let Some(default) = default else { return Vec::new() };
    let (drain, usual) = (&config.drain, &default.drain);
    let (launch, usual_launch) = (&config.launch, &default.launch);
    let response = |kind| drain.responses.of(kind);
    let is_ignored = |kind| response(kind) == Response::Ignore;
    let drains_nothing = Kind::ALL.into_iter().all(|kind| {
        matches!(kind, Kind::LaunchHook | Kind::LaunchSuccessful) || !response(kind).evicts()
    });
    let instead = |kind: Kind, needed: &str| {
        let (kind, now) = (kind.as_str(), response(kind).as_str());
        format!("the response to {kind} is `{now}`; set --on {kind}={needed}, or remove the flag")
    };
    let no_launches =
        || "launch hooks are ignored; remove --on launch-hook=ignore or this flag".to_owned();
    let (launches, changes) = (!is_ignored(Kind::LaunchHook), !is_ignored(Kind::ScheduledChange));
    let given_kinds = drain.evict_after.given().map(|given| given.kind);
    let no_start: Vec<_> = given_kinds
        .filter(|kind| !response(*kind).evicts())
        .map(|kind| WithoutEffect { flag: "--evict-after", why: instead(kind, "drain") })
        .collect();
    let only_drained = || {
        "it applies only to drained nodes, and --on drains no kind; set --on KIND=drain for one, or \
         remove the flag"
            .to_owned()
    };
    let change = || instead(Kind::ScheduledChange, "drain");
    let table: [(&'static str, bool, &dyn Fn() -> String); 12] = [
        (
            "--hook-result-on-failure",
            drain.hook_result_on_failure != HookResult::Continue
                && !response(Kind::TerminateHook).evicts(),
            &|| instead(Kind::TerminateHook, "drain"),
        ),
        (
            "--rebalance-ttl",
            drain.rebalance_ttl != usual.rebalance_ttl && is_ignored(Kind::Rebalance),
            &|| instead(Kind::Rebalance, "prefer"),
        ),
        ("--scheduled-lead", drain.changes.lead != usual.changes.lead && !changes, &change),
        ("--scheduled-window", drain.changes.window != usual.changes.window && !changes, &change),
        ("--maintenance-condition", drain.maintenance_condition && !changes, &change),
        ("--launch-timeout", launch.timeout != usual_launch.timeout && !launches, &no_launches),
        (
            "--launch-on-timeout",
            launch.on_timeout != usual_launch.on_timeout && !launches,
            &no_launches,
        ),
        ("--launch-daemonset", !launch.daemon_sets.is_empty() && !launches, &no_launches),
        ("--launch-startup-taint", !launch.startup_taints.is_empty() && !launches, &no_launches),
        (
            "--disruption-target",
            drain.disruption_target && matches!(drain.force_after, ForceAfter::Never),
            &|| {
                "--force-after is `never`, so Sundown never deletes a pod whose eviction was refused; \
                 set another --force-after, or remove the flag".to_owned()
            },
        ),
        ("--out-of-service-taint", drain.gone_nodes.taint && drains_nothing, &only_drained),
        ("--delete-node", drain.gone_nodes.delete && drains_nothing, &only_drained),
    ];
    let of_table = table
        .into_iter()
        .filter(|(_, has_none, _)| *has_none)
        .map(|(flag, _, why)| WithoutEffect { flag, why: why() });
    no_start.into_iter().chain(of_table).collect()
}

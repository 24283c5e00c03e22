//! The flags of drains.

use std::{collections::BTreeSet, time::Duration};

use super::{at_most_16, within};
use crate::{
    config::{
        DrainConfig, ImpairedConfig, args::DrainArgs, error::ConfigError, values::duration_text,
    },
    domain::{
        ChangeSchedule, EvictAfterByKind, GoneNodes, Kind, PaceLimits, Response, Responses, seconds,
    },
};

/// What Sundown does about sick instances. `None`: it ignores them.
fn impaired(a: &DrainArgs, responses: &Responses) -> Result<Option<ImpairedConfig>, ConfigError> {
    if !(seconds(120)..=seconds(24 * 3600)).contains(&a.impaired_after) {
        let remedy = "out of range; use 2m to 24h (a reboot takes minutes)";
        return Err(ConfigError::duration("impaired-after", a.impaired_after, remedy));
    }
    let max_an_hour = within("max-impaired", a.max_impaired, 1, 100)?;
    let response = responses.of(Kind::Impaired);
    if let Some(then) = a.then.filter(|_| !response.evicts()) {
        let remedy = "only a drained node is reported as unhealthy; set --on impaired=drain, too";
        return Err(ConfigError::new("then", Some(&then.to_string()), remedy));
    }
    Ok((response != Response::Ignore).then_some(ImpairedConfig {
        after: a.impaired_after,
        max_an_hour,
        then_unhealthy: a.then.is_some(),
    }))
}

pub(in crate::config) fn drain(a: &DrainArgs) -> Result<DrainConfig, ConfigError> {
    if let Some(timeout) = a.drain_timeout {
        if timeout < seconds(30) || timeout > seconds(48 * 3600) {
            return Err(ConfigError::duration(
                "drain-timeout",
                timeout,
                "out of range; use 30s to 48h (AWS keeps no lifecycle action longer)",
            ));
        }
        if a.deadline_margin >= timeout {
            let remedy = format!(
                "not below --drain-timeout {}; leave time for the drain",
                duration_text(timeout)
            );
            return Err(ConfigError::duration("deadline-margin", a.deadline_margin, remedy));
        }
    }
    if let Some(most) = a.max_drain_timeout {
        let least = a.drain_timeout.unwrap_or(seconds(30)).max(seconds(30));
        if most < least || most > seconds(48 * 3600) {
            let remedy = format!("out of range; use {} to 48h", duration_text(least));
            return Err(ConfigError::duration("max-drain-timeout", most, remedy));
        }
    }
    if a.deadline_margin > seconds(300) {
        return Err(ConfigError::duration(
            "deadline-margin",
            a.deadline_margin,
            "that wastes the drain's time; use 5m or less",
        ));
    }
    if a.spot_deadline_margin > seconds(60) {
        return Err(ConfigError::duration(
            "spot-deadline-margin",
            a.spot_deadline_margin,
            "a spot notice gives two minutes in all; use 1m or less",
        ));
    }
    if a.min_drain_time > seconds(60) {
        return Err(ConfigError::duration("min-drain-time", a.min_drain_time, "use 1m or less"));
    }
    if a.complete_delay > seconds(3600) {
        return Err(ConfigError::duration(
            "complete-delay",
            a.complete_delay,
            "every scale-in waits for it; use 1h or less",
        ));
    }
    let responses = Responses::new(&a.on).map_err(|second| {
        let remedy = format!("given with two responses; keep one `{}=…`", second.kind.as_str());
        ConfigError::new("on", Some(&second.to_string()), remedy)
    })?;
    let evict_after = EvictAfterByKind::new(&a.evict_after).map_err(|second| {
        let remedy = format!("given with two values; keep one `{}=…`", second.kind.as_str());
        ConfigError::new("evict-after", Some(&second.to_string()), remedy)
    })?;
    if !(seconds(60)..=seconds(24 * 3600)).contains(&a.rebalance_ttl) {
        return Err(ConfigError::duration(
            "rebalance-ttl",
            a.rebalance_ttl,
            "out of range; use 1m to 24h",
        ));
    }
    if !(seconds(60)..=seconds(7 * 24 * 3600)).contains(&a.scheduled_lead) {
        return Err(ConfigError::duration(
            "scheduled-lead",
            a.scheduled_lead,
            "out of range; use 1m to 168h",
        ));
    }
    let per_group = a.max_drains_per_group.map(|n| within("max-drains-per-group", n, 1, 1000));
    at_most_16("drain-daemonset", a.drain_daemonset.len())?;
    at_most_16("honor", a.honor.len())?;
    let impaired = impaired(a, &responses)?;
    let max_in_flight = within("max-evictions", a.max_evictions, 1, 1000)?;
    let max_in_flight_per_budget =
        within("max-evictions-per-budget", a.max_evictions_per_budget, 1, 1000)?;
    if max_in_flight_per_budget > max_in_flight {
        let remedy = format!(
            "above --max-evictions {max_in_flight}, which bounds them all; lower it or raise that"
        );
        return Err(ConfigError::new(
            "max-evictions-per-budget",
            Some(&max_in_flight_per_budget.to_string()),
            remedy,
        ));
    }
    Ok(DrainConfig {
        responses,
        rebalance_ttl: a.rebalance_ttl,
        evict_after,
        pace: PaceLimits { per_group: per_group.transpose()?, in_all: a.max_voluntary },
        changes: ChangeSchedule { lead: a.scheduled_lead, window: a.scheduled_window },
        scheduled_events: scheduled_events(a.scheduled_event_interval)?,
        impaired,
        timeout: a.drain_timeout,
        max_timeout: a.max_drain_timeout,
        hook_result_on_failure: a.hook_result_on_failure,
        deadline_margin: a.deadline_margin,
        spot_deadline_margin: a.spot_deadline_margin,
        force_after: a.force_after,
        requests_may_force: a.requests_may_force,
        pod_order: a.pod_order.clone(),
        drained_daemon_sets: a.drain_daemonset.clone(),
        rules_file: a.rules_file.clone().filter(|path| !path.as_os_str().is_empty()),
        honored: a.honor.iter().copied().collect::<BTreeSet<_>>().into_iter().collect(),
        exclude: a.exclude_from_load_balancers,
        compat: a.compat,
        disruption_target: a.disruption_target,
        maintenance_condition: a.maintenance_condition,
        drain_conditions: a.drain_conditions,
        gone_nodes: GoneNodes { taint: a.out_of_service_taint, delete: a.delete_node },
        wait_for_volumes: a.wait_for_volumes,
        complete_delay: a.complete_delay,
        min_time: a.min_drain_time,
        max_in_flight,
        max_in_flight_per_budget,
    })
}

fn scheduled_events(interval: Duration) -> Result<Option<Duration>, ConfigError> {
    if interval.is_zero() {
        return Ok(None);
    }
    if !(seconds(60)..=seconds(3600)).contains(&interval) {
        let remedy = "out of range; use 1m to 1h, or 0s to not ask EC2 for scheduled events";
        return Err(ConfigError::duration("scheduled-event-interval", interval, remedy));
    }
    Ok(Some(interval))
}

//! The parts of a scenario, read from its file.

use std::time::Duration;

use super::{
    super::fields::{Field, Fields},
    Budget, Event, Group, HEARTBEAT_TIMEOUT, Hook, Instances, Kind, LONGEST_NAME, NODES, OF_A_POD,
    PODS, ScenarioError, UNTIL, Workload,
};
use crate::domain::seconds;

impl Group {
    pub(super) fn of(field: &Field<'_>) -> Result<Self, ScenarioError> {
        let fields = field.fields(&["name", "nodes", "spot", "hook", "launchHook"])?;
        Ok(Self {
            name: fields.get("name")?.name()?,
            nodes: fields.get("nodes")?.count(NODES)?,
            spot: fields.read("spot", |spot| spot.switch())?.unwrap_or_default(),
            hook: fields.read("hook", |hook| Hook::of(&hook))?,
            launch_hook: fields.read("launchHook", |hook| Hook::of(&hook))?,
        })
    }
}

impl Hook {
    pub(super) fn of(field: &Field<'_>) -> Result<Self, ScenarioError> {
        let fields = field.fields(&["name", "heartbeatTimeout"])?;
        let heartbeat_timeout = fields.get("heartbeatTimeout")?.duration(HEARTBEAT_TIMEOUT)?;
        Ok(Self { name: fields.get("name")?.text(LONGEST_NAME)?, heartbeat_timeout })
    }
}

impl Workload {
    pub(super) fn of(field: &Field<'_>) -> Result<Self, ScenarioError> {
        let fields = field.fields(&[
            "kind",
            "namespace",
            "name",
            "replicas",
            "group",
            "grace",
            "stop",
            "ready",
            "budget",
        ])?;
        let habit = |name: &str| fields.read(name, |field| field.duration(OF_A_POD));
        let kind = Kind::of(&fields.get("kind")?)?;
        if let Some(replicas) = fields.find("replicas").filter(|_| kind == Kind::DaemonSet) {
            return Err(replicas.wrong("remove it, a DaemonSet has one pod on each node"));
        }
        let grace = habit("grace")?;
        if let Some(field) =
            fields.find("grace").filter(|_| grace.is_some_and(|grace| grace.subsec_nanos() > 0))
        {
            return Err(field.wrong("use whole seconds, as Kubernetes does"));
        }
        Ok(Self {
            kind,
            namespace: fields.get("namespace")?.name()?,
            name: fields.get("name")?.name()?,
            replicas: fields.read("replicas", |replicas| replicas.count(PODS))?,
            group: fields.read("group", |group| group.name())?,
            grace,
            stop: habit("stop")?,
            ready: habit("ready")?,
            budget: fields.read("budget", |budget| Budget::of(&budget))?,
        })
    }
}

impl Kind {
    pub(super) fn of(field: &Field<'_>) -> Result<Self, ScenarioError> {
        match field.value().as_str() {
            Some("Deployment") => Ok(Self::Deployment),
            Some("StatefulSet") => Ok(Self::StatefulSet),
            Some("DaemonSet") => Ok(Self::DaemonSet),
            _ => Err(field.wrong("use Deployment, StatefulSet or DaemonSet")),
        }
    }
}

impl Budget {
    pub(super) fn of(field: &Field<'_>) -> Result<Self, ScenarioError> {
        let fields = field.fields(&["minAvailable", "maxUnavailable"])?;
        let bound = |fields: &Fields<'_>, name: &str| {
            fields.read(name, |field| {
                let remedy = "use a number of pods, 0 to 20000, or a share of them, 0% to 100%";
                if is_bound(field.value()) {
                    Ok(field.value().clone())
                } else {
                    Err(field.wrong(remedy))
                }
            })
        };
        let (min_available, max_unavailable) =
            (bound(&fields, "minAvailable")?, bound(&fields, "maxUnavailable")?);
        if min_available.is_some() == max_unavailable.is_some() {
            return Err(fields.wrong("must have one of minAvailable and maxUnavailable"));
        }
        Ok(Self { min_available, max_unavailable })
    }
}

impl Event {
    pub(super) fn of(field: &Field<'_>) -> Result<Self, ScenarioError> {
        let fields = field.fields(&[
            "at",
            "scaleIn",
            "spot",
            "rebalance",
            "stop",
            "replace",
            "launch",
            "toWarmPool",
            "fromWarmPool",
            "replaceRootVolume",
            "enterStandby",
            "exitStandby",
            "maintenance",
            "startsIn",
            "impaired",
            "loseEvents",
        ])?;
        let instances = |name: &str| fields.read(name, |field| Instances::of(&field));
        let event = Self {
            at: fields.get("at")?.duration(Duration::ZERO..=*UNTIL.end())?,
            scale_in: instances("scaleIn")?,
            spot: instances("spot")?,
            rebalance: instances("rebalance")?,
            stop: instances("stop")?,
            replace: instances("replace")?,
            launch: instances("launch")?,
            to_warm_pool: instances("toWarmPool")?,
            from_warm_pool: instances("fromWarmPool")?,
            replace_root_volume: instances("replaceRootVolume")?,
            enter_standby: instances("enterStandby")?,
            exit_standby: instances("exitStandby")?,
            maintenance: instances("maintenance")?,
            starts_in: fields
                .read("startsIn", |field| field.duration(Duration::ZERO..=*UNTIL.end()))?
                .unwrap_or(seconds(3600)),
            impaired: instances("impaired")?,
            lose_events: fields
                .read("loseEvents", |field| field.duration(seconds(1)..=*UNTIL.end()))?,
        };
        if event.all().next().is_none() && event.lose_events.is_none() {
            return Err(fields.wrong(
                "has nothing that happens: give it scaleIn, spot, rebalance, stop, replace, \
                 launch, toWarmPool, fromWarmPool, replaceRootVolume, enterStandby, exitStandby, \
                 maintenance, impaired or loseEvents",
            ));
        }
        Ok(event)
    }

    /// The parts of the event: the field's name, and the instances.
    pub(super) fn all(&self) -> impl Iterator<Item = (&'static str, &Instances)> {
        let all = [
            ("scaleIn", &self.scale_in),
            ("spot", &self.spot),
            ("rebalance", &self.rebalance),
            ("stop", &self.stop),
            ("replace", &self.replace),
            ("launch", &self.launch),
            ("toWarmPool", &self.to_warm_pool),
            ("fromWarmPool", &self.from_warm_pool),
            ("replaceRootVolume", &self.replace_root_volume),
            ("enterStandby", &self.enter_standby),
            ("exitStandby", &self.exit_standby),
            ("maintenance", &self.maintenance),
            ("impaired", &self.impaired),
        ];
        all.into_iter().filter_map(|(what, some)| Some((what, some.as_ref()?)))
    }
}

impl Instances {
    pub(super) fn of(field: &Field<'_>) -> Result<Self, ScenarioError> {
        let fields = field.fields(&["group", "count", "running"])?;
        Ok(Self {
            group: fields.get("group")?.name()?,
            count: fields.get("count")?.count(NODES)?,
            running: fields.read("running", |running| running.text(LONGEST_NAME))?,
        })
    }
}

/// Whether a bound of a budget is a number of pods, or a share of them from 0% to 100%.
pub(super) fn is_bound(bound: &serde_json::Value) -> bool {
    let share = |text: &str| {
        text.strip_suffix('%')
            .filter(|n| n.bytes().all(|b| b.is_ascii_digit()))
            .and_then(|n| n.parse::<u8>().ok())
    };
    match bound {
        serde_json::Value::Number(pods) => {
            pods.as_u64().and_then(|n| usize::try_from(n).ok()).is_some_and(|n| n <= *PODS.end())
        }
        serde_json::Value::String(text) => share(text).is_some_and(|n| n <= 100),
        _ => false,
    }
}

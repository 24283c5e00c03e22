//! Specifications of the objects that scenarios put into the cluster, as plain Rust structs.

use std::{collections::BTreeMap, time::Duration};

use serde_json::Value;

/// A node and the machine under it.
#[derive(Debug, Clone)]
pub struct NodeSpec {
    /// `metadata.name`.
    pub name: String,
    /// The instance under it; with the zone it gives the providerID `aws:///ZONE/INSTANCE`.
    pub instance: Option<String>,
    /// The availability zone, also its label.
    pub zone: String,
    /// `spec.providerID`; `None`: derived from zone and instance; `Some("")`: left empty even if
    /// there is an instance.
    pub provider_id: Option<String>,
    /// `status.nodeInfo.bootID`; `None`: a random one, derived from the seed.
    pub boot_id: Option<String>,
    /// Labels besides the well-known ones.
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    pub annotations: BTreeMap<String, String>,
    /// Taints: key, value, effect.
    pub taints: Vec<(String, String, String)>,
    /// `status.allocatable.pods`.
    pub max_pods: usize,
    /// Minimum size of its JSON in KiB, reached with image names as on a real node.
    pub kib: usize,
    /// How long after registration it becomes `Ready`.
    pub ready_after: Duration,
}

impl NodeSpec {
    /// A ready node in `eu-west-1a` without an instance.
    #[must_use]
    pub fn named(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            instance: None,
            zone: "eu-west-1a".into(),
            provider_id: None,
            boot_id: None,
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
            taints: Vec::new(),
            max_pods: 110,
            kib: 0,
            ready_after: Duration::ZERO,
        }
    }

    /// With this instance under it.
    #[must_use]
    pub fn instance(mut self, id: impl Into<String>) -> Self {
        self.instance = Some(id.into());
        self
    }

    /// With a label.
    #[must_use]
    pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(key.into(), value.into());
        self
    }

    /// With at least this many KiB of JSON.
    #[must_use]
    pub const fn kib(mut self, kib: usize) -> Self {
        self.kib = kib;
        self
    }
}

/// The properties that all pods of a workload share.
#[derive(Debug, Clone, Default)]
pub struct PodShape {
    /// Labels. Workloads add `app: NAME` if there is no `app`.
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    pub annotations: BTreeMap<String, String>,
    /// `spec.terminationGracePeriodSeconds`; `None`: 30 s.
    pub grace: Option<Duration>,
    /// How long its processes take to stop when asked; `None`: the cluster's default. The kubelet
    /// kills them after the grace period.
    pub stop: Option<Duration>,
    /// Time from binding to `Running`; `None`: the cluster's default.
    pub start: Option<Duration>,
    /// Time from `Running` to `Ready`; `None`: the cluster's default.
    pub ready: Option<Duration>,
    /// It never becomes `Ready`.
    pub never_ready: bool,
    /// It succeeds this long after it starts to run; `None`: it runs until stopped.
    pub runs_for: Option<Duration>,
    /// The kubelet never manages to stop it: its object stays, terminating.
    pub stuck: bool,
    /// `metadata.finalizers`: no controller removes them.
    pub finalizers: Vec<String>,
    /// The names of the PersistentVolumeClaims that its volumes use. The claims need not exist.
    pub claims: Vec<String>,
    /// `spec.tolerations`, as JSON.
    pub tolerations: Vec<Value>,
    /// `spec.nodeSelector`.
    pub node_selector: BTreeMap<String, String>,
    /// `spec.priority`.
    pub priority: Option<i64>,
    /// Minimum size of its JSON in KiB.
    pub kib: usize,
}

/// A Deployment, ReplicaSet, StatefulSet, DaemonSet or Job.
#[derive(Debug, Clone)]
pub struct Workload {
    /// `metadata.namespace`; created if missing.
    pub namespace: String,
    /// `metadata.name`; the label `app: NAME` selects its pods.
    pub name: String,
    /// Number of pods; of a Job, completions. Ignored for DaemonSets, which run one pod per node.
    pub replicas: usize,
    /// Properties of each pod.
    pub shape: PodShape,
}

impl Workload {
    /// `replicas` ordinary pods.
    #[must_use]
    pub fn new(namespace: impl Into<String>, name: impl Into<String>, replicas: usize) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
            replicas,
            shape: PodShape::default(),
        }
    }

    /// With pods like this.
    #[must_use]
    pub fn shape(mut self, shape: PodShape) -> Self {
        self.shape = shape;
        self
    }
}

/// A single pod that a scenario creates directly, not through a workload.
#[derive(Debug, Clone)]
pub struct PodSpec {
    /// `metadata.namespace`; created if missing.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
    /// The node that it is bound to from the start; `None`: the scheduler chooses one.
    pub node: Option<String>,
    /// Its properties, as pods of a workload have them.
    pub shape: PodShape,
    /// The state that it is in from the start.
    pub state: PodState,
    /// The controller that owns it: apiVersion, kind, name. Need not exist.
    pub owner: Option<(String, String, String)>,
    /// It is the mirror pod of a static pod of its node.
    pub mirror: bool,
}

/// The state that a scenario creates a pod in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PodState {
    /// Pending; the scheduler and the kubelet start it as usual.
    New,
    /// Running and Ready.
    Ready,
    /// Running, not Ready.
    NotReady,
    /// Finished with phase `Succeeded`.
    Succeeded,
    /// Finished with phase `Failed`.
    Failed,
    /// Pending for ever (its image cannot be pulled).
    StuckPending,
}

impl PodSpec {
    /// An ordinary pod without a controller, running and ready on `node`.
    #[must_use]
    pub fn on(
        node: impl Into<String>,
        namespace: impl Into<String>,
        name: impl Into<String>,
    ) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
            node: Some(node.into()),
            shape: PodShape::default(),
            state: PodState::Ready,
            owner: None,
            mirror: false,
        }
    }

    /// With these properties.
    #[must_use]
    pub fn shape(mut self, shape: PodShape) -> Self {
        self.shape = shape;
        self
    }

    /// In this state from the start.
    #[must_use]
    pub const fn state(mut self, state: PodState) -> Self {
        self.state = state;
        self
    }

    /// Owned by this controller.
    #[must_use]
    pub fn owner(mut self, api_version: &str, kind: &str, name: &str) -> Self {
        self.owner = Some((api_version.into(), kind.into(), name.into()));
        self
    }

    /// With a label.
    #[must_use]
    pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.shape.labels.insert(key.into(), value.into());
        self
    }
}

/// A PodDisruptionBudget that a scenario creates.
#[derive(Debug, Clone)]
pub struct BudgetSpec {
    /// `metadata.namespace`; created if missing.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
    /// `spec.selector.matchLabels`; `None`: no selector at all, which matches nothing.
    pub selector: Option<BTreeMap<String, String>>,
    /// `spec.minAvailable`: `2` or `"50%"`.
    pub min_available: Option<Value>,
    /// `spec.maxUnavailable`: `1` or `"25%"`.
    pub max_unavailable: Option<Value>,
    /// `spec.unhealthyPodEvictionPolicy`.
    pub unhealthy: Option<String>,
}

impl BudgetSpec {
    /// For the pods with the label `app: APP`; neither minimum nor maximum yet.
    #[must_use]
    pub fn for_app(namespace: impl Into<String>, app: impl Into<String>) -> Self {
        let app = app.into();
        Self {
            namespace: namespace.into(),
            name: app.clone(),
            selector: Some(BTreeMap::from([("app".to_owned(), app)])),
            min_available: None,
            max_unavailable: None,
            unhealthy: None,
        }
    }

    /// Under this name.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// With `minAvailable`, a number or a text like `"50%"`.
    #[must_use]
    pub fn min(mut self, min: impl Into<Value>) -> Self {
        self.min_available = Some(min.into());
        self
    }

    /// With `maxUnavailable`, a number or a text like `"25%"`.
    #[must_use]
    pub fn max(mut self, max: impl Into<Value>) -> Self {
        self.max_unavailable = Some(max.into());
        self
    }

    /// With an `unhealthyPodEvictionPolicy`.
    #[must_use]
    pub fn unhealthy(mut self, policy: impl Into<String>) -> Self {
        self.unhealthy = Some(policy.into());
        self
    }
}

/// The fields of a pod that judges look at.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodView {
    /// `metadata.namespace`.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
    /// `metadata.uid`.
    pub uid: String,
    /// `spec.nodeName`.
    pub node: Option<String>,
    /// `status.phase`.
    pub phase: String,
    /// The `Ready` condition is `True`.
    pub ready: bool,
    /// `metadata.deletionTimestamp`.
    pub deletion: Option<crate::domain::Moment>,
    /// Kind of the controller that owns it.
    pub owner_kind: Option<String>,
    /// It is the mirror pod of a static pod.
    pub mirror: bool,
}

//! Puts a plan's world there.

use std::time::Duration;

use serde_json::json;
use sundown::sim::{
    aws::{Disorder, GroupSpec, HookResult, HookSpec},
    kube::{BudgetSpec, NodeSpec, PodShape, PodSpec, PodState, Workload},
};

use super::plan::{Budget, Group, Load, LoadKind, Loose, Plan, Single};
use crate::{
    harness::Stage,
    judge::{Attached, Belongs, traits::Traits},
};

/// What the names of Nodes begin with that claim the instance of another one.
pub const CLAIMS: &str = "claims-";

/// Returns the volumes that it attached.
pub fn build(stage: &Stage, plan: &Plan) -> Vec<Attached> {
    let (dup, reorder, forget) = plan.disorder;
    stage.world.aws.disorder(
        stage.world.queue(),
        Disorder { duplicate: dup, reorder, forget_delete: forget, partial: plan.partial },
    );
    for group in &plan.groups {
        add_group(stage, group);
    }
    for load in &plan.loads {
        let traits = plan.drain.traits.iter().find(|(name, _)| *name == load.name);
        add_load(stage, load, traits.map(|(_, traits)| traits));
    }
    let nodes: Vec<String> = stage.world.nodes().into_values().collect();
    let instances: Vec<String> = stage.world.nodes().into_keys().collect();
    for (pick, key, value) in &plan.settings {
        let key = format!("sundown.dev/{key}");
        stage.world.kube.edit("nodes", "", &nodes[pick % nodes.len()], |node| {
            node["metadata"]["annotations"][&key] = json!(value);
        });
    }
    for (i, pick) in plan.claimed_twice.iter().enumerate() {
        // EC2 knows the name of the other Node.
        let instance = &instances[pick % instances.len()];
        stage
            .world
            .kube
            .add_node(&NodeSpec::named(format!("{CLAIMS}{i}")).instance(instance.clone()));
    }
    for (i, (pick, kind)) in plan.loose.iter().enumerate() {
        stage.world.kube.add_pod(&loose(&nodes[pick % nodes.len()], i, *kind));
        if *kind == Loose::ComesBack {
            stage.world.kube.put_back("loose", &format!("agent-{i}"));
        }
    }
    for pick in &plan.drain.control_plane {
        stage.world.kube.edit("nodes", "", &nodes[pick % nodes.len()], |node| {
            node["metadata"]["labels"]["node-role.kubernetes.io/control-plane"] = json!("");
        });
    }
    let singles = plan.drain.singles.iter();
    singles.filter_map(|one| add_single(stage, one, &nodes[one.pick % nodes.len()])).collect()
}

fn add_group(stage: &Stage, group: &Group) {
    let mut spec = GroupSpec::new(&group.name, group.nodes);
    spec.retain_on_abandon = group.retains;
    spec.template.spot = group.spot;
    if !group.replaces {
        spec.replace_after = None;
    }
    if let Some(tag) = group.tag {
        spec.tags.insert(tag.to_owned(), String::new());
        spec.template.tags.insert(tag.to_owned(), String::new());
    }
    let seconds = Duration::from_secs;
    let notify = group.native.then(|| stage.world.queue().to_owned());
    let hook = |(name, timeout): &(String, u64)| HookSpec {
        default_result: HookResult::Continue,
        metadata: group.metadata.map(str::to_owned),
        notify_queue: notify.clone(),
        ..HookSpec::terminating(name).heartbeat_timeout(seconds(*timeout))
    };
    let mut hooks: Vec<_> = group.hooks.iter().map(hook).collect();
    if group.launch_hook {
        hooks.push(HookSpec::launching("greet").heartbeat_timeout(seconds(120)));
    }
    if group.belongs == Belongs::OtherCluster {
        let tag = "kubernetes.io/cluster/other".to_owned();
        spec.tags.insert(tag.clone(), "owned".to_owned());
        spec.template.tags.insert(tag, "owned".to_owned());
        stage.world.aws.create_group(spec);
        hooks.into_iter().for_each(|h| stage.world.aws.put_hook(&group.name, h));
        return;
    }
    let instances = stage.world.add_group(spec, &hooks);
    if let Some(state) = group.pool {
        stage.world.aws.put_warm_pool_with_state(&group.name, state);
    }
    for instance in instances {
        let node = stage.world.node_of(&instance).unwrap();
        stage.world.kube.edit("nodes", "", &node, |n| match group.belongs {
            Belongs::Karpenter => {
                n["metadata"]["labels"]["karpenter.sh/nodepool"] = json!("default");
            }
            Belongs::Ignored => n["metadata"]["annotations"]["sundown.dev/ignore"] = json!("true"),
            Belongs::Us | Belongs::OtherCluster | Belongs::LeftOut | Belongs::Untagged => {}
        });
        if let Some((key, value)) = group.label {
            stage
                .world
                .kube
                .edit("nodes", "", &node, |n| n["metadata"]["labels"][key] = json!(value));
        }
    }
}

fn add_load(stage: &Stage, load: &Load, traits: Option<&Traits>) {
    let some = |s: u64| Some(Duration::from_secs(s));
    let runs_for = (load.kind == LoadKind::Job).then(|| Duration::from_secs(120));
    let shape = PodShape {
        grace: some(load.grace),
        stop: some(load.stop),
        ready: some(load.ready),
        never_ready: load.never_ready,
        runs_for,
        ..PodShape::default()
    };
    let shape = with_traits(shape, traits);
    let workload = Workload::new("load", &load.name, load.replicas).shape(shape);
    let kube = &stage.world.kube;
    match load.kind {
        LoadKind::Deployment => kube.add_deployment(&workload),
        LoadKind::StatefulSet => kube.add_stateful_set(&workload),
        LoadKind::Daemon => kube.add_daemon_set(&workload),
        LoadKind::Job => kube.add_job(&workload),
    }
    for (i, budget) in load.budgets.iter().enumerate() {
        let spec = BudgetSpec::for_app("load", &load.name).named(format!("{}-{i}", load.name));
        let mut spec = match budget {
            Budget::Min(min) => spec.min(min.clone()),
            Budget::Max(max) => spec.max(max.clone()),
        };
        if load.unhealthy_always {
            spec = spec.unhealthy("AlwaysAllow");
        }
        kube.add_budget(&spec);
    }
}

fn with_traits(mut shape: PodShape, traits: Option<&Traits>) -> PodShape {
    let Some(traits) = traits else { return shape };
    let own = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    shape.priority = Some(traits.priority).filter(|priority| *priority != 0);
    shape.labels.extend(traits.labels.iter().map(own));
    shape.annotations.extend(traits.annotations.iter().map(own));
    shape
}

/// Puts a single pod onto its node, with its volume.
fn add_single(stage: &Stage, one: &Single, node: &str) -> Option<Attached> {
    let kube = &stage.world.kube;
    let some = |s: u64| Some(Duration::from_secs(s));
    let claims = one.volume.map(|_| one.name.clone()).into_iter().collect();
    let shape = PodShape {
        grace: some(one.grace),
        stop: some(one.stop),
        runs_for: one.runs_for.map(Duration::from_secs),
        claims,
        ..PodShape::default()
    };
    let pod = PodSpec::on(node, "extra", &one.name).shape(with_traits(shape, Some(&one.traits)));
    kube.add_pod(&pod);
    one.volume?;
    let volume = format!("pv-{}", one.name);
    kube.put(json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": { "namespace": "extra", "name": one.name },
        "spec": { "volumeName": volume },
    }));
    kube.put(json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment",
        "metadata": { "name": format!("csi-{}", one.name) },
        "spec": {
            "attacher": "ebs.csi.aws.com", "nodeName": node,
            "source": { "persistentVolumeName": volume },
        },
        "status": { "attached": true },
    }));
    Some(Attached { node: node.to_owned(), pod: one.name.clone(), detached: None })
}

fn loose(node: &str, i: usize, kind: Loose) -> PodSpec {
    let named = |what: &str| PodSpec::on(node, "loose", format!("{what}-{i}"));
    let shape = PodShape::default;
    match kind {
        Loose::Naked => named("naked"),
        Loose::Mirror => PodSpec { mirror: true, ..named("mirror") },
        Loose::Finished => named("finished").state(PodState::Succeeded),
        Loose::Held => named("held")
            .shape(PodShape { finalizers: vec!["example.com/held".to_owned()], ..shape() }),
        Loose::Stuck => named("stuck").shape(PodShape { stuck: true, ..shape() }),
        Loose::Tolerant => {
            let tolerations =
                vec![json!({ "key": "sundown.dev/interruption", "operator": "Exists" })];
            named("tolerant").shape(PodShape { tolerations, ..shape() })
        }
        Loose::ToleratesAll => named("brave")
            .shape(PodShape { tolerations: vec![json!({ "operator": "Exists" })], ..shape() }),
        Loose::ComesBack => {
            named("agent").owner("apps.kruise.io/v1alpha1", "DaemonSet", &format!("agent-{i}"))
        }
        Loose::Unready => named("unready")
            .state(PodState::NotReady)
            .shape(PodShape { never_ready: true, ..shape() }),
    }
}

//! Instances that come into service: by a launch, out of a warm pool or out of standby, or with a new
//! root volume. A line of the timeline shows when each of them serves.

use std::{collections::BTreeMap, time::Duration};

use super::{
    scenario::{Event, Instances},
    summary::{count, short},
    view::View,
};
use crate::sim::{
    World,
    aws::{ActionReport, LifecycleState, Member, Transition},
};

/// The instances of which the timeline has not shown yet that they serve.
#[derive(Default)]
pub(super) struct Arrivals {
    /// With how each of them comes.
    awaited: BTreeMap<String, Arrival>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Arrival {
    Launch,
    Replacement,
    FromWarmPool,
    FromStandby,
    NewRootVolume,
}

impl Arrivals {
    /// Auto Scaling replaces the root volumes of these instances.
    pub(super) fn expect_new_root_volumes(&mut self, ids: Vec<String>) {
        self.awaited.extend(ids.into_iter().map(|id| (id, Arrival::NewRootVolume)));
    }

    /// Performs the parts of an event that bring instances into service.
    pub(super) fn begin(&mut self, world: &World, event: &Event, at: Duration, view: &mut View) {
        if let Some(some) = &event.replace {
            let ids = (0..some.count).filter_map(|_| world.aws.launch(&some.group));
            self.awaited.extend(ids.map(|id| (id, Arrival::Replacement)));
        }
        if let Some(some) = &event.launch {
            let ids: Vec<_> =
                (0..some.count).filter_map(|_| world.aws.launch(&some.group)).collect();
            print(view, at, "Auto Scaling launches", &ids, some);
            self.awaited.extend(ids.into_iter().map(|id| (id, Arrival::Launch)));
        }
        if let Some(some) = &event.exit_standby {
            let ids = in_state(world, some, LifecycleState::Standby);
            for id in &ids {
                world.aws.exit_standby(id);
            }
            print(view, at, "Somebody takes out of standby", &ids, some);
            self.awaited.extend(ids.into_iter().map(|id| (id, Arrival::FromStandby)));
        }
        if let Some(some) = &event.from_warm_pool {
            let ids = in_state(world, some, LifecycleState::WarmedRunning);
            for id in &ids {
                world.aws.leave_warm_pool_with_event(id);
            }
            print(view, at, "Auto Scaling takes out of the warm pool", &ids, some);
            self.awaited.extend(ids.into_iter().map(|id| (id, Arrival::FromWarmPool)));
        }
    }

    /// Shows which of them serve now, and forgets these, and those that are gone.
    pub(super) fn look(&mut self, world: &World, at: Duration, view: &mut View) {
        if self.awaited.is_empty() {
            return;
        }
        let nodes = world.nodes();
        self.awaited.retain(|id, how| {
            let group = world.aws.instance(id).and_then(|instance| instance.group);
            let Some(group) = group else { return false };
            let mut members = world.aws.members(&group).into_iter();
            let Some(member) = members.find(|m| m.instance == *id) else { return false };
            let Some(node) = nodes.get(id) else { return true };
            let serves = member.state == LifecycleState::InService && !is_cordoned(world, node);
            if serves {
                let how = match how {
                    Arrival::Launch | Arrival::FromStandby if has_waited(world, id) => {
                        "is in service: its launch hook is completed"
                    }
                    Arrival::Launch | Arrival::FromStandby => "is in service",
                    Arrival::Replacement => "is in service: it is a replacement",
                    Arrival::FromWarmPool => "takes pods again: it is as it was before its drain",
                    Arrival::NewRootVolume => {
                        "takes pods again: it has booted from its new root volume"
                    }
                };
                view.print_event(at, &format!("{} {how}", short(node)));
            }
            !serves
        });
    }

    /// Whether all of them serve, or are gone.
    pub(super) fn is_at_rest(&self) -> bool {
        self.awaited.is_empty()
    }
}

/// Instances in this state, as many as the event wants at most.
fn in_state(world: &World, some: &Instances, state: LifecycleState) -> Vec<String> {
    let members = world.aws.members(&some.group).into_iter();
    let in_state = members.filter(|member: &Member| member.state == state);
    in_state.map(|member| member.instance).take(some.count).collect()
}

fn print(view: &mut View, at: Duration, what: &str, ids: &[String], some: &Instances) {
    let short_of = if ids.len() < some.count {
        format!(", not {}: there are no more", some.count)
    } else {
        String::new()
    };
    let instances = count(ids.len() as u64, "instance");
    view.print_event(at, &format!("{what} {instances} of `{}`{short_of}", some.group));
}

/// The instance waited in a launch hook.
fn has_waited(world: &World, id: &str) -> bool {
    let is_launch = |a: &ActionReport| a.instance == id && a.transition == Transition::Launching;
    world.aws.actions().iter().any(is_launch)
}

fn is_cordoned(world: &World, node: &str) -> bool {
    let node = world.kube.object("nodes", "", node);
    node.is_some_and(|node| {
        node.pointer("/spec/unschedulable").is_some_and(|cordon| *cordon == true)
    })
}

//! EnterStandby and ExitStandby.

use super::{
    super::{LifecycleState, xml},
    Content, activity, group_of, required,
};
use crate::{
    domain::Moment,
    sim::aws::{answer::ApiError, state::State, xml::Form},
};

pub(super) fn enter(state: &mut State, now: Moment, form: &Form) -> Result<Content, ApiError> {
    let lower = required(form, "ShouldDecrementDesiredCapacity")? == "true";
    let (group, instances) = in_state(state, form, LifecycleState::InService)?;
    let mut activities = Vec::new();
    for instance in instances {
        state.enter_standby(now, &instance, lower);
        let description = format!("Moving EC2 instance to Standby: {instance}");
        activities.push(activity(state, now, &group, description));
    }
    Ok(Box::new(move |out| xml::activities(out, &activities)))
}

pub(super) fn exit(state: &mut State, now: Moment, form: &Form) -> Result<Content, ApiError> {
    let (group, instances) = in_state(state, form, LifecycleState::Standby)?;
    let mut activities = Vec::new();
    for instance in instances {
        state.exit_standby(now, &instance);
        let description = format!("Moving EC2 instance out of Standby: {instance}");
        activities.push(activity(state, now, &group, description));
    }
    Ok(Box::new(move |out| xml::activities(out, &activities)))
}

/// The group that a request names and the instances that it names, all of which must be in this
/// state.
fn in_state(
    state: &State,
    form: &Form,
    wanted: LifecycleState,
) -> Result<(String, Vec<String>), ApiError> {
    let group = group_of(state, form)?;
    let instances = form.list("InstanceIds.member");
    for instance in &instances {
        let view = xml::MemberView::new(state, group, instance).ok_or_else(|| {
            let name = &group.spec.name;
            ApiError::validation(format!(
                "The instance {instance} is not part of Auto Scaling group {name}."
            ))
        })?;
        if !view.is_in(wanted) {
            let message = format!("The instance {instance} is not in {}.", wanted.as_str());
            return Err(ApiError::validation(message));
        }
    }
    Ok((group.spec.name.clone(), instances.into_iter().map(str::to_owned).collect()))
}

//! The actions of Auto Scaling, in its Query protocol.

mod standby;

use std::time::Duration;

use super::{
    GroupSpec, HookResult, HookSpec, Transition,
    actions::{Named, NotActive},
    groups::Group,
    xml,
};
use crate::{
    domain::Moment,
    sim::aws::{
        answer::{ApiError, Asked},
        state::State,
        xml::{Form, Xml},
    },
};

pub(in crate::sim::aws) const NAMESPACE: &str = "http://autoscaling.amazonaws.com/doc/2011-01-01/";

/// Maximum number of groups or instances in a page.
const PAGE: usize = 100;
/// The same for the instances of a warm pool.
const POOL_PAGE: usize = 50;

pub(in crate::sim::aws) fn handle(
    state: &mut State,
    now: Moment,
    asked: &Asked,
) -> Result<String, ApiError> {
    let id = state.uuid();
    let form = &asked.form;
    let action = asked.action.as_str();
    let content: Box<dyn FnOnce(&mut Xml) + '_> = match action {
        "DescribeAutoScalingGroups" => describe_groups(state, form)?,
        "DescribeAutoScalingInstances" => describe_instances(state, form)?,
        "DescribeWarmPool" => describe_warm_pool(state, form)?,
        "DescribeLifecycleHooks" => describe_hooks(state, form)?,
        "DescribePolicies" => describe_policies(state, form)?,
        "PutLifecycleHook" => put_hook(state, now, form)?,
        "DeleteLifecycleHook" => {
            let (group, hook) = (group_of(state, form)?, required(form, "LifecycleHookName")?);
            if !group.hooks.contains_key(hook) {
                return Err(ApiError::validation(format!(
                    "No Lifecycle Hook found with name: {hook}"
                )));
            }
            let group = group.spec.name.clone();
            state.remove_hook(now, &group, hook);
            nothing()
        }
        "RecordLifecycleActionHeartbeat" => {
            let named = named(form)?;
            state.heartbeat(now, &named).map_err(|NotActive| not_active(&named))?;
            nothing()
        }
        "CompleteLifecycleAction" => {
            let named = named(form)?;
            let result =
                HookResult::parse(required(form, "LifecycleActionResult")?).ok_or_else(|| {
                    ApiError::validation("Lifecycle action result must be one of CONTINUE, ABANDON")
                })?;
            state
                .complete(now, &named, result, &asked.by)
                .map_err(|NotActive| not_active(&named))?;
            nothing()
        }
        "TerminateInstanceInAutoScalingGroup" => terminate(state, now, form)?,
        "SetInstanceHealth" => set_health(state, now, form)?,
        "EnterStandby" => standby::enter(state, now, form)?,
        "ExitStandby" => standby::exit(state, now, form)?,
        "SetDesiredCapacity" => {
            let group = group_of(state, form)?.spec.name.clone();
            let desired =
                number(form, "DesiredCapacity")?.ok_or_else(|| missing("DesiredCapacity"))?;
            state.set_desired(now, &group, usize::try_from(desired).unwrap_or(usize::MAX));
            nothing()
        }
        _ => {
            return Err(ApiError::new(
                "InvalidAction",
                format!("Could not find operation {action} for version 2011-01-01"),
            ));
        }
    };
    Ok(Xml::document(&format!("{action}Response"), NAMESPACE, |xml| {
        xml.element(&format!("{action}Result"), content);
        xml.element("ResponseMetadata", |xml| xml.text("RequestId", &id));
    }))
}

/// The object of a request: those of `group/hook/instance` that it names.
pub(in crate::sim::aws) fn object(form: &Form) -> String {
    let group = form.get("AutoScalingGroupName");
    let hook = form.get("LifecycleHookName");
    let instance = form.get("InstanceId");
    let lists =
        [form.list("AutoScalingGroupNames.member"), form.list("InstanceIds.member")].concat();
    let named: Vec<&str> = [group, hook, instance].into_iter().flatten().collect();
    if named.is_empty() { lists.join(",") } else { named.join("/") }
}

type Content = Box<dyn FnOnce(&mut Xml)>;

fn nothing() -> Content {
    Box::new(|_| {})
}

fn missing(name: &str) -> ApiError {
    ApiError::validation(format!(
        "1 validation error detected: Value null at '{name}' failed to satisfy constraint: Member \
         must not be null"
    ))
}

fn required<'a>(form: &'a Form, name: &str) -> Result<&'a str, ApiError> {
    form.get(name).ok_or_else(|| missing(name))
}

fn number(form: &Form, name: &str) -> Result<Option<u64>, ApiError> {
    let bad = |_| ApiError::validation(format!("Value at '{name}' is not a number"));
    form.get(name).map(|v| v.parse().map_err(bad)).transpose()
}

fn group_of<'a>(state: &'a State, form: &Form) -> Result<&'a Group, ApiError> {
    let name = required(form, "AutoScalingGroupName")?;
    state.groups.get(name).ok_or_else(|| {
        ApiError::validation(format!(
            "AutoScalingGroup name not found - AutoScalingGroup '{name}' not found"
        ))
    })
}

fn named(form: &Form) -> Result<Named<'_>, ApiError> {
    let named = Named {
        group: required(form, "AutoScalingGroupName")?,
        hook: required(form, "LifecycleHookName")?,
        token: form.get("LifecycleActionToken"),
        instance: form.get("InstanceId"),
    };
    match named.token {
        Some(token) if token.len() != 36 => {
            Err(ApiError::validation("LifecycleActionToken must be 36 characters long"))
        }
        None if named.instance.is_none() => Err(ApiError::validation(
            "Either a lifecycle action token or an instance ID must be given",
        )),
        _ => Ok(named),
    }
}

fn not_active(named: &Named<'_>) -> ApiError {
    ApiError::validation(match (named.token, named.instance) {
        (Some(token), _) => format!("No active Lifecycle Action found with token {token}"),
        (None, instance) => format!(
            "No active Lifecycle Action found with instance ID {}",
            instance.unwrap_or_default()
        ),
    })
}

fn page<T>(all: Vec<T>, form: &Form) -> Result<(Vec<T>, Option<String>), ApiError> {
    page_of(all, form, PAGE)
}

fn page_of<T>(all: Vec<T>, form: &Form, most: usize) -> Result<(Vec<T>, Option<String>), ApiError> {
    let size = number(form, "MaxRecords")?
        .and_then(|n| usize::try_from(n).ok())
        .unwrap_or(PAGE / 2)
        .clamp(1, most);
    let from: usize = match form.get("NextToken") {
        Some(token) => token
            .parse()
            .map_err(|_| ApiError::new("InvalidNextToken", "The NextToken value is not valid."))?,
        None => 0,
    };
    let next = (all.len() > from + size).then(|| (from + size).to_string());
    Ok((all.into_iter().skip(from).take(size).collect(), next))
}

fn describe_groups(state: &State, form: &Form) -> Result<Content, ApiError> {
    let names = form.list("AutoScalingGroupNames.member");
    let filters: Vec<(&str, Vec<&str>)> = (1..)
        .map_while(|n| {
            Some((
                form.get(&format!("Filters.member.{n}.Name"))?,
                form.list(&format!("Filters.member.{n}.Values.member")),
            ))
        })
        .collect();
    let wanted = |group: &&Group| {
        (names.is_empty() || names.contains(&group.spec.name.as_str()))
            && filters.iter().all(|(name, values)| has_tag(&group.spec, name, values))
    };
    let (groups, next) = page(state.groups.values().filter(wanted).collect(), form)?;
    let groups: Vec<xml::GroupView> =
        groups.into_iter().map(|group| xml::GroupView::new(state, group)).collect();
    Ok(Box::new(move |out| xml::groups(out, &groups, next.as_deref())))
}

/// Filters `tag-key`, `tag-value` and `tag:<key>`.
fn has_tag(group: &GroupSpec, filter: &str, values: &[&str]) -> bool {
    match filter {
        "tag-key" => values.iter().any(|key| group.tags.contains_key(*key)),
        "tag-value" => group.tags.values().any(|value| values.contains(&value.as_str())),
        _ => filter
            .strip_prefix("tag:")
            .and_then(|key| group.tags.get(key))
            .is_some_and(|value| values.contains(&value.as_str())),
    }
}

fn describe_instances(state: &State, form: &Form) -> Result<Content, ApiError> {
    let ids = form.list("InstanceIds.member");
    let mut all = Vec::new();
    if ids.is_empty() {
        for group in state.groups.values() {
            all.extend(group.members().into_iter().map(|m| m.instance));
        }
    } else {
        all.extend(ids.into_iter().map(str::to_owned));
    }
    let views =
        all.iter().filter_map(|id| xml::MemberView::new(state, state.group_of(id)?, id)).collect();
    let (members, next) = page(views, form)?;
    Ok(Box::new(move |out| xml::members(out, &members, next.as_deref())))
}

fn describe_warm_pool(state: &State, form: &Form) -> Result<Content, ApiError> {
    let group = group_of(state, form)?;
    let mut pooled = xml::MemberView::all(state, group);
    pooled.retain(xml::MemberView::is_in_warm_pool);
    let exists = group.has_warm_pool || !pooled.is_empty();
    let pool_state = exists.then_some(group.pool_state);
    let (members, next) = page_of(pooled, form, POOL_PAGE)?;
    Ok(Box::new(move |out| xml::warm_pool(out, pool_state, &members, next.as_deref())))
}

fn describe_hooks(state: &State, form: &Form) -> Result<Content, ApiError> {
    let names = form.list("LifecycleHookNames.member");
    let group = group_of(state, form)?;
    let hooks: Vec<HookSpec> = group
        .hooks
        .values()
        .filter(|h| names.is_empty() || names.contains(&h.name.as_str()))
        .cloned()
        .collect();
    let (name, region, account) =
        (group.spec.name.clone(), state.settings.region.clone(), state.settings.account.clone());
    Ok(Box::new(move |out| {
        xml::hooks(out, &name, &hooks, &format!("arn:aws:sqs:{region}:{account}:"));
    }))
}

/// Only simple scaling policies exist here.
fn describe_policies(state: &State, form: &Form) -> Result<Content, ApiError> {
    let (types, group) = (form.list("PolicyTypes.member"), form.get("AutoScalingGroupName"));
    let wanted = types.is_empty() || types.contains(&"SimpleScaling");
    let of_group = |g: &&Group| wanted && group.is_none_or(|name| name == g.spec.name);
    let all = state
        .groups
        .values()
        .filter(of_group)
        .flat_map(|g| g.spec.simple_policies.iter().map(|p| (g.spec.name.clone(), p.clone())));
    let (policies, next) = page(all.collect(), form)?;
    Ok(Box::new(move |out| xml::policies(out, &policies, next.as_deref())))
}

fn put_hook(state: &mut State, now: Moment, form: &Form) -> Result<Content, ApiError> {
    let group = group_of(state, form)?;
    let group_name = group.spec.name.clone();
    let name = required(form, "LifecycleHookName")?;
    let mut hook = match (group.hooks.get(name), form.get("LifecycleTransition")) {
        (Some(hook), _) => hook.clone(),
        (None, Some(transition)) => {
            let transition = Transition::parse(transition)
                .ok_or_else(|| ApiError::validation("Invalid lifecycle transition"))?;
            HookSpec { transition, ..HookSpec::terminating(name) }
        }
        (None, None) => {
            return Err(ApiError::validation("A lifecycle hook must have a lifecycle transition"));
        }
    };
    if group.hooks.len() >= 50 && !group.hooks.contains_key(name) {
        return Err(ApiError::new(
            "LimitExceeded",
            "You have already reached a limit for your Amazon EC2 Auto Scaling resources",
        ));
    }
    if let Some(seconds) = number(form, "HeartbeatTimeout")? {
        if !(30..=7200).contains(&seconds) {
            return Err(ApiError::validation("HeartbeatTimeout must be between 30 and 7200"));
        }
        hook.heartbeat_timeout = Duration::from_secs(seconds);
    }
    if let Some(result) = form.get("DefaultResult") {
        hook.default_result = HookResult::parse(result).ok_or_else(|| {
            ApiError::validation("DefaultResult must be one of CONTINUE, ABANDON")
        })?;
    }
    if let Some(metadata) = form.get("NotificationMetadata") {
        hook.metadata = Some(metadata.to_owned());
    }
    if let Some(arn) = form.get("NotificationTargetARN") {
        hook.notify_queue =
            arn.rsplit(':').next().filter(|name| !name.is_empty()).map(str::to_owned);
    }
    if let Some(queue) = hook.notify_queue.clone() {
        state.send_test_notification(now, &group_name, &queue);
    }
    if let Some(group) = state.groups.get_mut(&group_name) {
        group.hooks.insert(hook.name.clone(), hook);
    }
    Ok(nothing())
}

fn set_health(state: &mut State, now: Moment, form: &Form) -> Result<Content, ApiError> {
    let instance = required(form, "InstanceId")?;
    let healthy = match required(form, "HealthStatus")? {
        "Healthy" => true,
        "Unhealthy" => false,
        other => {
            let message = format!("Invalid health status: {other}");
            return Err(ApiError::validation(message));
        }
    };
    if state.group_of(instance).is_none_or(|group| group.state_of(instance).is_none()) {
        let message = format!("Instance {instance} is not part of any Auto Scaling group");
        return Err(ApiError::validation(message));
    }
    state.set_health(now, instance, healthy);
    Ok(nothing())
}

fn terminate(state: &mut State, now: Moment, form: &Form) -> Result<Content, ApiError> {
    let instance = required(form, "InstanceId")?.to_owned();
    let lower = required(form, "ShouldDecrementDesiredCapacity")? == "true";
    let group = state
        .group_of(&instance)
        .filter(|group| group.state_of(&instance).is_some())
        .ok_or_else(|| {
            ApiError::validation(format!(
                "Instance Id not found - No managed instance found for instance ID: {instance}"
            ))
        })?;
    let name = group.spec.name.clone();
    state.terminate_in_group(now, &instance, lower);
    let description = format!("Terminating EC2 instance: {instance}");
    let activity = activity(state, now, &name, description);
    Ok(Box::new(move |out| xml::activity(out, &activity)))
}

fn activity(state: &mut State, now: Moment, group: &str, description: String) -> xml::Activity {
    xml::Activity {
        id: state.uuid(),
        group: group.to_owned(),
        description,
        start: state.aws_time(now),
    }
}

//! Lifecycle actions of Auto Scaling: in an event, in a notification sent to the queue itself, and
//! as lines of text.

use crate::domain::{
    Cause, DrainSettings, GroupName, HookAction, HookName, HookPurpose, Interruption,
    LifecycleToken, Moment, PoolEnd,
};

use super::{
    Irrelevant, Parsed, Reject, field,
    wire::{AnyText, Lifecycle, Text, quote},
};

const TEST: &str = "autoscaling:TEST_NOTIFICATION";
const TERMINATING: &str = "autoscaling:EC2_INSTANCE_TERMINATING";
const LAUNCHING: &str = "autoscaling:EC2_INSTANCE_LAUNCHING";
/// The length of a lifecycle action token (Auto Scaling API: exactly 36).
const TOKEN: usize = 36;

/// Whether an instance launches or terminates.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    Out,
    In,
}

impl Lifecycle<'_> {
    fn is_test(&self) -> bool {
        [&self.event, &self.transition].into_iter().flatten().any(|t| &**t == TEST)
    }

    fn way(&self) -> Result<Way, Reject> {
        match field::needed("LifecycleTransition", self.transition.as_ref())? {
            TERMINATING => Ok(Way::Out),
            LAUNCHING => Ok(Way::In),
            other => Err(Reject::UnknownTransition(quote(other))),
        }
    }

    fn action(&self) -> Result<HookAction, Reject> {
        let origin = end(self.origin.as_ref());
        let destination = end(self.destination.as_ref());
        Ok(HookAction {
            group: GroupName::from(field::needed_name(
                "AutoScalingGroupName",
                self.group.as_ref(),
            )?),
            hook: HookName::from(field::needed_name("LifecycleHookName", self.hook.as_ref())?),
            // AWS refuses a malformed token. Without a token, the instance id identifies the
            // action.
            token: self
                .token
                .as_ref()
                .filter(|t| t.len() == TOKEN && t.is_ascii())
                .map(|t| LifecycleToken::from(&**t)),
            origin,
            destination,
            purpose: purpose(self.action.as_deref(), origin, destination),
            metadata: self.metadata.as_ref().and_then(|text| DrainSettings::in_metadata(&text.0)),
        })
    }

    fn cause(&self, way: Way) -> Result<Cause, Reject> {
        let action = self.action()?;
        Ok(if way == Way::Out { Cause::Terminate(action) } else { Cause::Launch(action) })
    }
}

/// From the `detail` of an event whose `detail-type` is that of `way`.
pub(super) fn from_event(
    detail: &Lifecycle<'_>,
    way: Way,
    event_id: &str,
    time: Option<Moment>,
) -> Result<Parsed, Reject> {
    if detail.is_test() {
        return Ok(Parsed::TestNotification);
    }
    if detail.way()? != way {
        return Err(Reject::UnknownTransition(quote(
            detail.transition.as_deref().unwrap_or_default(),
        )));
    }
    let instance = field::instance("EC2InstanceId", detail.instance.as_ref())?;
    Ok(Parsed::Interruptions(vec![Interruption {
        instance,
        event_id: event_id.to_owned(),
        time,
        cause: detail.cause(way)?,
    }]))
}

/// `EC2 Instance Launch Successful`: relevant only if the instance moves out of a warm pool into
/// its group, because it may have been a Node before.
pub(super) fn launched(
    detail: &Lifecycle<'_>,
    event_id: &str,
    time: Option<Moment>,
) -> Result<Parsed, Reject> {
    if detail.is_test() {
        return Ok(Parsed::TestNotification);
    }
    let (origin, destination) = (end(detail.origin.as_ref()), end(detail.destination.as_ref()));
    if (origin, destination) != (Some(PoolEnd::WarmPool), Some(PoolEnd::Group)) {
        return Ok(Parsed::Irrelevant(Irrelevant::OrdinaryLaunch));
    }
    let instance = field::instance("EC2InstanceId", detail.instance.as_ref())?;
    let group = GroupName::from(field::needed_name("AutoScalingGroupName", detail.group.as_ref())?);
    Ok(Parsed::Interruptions(vec![Interruption {
        instance,
        event_id: event_id.to_owned(),
        time,
        cause: Cause::LaunchSuccessful { group },
    }]))
}

/// From a notification that Auto Scaling itself sent.
pub(super) fn from_native(native: &Lifecycle<'_>) -> Result<Parsed, Reject> {
    if native.is_test() {
        return Ok(Parsed::TestNotification);
    }
    if native.transition.is_none() {
        // From PutNotificationConfiguration: completed and failed launches and terminations.
        let scaling = native.event.as_deref().is_some_and(|e| e.starts_with("autoscaling:"));
        return if scaling {
            Ok(Parsed::Irrelevant(Irrelevant::OtherNotification))
        } else {
            Err(Reject::OtherShape)
        };
    }
    let way = native.way()?;
    let instance = field::instance("EC2InstanceId", native.instance.as_ref())?;
    let event_id = field::name("RequestId", native.request.as_ref())?.to_owned();
    Ok(Parsed::Interruptions(vec![Interruption {
        instance,
        event_id,
        time: field::time(native.time.as_ref()),
        cause: native.cause(way)?,
    }]))
}

/// From lines of `Key: value`, as Auto Scaling writes notifications to a topic (Auto Scaling user
/// guide, "Route notifications to Amazon SNS"). `None` if the text has another form.
pub(super) fn from_lines(text: &str) -> Option<Result<Parsed, Reject>> {
    let pairs = || {
        text.lines()
            .filter_map(|line| line.split_once(':'))
            .map(|(key, value)| (key.trim(), value.trim()))
    };
    if !pairs().any(|(key, value)| {
        matches!(key, "LifecycleTransition" | "Event") && value.starts_with("autoscaling:")
    }) {
        return None;
    }
    let mut native = Lifecycle::default();
    for (key, value) in pairs() {
        if key == "NotificationMetadata" {
            native.metadata = Some(AnyText(value.into()));
        }
        let place = match key {
            "LifecycleTransition" => &mut native.transition,
            "Event" => &mut native.event,
            "EC2InstanceId" => &mut native.instance,
            "AutoScalingGroupName" => &mut native.group,
            "LifecycleHookName" => &mut native.hook,
            "LifecycleActionToken" => &mut native.token,
            "Origin" => &mut native.origin,
            "Destination" => &mut native.destination,
            "Action" => &mut native.action,
            "RequestId" => &mut native.request,
            "Time" => &mut native.time,
            _ => continue,
        };
        if place.replace(Text(value.into())).is_some() {
            return Some(Err(Reject::DuplicateKey(quote(key))));
        }
    }
    Some(from_native(&native))
}

fn end(text: Option<&Text<'_>>) -> Option<PoolEnd> {
    match &**text? {
        "EC2" => Some(PoolEnd::Ec2),
        "AutoScalingGroup" => Some(PoolEnd::Group),
        "WarmPool" => Some(PoolEnd::WarmPool),
        _ => None,
    }
}

/// A root volume replacement has the form of a termination with the group as both `Origin` and
/// `Destination`, and `Action` is `ReplaceRootVolume` (Auto Scaling user guide, "Replace root
/// volumes during instance refresh"). Without an `Action`, an instance that moves from the group to
/// the group does not terminate either.
fn purpose(
    action: Option<&str>,
    origin: Option<PoolEnd>,
    destination: Option<PoolEnd>,
) -> HookPurpose {
    match action {
        Some("ReplaceRootVolume") => HookPurpose::ReplaceRootVolume,
        None | Some("")
            if origin == Some(PoolEnd::Group) && destination == Some(PoolEnd::Group) =>
        {
            HookPurpose::ReplaceRootVolume
        }
        _ => HookPurpose::Ordinary,
    }
}

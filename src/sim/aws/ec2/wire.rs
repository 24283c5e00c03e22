//! The actions of EC2, in its Query protocol.

use super::{filter::Filters, status};
use crate::{
    domain::Moment,
    sim::aws::{
        answer::{ApiError, Asked},
        events::millis_text,
        instance::{Instance, State as InstanceState},
        state::State,
        xml::{Form, Xml},
    },
};

pub(super) const NAMESPACE: &str = "http://ec2.amazonaws.com/doc/2016-11-15/";
/// Maximum number of instances in a page of DescribeInstances, with or without `MaxResults`.
const PAGE: usize = 1000;

pub(in crate::sim::aws) fn handle(
    state: &mut State,
    now: Moment,
    asked: &Asked,
) -> Result<String, ApiError> {
    match asked.action.as_str() {
        "DescribeInstances" => describe(state, &asked.form),
        "DescribeInstanceStatus" => status::describe(state, &asked.form),
        "TerminateInstances" => change(
            state,
            now,
            &asked.form,
            "TerminateInstancesResponse",
            InstanceState::ShuttingDown,
        ),
        "StopInstances" => {
            change(state, now, &asked.form, "StopInstancesResponse", InstanceState::Stopping)
        }
        other => Err(ApiError::new(
            "InvalidAction",
            format!("The action {other} is not valid for this web service."),
        )),
    }
}

/// What a request is about: instance ids, or filters as `name=value,value`.
pub(in crate::sim::aws) fn object(form: &Form) -> String {
    let mut parts = vec![form.list("InstanceId").join(",")];
    let filters = (1..).map_while(|n| {
        let name = form.get(&format!("Filter.{n}.Name"))?;
        Some(format!("{name}={}", form.list(&format!("Filter.{n}.Value")).join(",")))
    });
    parts.extend(filters);
    parts.retain(|part| !part.is_empty());
    parts.join(";")
}

/// The ids named; one that is malformed or unknown fails the whole call.
pub(super) fn named<'a>(state: &State, form: &'a Form) -> Result<Vec<&'a str>, ApiError> {
    let ids = form.list("InstanceId");
    for id in &ids {
        let digits = id.strip_prefix("i-").unwrap_or_default();
        if !matches!(digits.len(), 8 | 17) || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(ApiError::new(
                "InvalidInstanceID.Malformed",
                format!("Invalid id: \"{id}\""),
            ));
        }
    }
    let unknown: Vec<&str> =
        ids.iter().copied().filter(|id| !state.instances.contains_key(*id)).collect();
    match unknown.as_slice() {
        [] => Ok(ids),
        [one] => Err(ApiError::new(
            "InvalidInstanceID.NotFound",
            format!("The instance ID '{one}' does not exist"),
        )),
        many => Err(ApiError::new(
            "InvalidInstanceID.NotFound",
            format!("The instance IDs '{}' do not exist", many.join(", ")),
        )),
    }
}

fn describe(state: &mut State, form: &Form) -> Result<String, ApiError> {
    let ids = named(state, form)?;
    let filters = Filters::read(form)?;
    let size = match form.get("MaxResults").map(str::parse::<usize>) {
        None => PAGE,
        Some(_) if !ids.is_empty() => {
            let message = "The parameter instancesSet cannot be used with the parameter maxResults";
            return Err(ApiError::new("InvalidParameterCombination", message));
        }
        Some(Ok(n)) if (5..=1000).contains(&n) => n,
        Some(_) => {
            return Err(ApiError::new(
                "InvalidParameterValue",
                "Value for parameter maxResults is invalid. Expecting a value from 5 to 1000.",
            ));
        }
    };
    let after = form.get("NextToken").unwrap_or_default();
    let request = state.uuid();
    let mut chosen: Vec<&Instance> = if !ids.is_empty() {
        ids.iter().filter_map(|id| state.instances.get(*id)).collect()
    } else if let Some(ids) = filters.ids() {
        ids.iter().filter_map(|id| state.instances.get(id)).collect()
    } else {
        state.instances.values().collect()
    };
    chosen.retain(|instance| filters.match_instance(instance) && instance.id.as_str() > after);
    chosen.sort_by(|a, b| a.id.cmp(&b.id));
    chosen.dedup_by(|a, b| a.id == b.id);
    let next =
        (chosen.len() > size).then(|| chosen.get(size - 1).map(|last| last.id.clone())).flatten();
    chosen.truncate(size);
    let account = &state.settings.account;
    Ok(Xml::document("DescribeInstancesResponse", NAMESPACE, |xml| {
        xml.text("requestId", &request);
        xml.list("reservationSet", "item", chosen, |xml, instance| {
            // One reservation per instance, as if each had been launched separately.
            xml.text("reservationId", instance.id.replacen("i-", "r-", 1));
            xml.text("ownerId", account);
            xml.element("groupSet", |_| {});
            xml.list("instancesSet", "item", [instance], write);
        });
        if let Some(next) = next {
            xml.text("nextToken", next);
        }
    }))
}

fn write(xml: &mut Xml, instance: &Instance) {
    xml.text("instanceId", &instance.id);
    xml.text("imageId", "ami-0123456789abcdef0");
    write_state(xml, "instanceState", instance.state);
    xml.text("privateDnsName", &instance.private_dns);
    xml.text("dnsName", "");
    xml.text("reason", "");
    xml.text("instanceType", &instance.instance_type);
    xml.text("launchTime", millis_text(instance.launched));
    xml.element("placement", |xml| {
        xml.text("availabilityZone", &instance.zone);
        xml.text("tenancy", "default");
    });
    xml.element("monitoring", |xml| xml.text("state", "disabled"));
    if !instance.private_ip.is_empty() {
        xml.text("subnetId", "subnet-0a1b2c3d4e5f60718");
        xml.text("vpcId", &instance.vpc);
        xml.text("privateIpAddress", &instance.private_ip);
    }
    xml.text("architecture", "x86_64");
    if instance.spot {
        xml.text("instanceLifecycle", "spot");
    }
    if let Some(reservation) = &instance.capacity_reservation {
        xml.text("capacityReservationId", reservation);
    }
    xml.list("tagSet", "item", &instance.tags, |xml, (key, value)| {
        xml.text("key", key);
        xml.text("value", value);
    });
}

fn write_state(xml: &mut Xml, name: &str, state: InstanceState) {
    xml.element(name, |xml| {
        xml.text("code", state.code().to_string());
        xml.text("name", state.as_str());
    });
}

/// TerminateInstances and StopInstances: hooks or not.
fn change(
    state: &mut State,
    now: Moment,
    form: &Form,
    response: &str,
    to: InstanceState,
) -> Result<String, ApiError> {
    let ids: Vec<String> = named(state, form)?.into_iter().map(str::to_owned).collect();
    let before: Vec<InstanceState> =
        ids.iter().filter_map(|id| state.instances.get(id)).map(|i| i.state).collect();
    for id in &ids {
        state.end_instance(now, id, to);
    }
    let request = state.uuid();
    Ok(Xml::document(response, NAMESPACE, |xml| {
        xml.text("requestId", &request);
        xml.list("instancesSet", "item", ids.iter().zip(before), |xml, (id, before)| {
            xml.text("instanceId", id);
            write_state(xml, "currentState", state.instances.get(id).map_or(before, |i| i.state));
            write_state(xml, "previousState", before);
        });
    }))
}

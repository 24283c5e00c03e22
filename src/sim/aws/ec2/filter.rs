//! The filters of DescribeInstances.

use wildmatch::WildMatch;

use crate::sim::aws::{answer::ApiError, instance::Instance, xml::Form};

/// Maximum number of values in all filters of a request together.
const MOST_VALUES: usize = 200;

/// `Filter.N.Name` and `Filter.N.Value.M`: an instance must match one value of each.
#[derive(Debug)]
pub(super) struct Filters(Vec<Filter>);

#[derive(Debug)]
struct Filter {
    field: Field,
    plain: Vec<String>,
    /// Values with `*` or `?`.
    patterns: Vec<WildMatch>,
}

#[derive(Debug, PartialEq, Eq)]
enum Field {
    Id,
    State,
    StateCode,
    PrivateDns,
    PrivateIp,
    Zone,
    Vpc,
    Type,
    Lifecycle,
    Reservation,
    TagKey,
    TagValue,
    Tag(String),
}

impl Filters {
    pub(super) fn read(form: &Form) -> Result<Self, ApiError> {
        let mut filters = Vec::new();
        let mut values_in_all = 0;
        for n in 1.. {
            let Some(name) = form.get(&format!("Filter.{n}.Name")) else { break };
            let values = form.list(&format!("Filter.{n}.Value"));
            let field = Field::read(name)
                .ok_or_else(|| invalid(format!("The filter '{name}' is invalid")))?;
            if values.is_empty() {
                return Err(invalid(format!("The filter '{name}' has no values")));
            }
            values_in_all += values.len();
            let (patterns, plain): (Vec<&str>, Vec<&str>) =
                values.into_iter().partition(|v| v.contains(['*', '?']));
            filters.push(Filter {
                field,
                plain: plain.into_iter().map(str::to_owned).collect(),
                patterns: patterns.into_iter().map(WildMatch::new).collect(),
            });
        }
        if values_in_all > MOST_VALUES {
            let message = format!(
                "The maximum number of filter values specified on a single call is {MOST_VALUES}"
            );
            return Err(ApiError::new("FilterLimitExceeded", message));
        }
        Ok(Self(filters))
    }

    /// The only ids that can match, if a filter lists ids without wildcards.
    pub(super) fn ids(&self) -> Option<&[String]> {
        self.0
            .iter()
            .find(|f| f.field == Field::Id && f.patterns.is_empty())
            .map(|f| f.plain.as_slice())
    }

    pub(super) fn match_instance(&self, instance: &Instance) -> bool {
        self.0.iter().all(|filter| filter.matches(instance))
    }
}

impl Filter {
    fn is(&self, value: &str) -> bool {
        self.plain.iter().any(|v| v == value) || self.patterns.iter().any(|p| p.matches(value))
    }

    fn matches(&self, instance: &Instance) -> bool {
        match &self.field {
            Field::Id => self.is(&instance.id),
            Field::State => self.is(instance.state.as_str()),
            Field::StateCode => self.is(&instance.state.code().to_string()),
            Field::PrivateDns => self.is(&instance.private_dns),
            Field::PrivateIp => self.is(&instance.private_ip),
            Field::Zone => self.is(&instance.zone),
            Field::Vpc => self.is(&instance.vpc),
            Field::Type => self.is(&instance.instance_type),
            Field::Lifecycle => self.is(if instance.spot { "spot" } else { "" }),
            Field::Reservation => {
                instance.capacity_reservation.as_ref().is_some_and(|id| self.is(id))
            }
            Field::TagKey => instance.tags.keys().any(|key| self.is(key)),
            Field::TagValue => instance.tags.values().any(|value| self.is(value)),
            Field::Tag(key) => instance.tags.get(key).is_some_and(|value| self.is(value)),
        }
    }
}

impl Field {
    fn read(name: &str) -> Option<Self> {
        Some(match name {
            "instance-id" => Self::Id,
            "instance-state-name" => Self::State,
            "instance-state-code" => Self::StateCode,
            "private-dns-name" | "network-interface.private-dns-name" => Self::PrivateDns,
            "private-ip-address" => Self::PrivateIp,
            "availability-zone" => Self::Zone,
            "vpc-id" => Self::Vpc,
            "instance-type" => Self::Type,
            "instance-lifecycle" => Self::Lifecycle,
            "capacity-reservation-id" => Self::Reservation,
            "tag-key" => Self::TagKey,
            "tag-value" => Self::TagValue,
            _ => Self::Tag(name.strip_prefix("tag:")?.to_owned()),
        })
    }
}

fn invalid(message: String) -> ApiError {
    ApiError::new("InvalidParameterValue", message)
}

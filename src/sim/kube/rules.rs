//! Which requests meet which fault.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use super::{
    failure::Failure,
    faults::{Away, Fault, Match, Rule, RuleId},
    json::Look,
};

/// What a request asks for, as rules and the journal see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) client: String,
    pub(super) verb: String,
    pub(super) resource: String,
    pub(super) group: String,
    pub(super) subresource: String,
    pub(super) namespace: String,
    pub(super) name: String,
}

impl Asked {
    pub(super) fn matches(&self, m: &Match) -> bool {
        let is = |wanted: &Option<String>, have: &str| wanted.as_ref().is_none_or(|w| w == have);
        m.client.as_ref().is_none_or(|c| self.client.starts_with(c.as_str()))
            && is(&m.verb, &self.verb)
            && is(&m.resource, &self.resource)
            && is(&m.subresource, &self.subresource)
            && is(&m.namespace, &self.namespace)
            && is(&m.name, &self.name)
    }

    /// The resource, with its subresource.
    pub(super) fn whole_resource(&self) -> String {
        if self.subresource.is_empty() {
            self.resource.clone()
        } else {
            format!("{}/{}", self.resource, self.subresource)
        }
    }

    /// 403 as RBAC words it.
    pub(super) fn forbidden(&self) -> Failure {
        let plural = if self.group.is_empty() {
            self.resource.clone()
        } else {
            format!("{}.{}", self.resource, self.group)
        };
        let place = if self.namespace.is_empty() {
            "at the cluster scope".to_owned()
        } else {
            format!("in the namespace \"{}\"", self.namespace)
        };
        let name = if self.name.is_empty() { String::new() } else { format!(" \"{}\"", self.name) };
        let message = format!(
            "{plural}{name} is forbidden: User \"system:serviceaccount:sundown:sundown\" cannot \
             {} resource \"{}\" in API group \"{}\" {place}",
            self.verb,
            self.whole_resource(),
            self.group
        );
        let mut details = json!({ "kind": self.resource });
        if !self.group.is_empty() {
            details.put("group", self.group.as_str());
        }
        if !self.name.is_empty() {
            details.put("name", self.name.as_str());
        }
        Failure::new(403, "Forbidden", message).with_details(details)
    }
}

/// The faults in force.
#[derive(Debug, Default)]
pub(super) struct Rules {
    next: u64,
    all: BTreeMap<RuleId, Counted>,
    pub(super) away: Option<Away>,
    pub(super) overload: Option<u32>,
    pub(super) unauthorized: bool,
    /// Clients whose tags begin like this get no answers.
    pub(super) cut_off: BTreeSet<String>,
}

#[derive(Debug)]
struct Counted {
    rule: Rule,
    seen: usize,
    hits: usize,
}

impl Rules {
    pub(super) fn add(&mut self, rule: Rule) -> RuleId {
        self.next += 1;
        let id = RuleId(self.next);
        self.all.insert(id, Counted { rule, seen: 0, hits: 0 });
        id
    }

    pub(super) fn lift(&mut self, id: RuleId) {
        self.all.remove(&id);
    }

    /// A rule forbids such a request. To ask is not to make one: nothing is counted.
    pub(super) fn forbid(&self, asked: &Asked) -> bool {
        self.all
            .values()
            .any(|c| c.rule.fault == Fault::Forbidden && asked.matches(&c.rule.matching))
    }

    pub(super) fn is_cut_off(&self, client: &str) -> bool {
        self.cut_off.iter().any(|start| client.starts_with(start.as_str()))
    }

    /// The faults that a request meets, in the order in which they were put in.
    pub(super) fn judge(&mut self, asked: &Asked, random: &mut fastrand::Rng) -> Vec<Fault> {
        match self.away {
            Some(Away::Refusing) => return vec![Fault::Refused],
            Some(Away::Silent) => return vec![Fault::Hang],
            None => {}
        }
        if self.is_cut_off(&asked.client) {
            return vec![Fault::Hang];
        }
        let mut met = Vec::new();
        if self.unauthorized {
            met.push(Fault::Unauthorized);
        }
        if let Some(retry_after) = self.overload
            && asked.verb != "watch"
        {
            met.push(Fault::Overloaded { retry_after });
        }
        for counted in self.all.values_mut().filter(|c| asked.matches(&c.rule.matching)) {
            counted.seen += 1;
            let spent = counted.rule.times.is_some_and(|times| counted.hits >= times);
            let hit = counted.rule.share >= 1.0 || random.f64() < counted.rule.share;
            if counted.seen > counted.rule.after && !spent && hit {
                counted.hits += 1;
                met.push(counted.rule.fault.clone());
            }
        }
        met
    }
}

//! Faults that tests switch on and off at run time.

use std::time::Duration;

use wildmatch::WildMatch;

use crate::domain::Moment;

/// What goes wrong with a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Refused with the service's own throttling error.
    Throttle,
    /// HTTP 500 with the service's own code.
    InternalError,
    /// HTTP 503 with the service's own code.
    Unavailable,
    /// The caller may not.
    AccessDenied,
    /// The caller's credentials have expired.
    ExpiredToken,
    /// SQS only: the queue is gone. Other services are not harmed.
    QueueMissing,
    /// Auto Scaling only: HTTP 500 `ResourceContention`. Other services are not harmed.
    ResourceContention,
    /// Auto Scaling only: HTTP 400 `ValidationError` with this message. Other services are not
    /// harmed.
    Invalid(&'static str),
    /// The same, of calls that carry a lifecycle action token only.
    InvalidToken(&'static str),
    /// Answered this much later; the effect comes after it too. Adds up with other faults.
    Latency(Duration),
    /// Never answered, no effect: a half-open socket.
    Hang,
    /// The connection is cut, no effect.
    Cut,
    /// Takes effect, but is never answered.
    HangAfterEffect,
    /// Takes effect, then the connection is cut.
    CutAfterEffect,
    /// The answer is HTTP 200 with a body that the protocol does not know; no effect.
    Garbage,
}

/// How often a fault happens.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum How {
    /// To every call.
    Always,
    /// To the next calls, up to this number.
    Times(u64),
    /// To each call with this probability (0 to 1).
    Probability(f64),
    /// To every call before this moment.
    Until(Moment),
    /// With this probability, before this moment.
    ProbabilityUntil(f64, Moment),
    /// To every call beyond this number in a second.
    Beyond(u32),
}

/// A fault, where, and how often.
#[derive(Debug, Clone)]
pub struct FaultRule {
    api: WildMatch,
    object: WildMatch,
    fault: Fault,
    how: How,
    /// The calls of the second of the last one.
    recent: (i64, u32),
}

impl FaultRule {
    /// `api` is a pattern over names like `sqs:ReceiveMessage` (`*`, `sqs:*`,
    /// `autoscaling:Complete*`).
    #[must_use]
    pub fn new(api: &str, fault: Fault, how: How) -> Self {
        Self { api: WildMatch::new(api), object: WildMatch::new("*"), fault, how, recent: (0, 0) }
    }

    /// Only for calls about an object that matches this pattern (see
    /// [`Call::object`](super::Call::object)).
    #[must_use]
    pub fn about(mut self, object: &str) -> Self {
        self.object = WildMatch::new(object);
        self
    }
}

/// Names a rule, to end it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct FaultId(u64);

/// How a queue misbehaves within what SQS allows itself. Probabilities are 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Disorder {
    /// A message stays visible although it was just received.
    pub duplicate: f64,
    /// A message is received before those sent earlier.
    pub reorder: f64,
    /// A delete that succeeds does not delete.
    pub forget_delete: f64,
    /// A receive brings one message or two, however many are waiting: real queues are spread over
    /// servers.
    pub partial: f64,
}

/// What the rules in force do to one call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) delay: Duration,
    pub(super) fault: Option<Fault>,
}

/// The rules in force.
#[derive(Debug)]
pub(super) struct Faults {
    rules: Vec<(FaultId, FaultRule)>,
    next: u64,
    random: fastrand::Rng,
}

impl Faults {
    pub(super) fn new(seed: u64) -> Self {
        Self { rules: Vec::new(), next: 0, random: fastrand::Rng::with_seed(seed) }
    }

    pub(super) fn add(&mut self, rule: FaultRule) -> FaultId {
        let id = FaultId(self.next);
        self.next += 1;
        self.rules.push((id, rule));
        id
    }

    pub(super) fn remove(&mut self, id: FaultId) {
        self.rules.retain(|(i, _)| *i != id);
    }

    pub(super) fn clear(&mut self) {
        self.rules.clear();
    }

    /// Latencies add up; of the others the first that strikes wins.
    pub(super) fn plan(&mut self, now: Moment, api: &str, object: &str, token: bool) -> Plan {
        let mut plan = Plan::default();
        for (_, rule) in &mut self.rules {
            let latency = matches!(rule.fault, Fault::Latency(_));
            let spared = matches!(rule.fault, Fault::InvalidToken(_)) && !token;
            if (!latency && plan.fault.is_some())
                || spared
                || !rule.concerns(api, object)
                || !rule.strikes(now, &mut self.random)
            {
                continue;
            }
            match rule.fault {
                Fault::Latency(d) => plan.delay += d,
                fault => plan.fault = Some(fault),
            }
        }
        self.rules.retain(|(_, rule)| !rule.how.is_over(now));
        plan
    }
}

impl FaultRule {
    fn concerns(&self, api: &str, object: &str) -> bool {
        let harmless = match self.fault {
            Fault::QueueMissing => !api.starts_with("sqs:"),
            Fault::ResourceContention | Fault::Invalid(_) | Fault::InvalidToken(_) => {
                !api.starts_with("autoscaling:")
            }
            _ => false,
        };
        !harmless && self.api.matches(api) && self.object.matches(object)
    }

    fn strikes(&mut self, now: Moment, random: &mut fastrand::Rng) -> bool {
        let How::Beyond(most) = self.how else { return self.how.strikes(now, random) };
        let second = now.as_second();
        self.recent =
            if self.recent.0 == second { (second, self.recent.1 + 1) } else { (second, 1) };
        self.recent.1 > most
    }
}

impl How {
    fn strikes(&mut self, now: Moment, random: &mut fastrand::Rng) -> bool {
        match self {
            Self::Always | Self::Beyond(_) => true,
            Self::Times(0) => false,
            Self::Times(n) => {
                *n -= 1;
                true
            }
            Self::Probability(p) => random.f64() < *p,
            Self::Until(end) => now < *end,
            Self::ProbabilityUntil(p, end) => now < *end && random.f64() < *p,
        }
    }

    fn is_over(&self, now: Moment) -> bool {
        match self {
            Self::Times(n) => *n == 0,
            Self::Until(end) | Self::ProbabilityUntil(_, end) => now >= *end,
            Self::Always | Self::Probability(_) | Self::Beyond(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_hits_matching_calls_as_often_as_configured() {
        let now = Moment::UNIX_EPOCH;
        let mut faults = Faults::new(1);
        faults.add(FaultRule::new("sqs:*", Fault::Latency(Duration::from_secs(1)), How::Always));
        faults.add(FaultRule::new("sqs:Receive*", Fault::Throttle, How::Times(1)).about("q"));
        assert_eq!(faults.plan(now, "ec2:DescribeInstances", "", false), Plan::default());
        assert_eq!(faults.plan(now, "sqs:ReceiveMessage", "other", false).fault, None);
        assert_eq!(
            faults.plan(now, "sqs:ReceiveMessage", "q", false),
            Plan { delay: Duration::from_secs(1), fault: Some(Fault::Throttle) }
        );
        assert_eq!(faults.plan(now, "sqs:ReceiveMessage", "q", false).fault, None);
        let id = faults.add(FaultRule::new("*", Fault::Cut, How::Always));
        assert_eq!(faults.plan(now, "ec2:DescribeInstances", "", false).fault, Some(Fault::Cut));
        faults.remove(id);
        faults.add(FaultRule::new("autoscaling:*", Fault::Throttle, How::Beyond(2)));
        let struck =
            (0..4).filter(|_| faults.plan(now, "autoscaling:X", "", false).fault.is_some()).count();
        assert_eq!(struck, 2);
        assert_eq!(
            faults.plan(now + Duration::from_secs(1), "autoscaling:X", "", false).fault,
            None
        );
        assert_eq!(faults.plan(now, "ec2:DescribeInstances", "", false).fault, None);
    }
}

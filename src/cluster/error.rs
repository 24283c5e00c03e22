//! What went wrong with a request, and what that means.

use std::{fmt, time::Duration};

use kube::core::Status;

use crate::domain::{ApiAnswer, with_causes};

/// What a failed request means for whoever made it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Problem {
    /// 409: the object has changed since it was read, or it is another one (or it exists already).
    /// Read again, then try again.
    Conflict,
    /// 404, in the API server's own words: no such object.
    NotFound,
    /// 403 in the words of the API server's authorizer: a right is missing.
    Forbidden,
    /// 403 otherwise: we may, but this one request is not let in. An admission webhook or policy, a
    /// namespace that is being terminated, the state of a disruption budget.
    NotAdmitted,
    /// 401: the credentials are not accepted.
    Unauthorized,
    /// 400, 422 and what else says that the request itself is wrong.
    Invalid,
    /// 429 that does not come from a disruption budget: the API server sheds load, everything
    /// should slow down.
    Overload {
        /// How long it asks to be left alone.
        retry_after: Option<Duration>,
    },
    /// 429 with a cause: a disruption budget says no to this one request.
    Refused,
    /// 410: the resource version is too old, list again.
    Expired,
    /// 5xx: the server, or something behind it, failed.
    Server,
    /// No answer: no connection, it broke, or our deadline passed. The request may or may not have
    /// had an effect.
    Unreachable,
    /// There was an answer, but it could not be read.
    Unreadable,
    /// Not sent: the gate for writes is closed (no longer the leader, or nothing may be written at
    /// all).
    HeldBack,
}

impl Problem {
    /// Its word in labels and logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Conflict => "conflict",
            Self::NotFound => "not_found",
            Self::Forbidden => "forbidden",
            Self::NotAdmitted => "not_admitted",
            Self::Unauthorized => "unauthorized",
            Self::Invalid => "invalid",
            Self::Overload { .. } => "overload",
            Self::Refused => "refused",
            Self::Expired => "expired",
            Self::Server => "server",
            Self::Unreachable => "unreachable",
            Self::Unreadable => "unreadable",
            Self::HeldBack => "held_back",
        }
    }

    /// What an answer that is no 2xx means.
    #[must_use]
    pub fn of(answer: &ApiAnswer) -> Self {
        match answer.code {
            0 => Self::Unreachable,
            401 => Self::Unauthorized,
            403 if lacks_a_right(&answer.message) => Self::Forbidden,
            403 => Self::NotAdmitted,
            404 if answer.reason == "NotFound" => Self::NotFound,
            409 => Self::Conflict,
            410 => Self::Expired,
            429 if answer.has_cause("DisruptionBudget") => Self::Refused,
            429 => Self::Overload { retry_after: answer.retry_after },
            // A proxy that does not find its way says 404 too, in other words.
            404 | 500.. => Self::Server,
            _ => Self::Invalid,
        }
    }
}

/// `pods "p" is forbidden: User "system:serviceaccount:sundown:sundown" cannot create resource "pods/eviction" …`,
/// as RBAC and every other authorizer has it worded. Admission begins alike and goes on otherwise
/// ("unable to create new content", "violates PodSecurity"); a webhook's own words, which may quote
/// anything, come after its name.
fn lacks_a_right(message: &str) -> bool {
    message.split_once("forbidden: User \"").is_some_and(|(before, after)| {
        !before.contains("admission webhook") && after.contains("\" cannot ")
    })
}

/// A request that failed: what was to be done, to what, and why it was not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterError {
    /// What was to be done, as a phrase after "cannot".
    pub action: &'static str,
    /// To which object; empty for a whole collection.
    pub object: String,
    /// What it means.
    pub problem: Problem,
    /// What the API server said; code 0 when it said nothing.
    pub answer: Box<ApiAnswer>,
}

impl ClusterError {
    /// From an answer that is no 2xx.
    #[must_use]
    pub fn new(action: &'static str, object: impl Into<String>, answer: ApiAnswer) -> Self {
        Self {
            action,
            object: object.into(),
            problem: Problem::of(&answer),
            answer: Box::new(answer),
        }
    }

    /// Without an answer.
    #[must_use]
    pub fn silent(
        action: &'static str,
        object: impl Into<String>,
        problem: Problem,
        message: impl Into<String>,
    ) -> Self {
        let answer = ApiAnswer { message: message.into(), ..ApiAnswer::default() };
        Self { action, object: object.into(), problem, answer: Box::new(answer) }
    }

    /// From an error of the client. An error status that was no JSON has lost its `Retry-After`
    /// here; [`super::Cluster::call`] keeps it.
    #[must_use]
    pub fn from_kube(action: &'static str, object: impl Into<String>, error: &kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::new(action, object, answer_of(status, None)),
            kube::Error::SerdeError(e) => {
                Self::silent(action, object, Problem::Unreadable, e.to_string())
            }
            kube::Error::BuildRequest(e) => {
                Self::silent(action, object, Problem::Invalid, e.to_string())
            }
            other => Self::silent(action, object, Problem::Unreachable, with_causes(other)),
        }
    }
}

impl fmt::Display for ClusterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let space = if self.object.is_empty() { "" } else { " " };
        write!(f, "cannot {}{space}{}: ", self.action, self.object)?;
        match self.answer.code {
            0 => write!(f, "{}", self.problem.as_str().replace('_', " "))?,
            code => write!(f, "the API server answered {code}")?,
        }
        for part in [&self.answer.reason, &self.answer.message] {
            if !part.is_empty() {
                write!(f, ": {part}")?;
            }
        }
        Ok(())
    }
}

impl std::error::Error for ClusterError {}

/// A Status object as an answer. `header` is the `Retry-After` of the response.
pub(super) fn answer_of(status: &Status, header: Option<Duration>) -> ApiAnswer {
    let details = status.details.as_ref();
    let asked = details
        .map(|d| d.retry_after_seconds)
        .filter(|s| *s > 0)
        .map(|s| Duration::from_secs(s.into()));
    ApiAnswer {
        code: status.code,
        reason: status.reason.clone(),
        message: status.message.clone(),
        causes: details
            .map(|d| d.causes.iter().map(|c| (c.reason.clone(), c.message.clone())).collect())
            .unwrap_or_default(),
        retry_after: asked.or(header).filter(|d| !d.is_zero()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What alerts as a missing permission must be one.
    #[test]
    fn only_a_missing_right_is_forbidden() {
        let user = "User \"system:serviceaccount:sundown:sundown\" cannot create resource \
            \"pods/eviction\" in API group \"\" in the namespace \"a\"";
        let of = |message: &str| {
            Problem::of(&ApiAnswer {
                code: 403,
                reason: "Forbidden".to_owned(),
                message: message.to_owned(),
                ..ApiAnswer::default()
            })
        };
        for denied in [
            format!("pods \"p\" is forbidden: {user}"),
            format!(
                "pods \"p\" is forbidden: {user}: RBAC: clusterrole.rbac.authorization.k8s.io \
                 \"sundown\" not found"
            ),
            "nodes is forbidden: User \"system:anonymous\" cannot list resource \"nodes\" in API \
             group \"\" at the cluster scope"
                .to_owned(),
            "forbidden: User \"system:anonymous\" cannot get path \"/api\"".to_owned(),
        ] {
            assert_eq!(of(&denied), Problem::Forbidden, "{denied}");
        }
        for refused in [
            "pods \"p\" is forbidden: unable to create new content in namespace a because it is \
             being terminated"
                .to_owned(),
            "pods \"p\" is forbidden: ValidatingAdmissionPolicy 'quiet' with binding 'quiet' \
             denied request: not now"
                .to_owned(),
            "poddisruptionbudget.policy \"b\" is forbidden: pdb disruptions allowed is negative"
                .to_owned(),
            "admission webhook \"validation.gatekeeper.sh\" denied the request: no".to_owned(),
            format!("admission webhook \"w\" denied the request: pods \"p\" is forbidden: {user}"),
            "<html>403 Forbidden</html>".to_owned(),
            String::new(),
        ] {
            assert_eq!(of(&refused), Problem::NotAdmitted, "{refused}");
        }
    }
}

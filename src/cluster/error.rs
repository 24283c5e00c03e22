//! Failed requests to the API server, and what the caller should do about them.

use std::{fmt, time::Duration};

use kube::core::Status;

use crate::domain::{ApiAnswer, with_causes};

/// What a failed request means for its caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Problem {
    /// 409: the object has changed since it was read, or another object has its name, or it exists
    /// already. Read it again, then try again.
    Conflict,
    /// 404 with the reason of the API server itself: the object does not exist.
    NotFound,
    /// 403 with the message of the API server's authorizer: a right is missing.
    Forbidden,
    /// Any other 403: we have the right, but this one request is refused, by an admission webhook
    /// or policy, a namespace that is being terminated, or the state of a disruption budget.
    NotAdmitted,
    /// 401: the credentials are not accepted.
    Unauthorized,
    /// 400, 422 and other codes that mean that the request itself is wrong.
    Invalid,
    /// 429 without the cause of a disruption budget: the API server sheds load, every caller should
    /// slow down.
    Overload {
        /// The pause that the API server asks for, if it names one.
        retry_after: Option<Duration>,
    },
    /// 429 with the cause `DisruptionBudget`: a budget refuses this one request.
    Refused,
    /// 410: the resource version is too old; list again.
    Expired,
    /// 5xx: the server, or something behind it, failed.
    Server,
    /// No answer: there was no connection, it broke, or our deadline passed. The request may have
    /// taken effect or not.
    Unreachable,
    /// The answer could not be read.
    Unreadable,
    /// Not sent: the guard permits no write, because this process does not lead or may never write.
    HeldBack,
}

impl Problem {
    /// Its value in metric labels and logs.
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

    /// The problem behind an answer that is not 2xx.
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
            // Without the reason `NotFound`, a 404 comes from a proxy that found no backend.
            404 | 500.. => Self::Server,
            _ => Self::Invalid,
        }
    }
}

/// `pods "p" is forbidden: User "system:serviceaccount:sundown:sundown" cannot create resource
/// "pods/eviction" …`, as RBAC and every other authorizer words it. Messages of admission begin
/// alike but continue differently ("unable to create new content", "violates PodSecurity"). The
/// text of a webhook may quote anything, but follows the words "admission webhook".
fn lacks_a_right(message: &str) -> bool {
    message.split_once("forbidden: User \"").is_some_and(|(before, after)| {
        !before.contains("admission webhook") && after.contains("\" cannot ")
    })
}

/// A request that failed: the action, its object and the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterError {
    /// The action that failed, as a phrase after "cannot".
    pub action: &'static str,
    /// The object of the action; empty for a whole collection.
    pub object: String,
    /// What the failure means for the caller.
    pub problem: Problem,
    /// The API server's answer; its code is 0 if there was none.
    pub answer: Box<ApiAnswer>,
}

impl ClusterError {
    /// An error from an answer that is not 2xx.
    #[must_use]
    pub fn new(action: &'static str, object: impl Into<String>, answer: ApiAnswer) -> Self {
        Self {
            action,
            object: object.into(),
            problem: Problem::of(&answer),
            answer: Box::new(answer),
        }
    }

    /// An error without an answer of the API server.
    #[must_use]
    pub fn without_answer(
        action: &'static str,
        object: impl Into<String>,
        problem: Problem,
        message: impl Into<String>,
    ) -> Self {
        let answer = ApiAnswer { message: message.into(), ..ApiAnswer::default() };
        Self { action, object: object.into(), problem, answer: Box::new(answer) }
    }

    /// An error of the kube client. It has lost the `Retry-After` of an answer that was not JSON;
    /// [`super::Cluster::call`] keeps it.
    #[must_use]
    pub fn from_kube(action: &'static str, object: impl Into<String>, error: &kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::new(action, object, answer_of(status, None)),
            kube::Error::SerdeError(e) => {
                Self::without_answer(action, object, Problem::Unreadable, e.to_string())
            }
            kube::Error::BuildRequest(e) => {
                Self::without_answer(action, object, Problem::Invalid, e.to_string())
            }
            other => Self::without_answer(action, object, Problem::Unreachable, with_causes(other)),
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

/// Converts a Status object. `header` is the `Retry-After` of the response.
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

    /// `Forbidden` raises an alert about a missing permission, so nothing else may be `Forbidden`.
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

//! Checks whether `sundown run` could lead: the Lease exists, or may be created in its namespace.

use k8s_openapi::api::coordination::v1::Lease;
use kube::{
    Api, Client,
    api::{ObjectMeta, PostParams},
};

use super::{
    cluster::{within, words_of},
    finding::Finding,
};

const POINT: &str = "lease";

/// The API server's answer about the Lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum LeaseAnswer {
    /// It exists, and this is its holder. `None`: nobody holds it.
    Exists(Option<String>),
    /// It does not exist, and the API server accepted a dry run of its creation.
    Creatable,
    /// Its namespace does not exist.
    NoNamespace,
    /// Reading or creating it is forbidden, with the API server's message.
    Forbidden(String),
    /// The request failed for another reason, with the error.
    Unknown(String),
}

/// Reads the Lease. If it does not exist, sends its creation as a dry run, which changes nothing.
pub(super) async fn ask(client: &Client, namespace: &str, name: &str) -> LeaseAnswer {
    let api: Api<Lease> = Api::namespaced(client.clone(), namespace);
    match within(api.get_opt(name)).await {
        Ok(Some(lease)) => {
            return LeaseAnswer::Exists(
                lease.spec.and_then(|s| s.holder_identity).filter(|h| !h.is_empty()),
            );
        }
        Ok(None) => {}
        Err(error) => return refusal(&error),
    }
    let lease = Lease {
        metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
        spec: None,
    };
    match within(api.create(&PostParams { dry_run: true, ..PostParams::default() }, &lease)).await {
        Ok(_) => LeaseAnswer::Creatable,
        Err(error) => refusal(&error),
    }
}

fn refusal(error: &kube::Error) -> LeaseAnswer {
    match error {
        kube::Error::Api(status) if status.code == 404 => LeaseAnswer::NoNamespace,
        // It was created after it was read.
        kube::Error::Api(status) if status.code == 409 => LeaseAnswer::Exists(None),
        kube::Error::Api(status) if matches!(status.code, 401 | 403) => {
            LeaseAnswer::Forbidden(words_of(error))
        }
        other => LeaseAnswer::Unknown(words_of(other)),
    }
}

/// Without its Lease Sundown never leads, and drains nothing.
pub(super) fn judge(namespace: &str, name: &str, answer: LeaseAnswer) -> Finding {
    let about = format!("{namespace}/{name}");
    match answer {
        LeaseAnswer::Exists(Some(holder)) => {
            Finding::yes(POINT, about, format!("it is held by {holder}"))
        }
        LeaseAnswer::Exists(None) => Finding::yes(POINT, about, "it exists, and nobody holds it"),
        LeaseAnswer::Creatable => {
            Finding::yes(POINT, about, "it does not exist yet; the first leader creates it")
        }
        LeaseAnswer::NoNamespace => Finding::no(
            POINT,
            about,
            format!(
                "the namespace {namespace} does not exist: Sundown never leads, and drains nothing"
            ),
            format!(
                "kubectl create namespace {namespace}, or name the right one: --lease-namespace \
                 (without it: POD_NAMESPACE, else kube-system)"
            ),
        ),
        LeaseAnswer::Forbidden(why) => {
            let remedy = "the Role for `leases` and its RoleBinding must be in the namespace of \
                the Lease: compare them with deploy/manifests";
            Finding::no(POINT, about, why, remedy)
        }
        LeaseAnswer::Unknown(why) => {
            Finding::cannot_tell(POINT, about, why, "ask again in a minute")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::check::finding::Answer;

    #[test]
    fn without_a_usable_lease_the_answer_is_no_and_names_the_namespace() {
        let words = || "leases is forbidden".to_owned();
        for (answer, expected, named) in [
            (LeaseAnswer::Exists(Some("sundown-0_ab".to_owned())), Answer::Yes, "sundown-0_ab"),
            (LeaseAnswer::Exists(None), Answer::Yes, "nobody"),
            (LeaseAnswer::Creatable, Answer::Yes, "creates it"),
            (LeaseAnswer::NoNamespace, Answer::No, "namespace ops does not exist"),
            (LeaseAnswer::Forbidden(words()), Answer::No, "forbidden"),
            (LeaseAnswer::Unknown(words()), Answer::CannotTell, "forbidden"),
        ] {
            let finding = judge("ops", "sundown", answer.clone());
            assert_eq!(
                (finding.answer, finding.needed, finding.about.as_str()),
                (expected, true, "ops/sundown"),
                "{answer:?}"
            );
            assert!(finding.message.contains(named), "{answer:?}: {}", finding.message);
        }
        let remedy = judge("ops", "sundown", LeaseAnswer::NoNamespace).remedy.unwrap_or_default();
        assert!(
            remedy.contains("kubectl create namespace ops") && remedy.contains("--lease-namespace"),
            "{remedy}"
        );
    }
}

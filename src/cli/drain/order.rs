//! What the command line asks for: the request, and the nodes that a selector means. No I/O.

use crate::{
    cluster::RequestedNode,
    config::parse_duration,
    domain::{DrainRequest, Moment, RequestProblem, RequestStage, Selector, seconds},
};

/// The most nodes of one command.
pub(super) const MAX_NODES: usize = 500;
/// The longest name of a requester: Kubernetes allows no longer one after the `/` of a key.
const LONGEST_NAME: usize = 63;
/// The name of the requester if neither `--name` nor the user's name can be used.
const FALLBACK: &str = "cli";

/// The command cannot do what the command line asks for, and has changed nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}; nothing was changed")]
pub(in crate::cli) struct BadOrder(pub(super) String);

/// The name of the requester: `given`, or else the user's name with `-` for characters that a key
/// cannot have, or else `cli`.
pub(super) fn requester(given: Option<&str>, user: Option<&str>) -> Result<String, BadOrder> {
    let is_word = |c: char| c.is_ascii_alphanumeric();
    let is_inner = |c: char| is_word(c) || "-_.".contains(c);
    let Some(name) = given else {
        let kept: String = user.unwrap_or_default().chars().take(LONGEST_NAME).collect();
        let kept = kept.replace(|c| !is_inner(c), "-");
        let kept = kept.trim_matches(|c| !is_word(c));
        return Ok(if kept.is_empty() { FALLBACK } else { kept }.to_owned());
    };
    if name.len() <= LONGEST_NAME
        && name.chars().all(is_inner)
        && name.starts_with(is_word)
        && name.ends_with(is_word)
    {
        return Ok(name.to_owned());
    }
    Err(BadOrder(format!(
        "--name `{name}` cannot be the name of a request: use letters, digits, `-`, `_` and `.`, \
         at most {LONGEST_NAME} of them, with a letter or a digit at both ends"
    )))
}

/// The parts of a request, as the flags give them.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Given<'a> {
    pub(super) stage: RequestStage,
    /// An RFC 3339 time, or a duration from now.
    pub(super) deadline: Option<&'a str>,
    pub(super) reason: Option<&'a str>,
}

/// Makes the request. `now`: by the API server's clock.
pub(super) fn request(name: &str, given: Given<'_>, now: Moment) -> Result<DrainRequest, BadOrder> {
    let reason = given.reason.map(str::trim).filter(|reason| !reason.is_empty());
    if let Some(reason) = reason.filter(|reason| reason.contains(';')) {
        return Err(BadOrder(format!(
            "--reason `{reason}` has a `;`, which separates the fields of a request: use a comma"
        )));
    }
    let request = DrainRequest {
        name: name.into(),
        stage: given.stage,
        deadline: given.deadline.map(|text| deadline(text, now)).transpose()?,
        reason: reason.map(Into::into),
    };
    let refused = |problem: RequestProblem| BadOrder(format!("the request is wrong: {problem}"));
    request.check_deadline(now).map_err(refused)?;
    // The service would cut a longer reason and obey the request, so the person would not notice.
    if DrainRequest::read(name, &request.value()).map_err(refused)? != request {
        return Err(BadOrder(
            "--reason is too long or has more than one line: use one line of at most 200 characters"
                .to_owned(),
        ));
    }
    Ok(request)
}

/// A time, or a duration from `now`; in whole seconds, rounded up.
fn deadline(text: &str, now: Moment) -> Result<Moment, BadOrder> {
    let given = match text.trim().parse::<Moment>() {
        Ok(at) => Some(at),
        Err(_) => parse_duration(text).ok().map(|duration| now.plus(duration)),
    };
    let whole = given.map(|at| {
        let second = Moment::from_second(at.as_second()).unwrap_or(at);
        if second < at { second.plus(seconds(1)) } else { second }
    });
    whole.ok_or_else(|| {
        BadOrder(format!(
            "--deadline `{text}` is neither a time nor a duration: use an RFC 3339 time such as \
             2026-01-31T18:00:00Z, or a duration from now such as 2h"
        ))
    })
}

/// Whether a selector may mean every node of the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EveryNode {
    /// With `--cancel`, or with `--all-nodes` given twice.
    Allowed,
    /// Otherwise.
    Refused,
}

/// The nodes that the selector means, in the order of their names.
pub(super) fn selected(
    mut nodes: Vec<RequestedNode>,
    selector: &Selector,
    every: EveryNode,
) -> Result<Vec<RequestedNode>, BadOrder> {
    let all = nodes.len();
    nodes.retain(|found| selector.matches(&found.node.labels));
    nodes.sort_by(|one, other| one.node.name.cmp(&other.node.name));
    match nodes.len() {
        0 => Err(BadOrder("no node matches the selector".to_owned())),
        matched if matched == all && every == EveryNode::Refused => Err(BadOrder(format!(
            "the selector matches every node of the cluster ({all}): use a narrower one, or give \
             --all-nodes twice if you mean every node"
        ))),
        matched => at_most(matched).map(|()| nodes),
    }
}

/// Errs for more nodes than one command may change.
pub(super) fn at_most(count: usize) -> Result<(), BadOrder> {
    if count <= MAX_NODES {
        return Ok(());
    }
    Err(BadOrder(format!(
        "{count} nodes are too many for one command: at most {MAX_NODES}, so use a narrower \
         selector, and run it again for the others"
    )))
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, sync::Arc};

    use super::*;
    use crate::domain::Node;

    #[test]
    fn a_request_is_named_after_the_flag_or_the_user_or_the_command() {
        let long = "u".repeat(70);
        for (given, user, expected) in [
            (Some("upgrade"), Some("ann"), Some("upgrade")),
            (None, Some("ann"), Some("ann")),
            (None, Some("CORP\\ann o'neil"), Some("CORP-ann-o-neil")),
            (None, Some("-ann-"), Some("ann")),
            (None, Some("ünal"), Some("nal")),
            (None, Some(long.as_str()), Some(&*"u".repeat(63))),
            (None, Some("///"), Some("cli")),
            (None, None, Some("cli")),
            (Some(""), None, None),
            (Some("a b"), None, None),
            (Some("a/b"), None, None),
            (Some("-a"), None, None),
            (Some("a."), None, None),
            (Some(long.as_str()), None, None),
        ] {
            assert_eq!(requester(given, user).ok().as_deref(), expected, "{given:?} {user:?}");
        }
    }

    #[test]
    fn the_flags_make_the_value_of_the_annotation() {
        let now: Moment = "2026-01-31T16:00:00.25Z".parse().unwrap();
        let given = Given::default();
        for (given, expected) in [
            (given, "stage=drain"),
            (Given { stage: RequestStage::Cordon, ..given }, "stage=cordon"),
            (Given { deadline: Some("2h"), ..given }, "stage=drain;deadline=2026-01-31T18:00:01Z"),
            (
                Given { deadline: Some("2026-01-31T19:00:00+01:00"), ..given },
                "stage=drain;deadline=2026-01-31T18:00:00Z",
            ),
            (Given { reason: Some(" new kernel "), ..given }, "stage=drain;reason=new kernel"),
            (Given { reason: Some(" "), ..given }, "stage=drain"),
        ] {
            assert_eq!(request("ann", given, now).unwrap().value(), expected, "{given:?}");
        }
    }

    #[test]
    fn each_wrong_flag_is_named_with_what_to_write_instead() {
        let now: Moment = "2026-01-31T16:00:00Z".parse().unwrap();
        let (given, long) = (Given::default(), "r".repeat(201));
        let with_reason = |reason| Given { reason: Some(reason), ..given };
        let with_deadline = |deadline| Given { deadline: Some(deadline), ..given };
        for (given, words) in [
            (with_reason("a; b"), "--reason `a; b` has a `;`"),
            (with_reason("two\nlines"), "at most 200 characters"),
            (with_reason(&long), "at most 200 characters"),
            (with_deadline("tomorrow"), "neither a time nor a duration"),
            (with_deadline("5"), "neither a time nor a duration"),
            (with_deadline("2026-01-31"), "neither a time nor a duration"),
            (with_deadline("0s"), "deadline 2026-01-31T16:00:00Z has passed"),
            (with_deadline("2026-01-31T15:59:59Z"), "has passed: use a later one"),
        ] {
            let error = request("ann", given, now).unwrap_err().to_string();
            assert!(error.contains(words) && error.ends_with("; nothing was changed"), "{error}");
        }
    }

    fn labelled(name: &str, role: &str) -> RequestedNode {
        let labels = BTreeMap::from([("role".to_owned(), role.to_owned())]);
        let node = Node { labels: Arc::new(labels), ..Node::for_test(name) };
        RequestedNode { node, requests: BTreeMap::new() }
    }

    #[test]
    fn a_selector_that_means_every_node_no_node_or_too_many_is_refused() {
        use EveryNode::{Allowed, Refused};
        let nodes = || vec![labelled("b", "web"), labelled("a", "web"), labelled("c", "db")];
        for (selector, every, expected) in [
            ("role=web", Refused, Ok("ab")),
            ("role=web", Allowed, Ok("ab")),
            ("role", Refused, Err("matches every node of the cluster (3)")),
            ("", Refused, Err("give --all-nodes twice")),
            ("role", Allowed, Ok("abc")),
            ("", Allowed, Ok("abc")),
            ("role=batch", Allowed, Err("no node matches the selector")),
        ] {
            let found = selected(nodes(), &selector.parse().unwrap(), every);
            match (found, expected) {
                (Ok(found), Ok(names)) => {
                    let found: String = found.iter().map(|one| one.node.name.as_str()).collect();
                    assert_eq!(found, names, "{selector}");
                }
                (Err(error), Err(words)) => assert!(error.to_string().contains(words), "{error}"),
                (found, _) => panic!("{selector}: {found:?}"),
            }
        }
        let many = (0..=MAX_NODES).map(|n| labelled(&format!("n{n}"), "web")).collect();
        let refused = selected(many, &"role=web".parse().unwrap(), Allowed).unwrap_err();
        assert!(refused.to_string().contains("at most 500"), "{refused}");
    }
}

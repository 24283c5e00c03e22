//! The drain requests on a Node, as the index keeps them.

use super::{DrainRequest, MAX_REQUESTS, RequestProblem};

/// The longest name that is kept, in characters. Kubernetes allows no longer one.
const LONGEST_NAME: usize = 63;

/// One annotation `drain.sundown.dev/NAME` of a Node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptRequest {
    /// Its key after the `/`, at most 63 characters.
    pub name: Box<str>,
    /// What it asks for, or what is wrong with it. A deadline may have passed.
    pub read: Result<DrainRequest, RequestProblem>,
}

/// The requests on a Node: the first [`MAX_REQUESTS`] by name, and the number of the others, which
/// Sundown does not obey.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeRequests {
    first: Vec<KeptRequest>,
    more: usize,
}

/// Whether the requester with a certain name asks for a drain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asking<'a> {
    /// This is what its annotation asks for.
    For(&'a DrainRequest),
    /// Its annotation is no request.
    Wrong,
    /// The Node has no annotation of it.
    No,
    /// Not known: the Node has too many requests, and those that are kept come before it.
    NotKept,
}

impl NodeRequests {
    /// Adds the annotation with this key and value, if it is the key of a request. The caller adds
    /// each key once.
    pub fn add(&mut self, key: &str, value: &str) {
        let Some(name) = DrainRequest::name_of_key(key) else { return };
        let read = DrainRequest::read(name, value);
        let name: String = name.chars().take(LONGEST_NAME).collect();
        let request = KeptRequest { name: name.into(), read };
        let place = self.first.partition_point(|other| other.name <= request.name);
        if place < MAX_REQUESTS {
            self.first.insert(place, request);
        }
        if self.first.len() > MAX_REQUESTS || place >= MAX_REQUESTS {
            self.first.truncate(MAX_REQUESTS);
            self.more = self.more.saturating_add(1);
        }
    }

    /// There is no request.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.first.is_empty()
    }

    /// Those that are kept, in the order of their names.
    #[must_use]
    pub fn first(&self) -> &[KeptRequest] {
        &self.first
    }

    /// How many there are beside those.
    #[must_use]
    pub const fn more(&self) -> usize {
        self.more
    }

    /// What the requester with this name asks for.
    #[must_use]
    pub fn of(&self, name: &str) -> Asking<'_> {
        match self.first.iter().find(|request| &*request.name == name) {
            Some(KeptRequest { read: Ok(request), .. }) => Asking::For(request),
            Some(_) => Asking::Wrong,
            None if self.more > 0 && self.first.last().is_some_and(|last| *last.name < *name) => {
                Asking::NotKept
            }
            None => Asking::No,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requests(all: &[(&str, &str)]) -> NodeRequests {
        let mut requests = NodeRequests::default();
        for (name, value) in all {
            requests.add(&format!("drain.sundown.dev/{name}"), value);
        }
        requests
    }

    #[test]
    fn requests_are_kept_in_the_order_of_their_names_with_what_is_wrong() {
        let kept = requests(&[("b", "stage=cordon"), ("a", "typo"), ("c", "")]);
        let names: Vec<&str> = kept.first().iter().map(|request| &*request.name).collect();
        assert_eq!(names, ["a", "b", "c"]);
        assert_eq!((kept.of("a"), kept.of("d"), kept.more()), (Asking::Wrong, Asking::No, 0));
        assert!(matches!(kept.of("b"), Asking::For(request) if &*request.name == "b"));
        let other = {
            let mut other = NodeRequests::default();
            other.add("pre-drain.sundown.dev/a", "");
            other
        };
        assert!(other.is_empty());
    }

    #[test]
    fn of_very_many_requests_the_first_by_name_are_kept_and_the_others_counted() {
        let names: Vec<String> = (0..500).map(|n| format!("r{n:03}")).collect();
        let forward: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "")).collect();
        let backward: Vec<(&str, &str)> = forward.iter().rev().copied().collect();
        let kept = requests(&forward);
        assert_eq!(kept, requests(&backward));
        assert_eq!((kept.first().len(), kept.more()), (16, 484));
        assert!(matches!(kept.of("r015"), Asking::For(_)));
        assert_eq!((kept.of("r016"), kept.of("r0005")), (Asking::NotKept, Asking::No));
    }
}

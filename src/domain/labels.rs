//! Labels.

use std::fmt;

/// The labels of an object, sorted by key, in one piece of memory: there are tens of thousands of
/// pods, and a `BTreeMap` takes half a kilobyte for the first label alone.
///
/// A key or value never contains a control character (Kubernetes API conventions, "labels"). A pair
/// that contains NUL is dropped.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Labels(Box<str>);

/// Terminates each key and each value.
const END: char = '\0';

impl Labels {
    /// The value of this label key; `None` if there is no such label.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&str> {
        self.iter().find(|(k, _)| *k == key).map(|(_, value)| value)
    }

    /// All labels, sorted by key.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let mut words = self.0.split_terminator(END);
        std::iter::from_fn(move || words.next().zip(words.next()))
    }

    /// Whether there is no label.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<K: AsRef<str>, V: AsRef<str>> FromIterator<(K, V)> for Labels {
    fn from_iter<T: IntoIterator<Item = (K, V)>>(pairs: T) -> Self {
        let fits = |(k, v): &(K, V)| !k.as_ref().contains(END) && !v.as_ref().contains(END);
        let mut pairs: Vec<_> = pairs.into_iter().filter(fits).collect();
        pairs.sort_by(|a, b| a.0.as_ref().cmp(b.0.as_ref()));
        let size = pairs.iter().map(|(k, v)| k.as_ref().len() + v.as_ref().len() + 2).sum();
        let mut all = String::with_capacity(size);
        for (key, value) in &pairs {
            all.push_str(key.as_ref());
            all.push(END);
            all.push_str(value.as_ref());
            all.push(END);
        }
        Self(all.into_boxed_str())
    }
}

impl<const N: usize> From<[(String, String); N]> for Labels {
    fn from(pairs: [(String, String); N]) -> Self {
        pairs.into_iter().collect()
    }
}

impl fmt::Debug for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_found_by_key_and_compared_whatever_their_order_was() {
        let labels = Labels::from_iter([("tier", "web"), ("app", "shop"), ("empty", "")]);
        assert_eq!(
            labels.iter().collect::<Vec<_>>(),
            [("app", "shop"), ("empty", ""), ("tier", "web")]
        );
        assert_eq!(
            (labels.get("tier"), labels.get("empty"), labels.get("shop")),
            (Some("web"), Some(""), None)
        );
        assert_eq!(labels, Labels::from_iter([("app", "shop"), ("empty", ""), ("tier", "web")]));
        assert!(Labels::default().is_empty() && !labels.is_empty());
        assert_eq!(format!("{labels:?}"), r#"{"app": "shop", "empty": "", "tier": "web"}"#);
    }

    #[test]
    fn a_label_that_no_api_server_stores_is_not_kept() {
        assert_eq!(Labels::from_iter([("a\0b", "c"), ("d", "e")]), Labels::from_iter([("d", "e")]));
    }
}

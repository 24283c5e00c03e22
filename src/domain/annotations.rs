//! Annotations.

/// Annotations of an object, sorted by key. Thousands of Nodes may have one at once, their record,
/// and a `BTreeMap` takes half a kilobyte for the first annotation alone.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Annotations(Vec<(Box<str>, Box<str>)>);

impl Annotations {
    /// The value of this annotation; `None` if there is no such annotation.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.get(self.place(key).ok()?).map(|(_, value)| &**value)
    }

    /// All annotations, sorted by key.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (&**key, &**value))
    }

    /// Whether there is an annotation with this key.
    #[must_use]
    pub fn contains_key(&self, key: &str) -> bool {
        self.place(key).is_ok()
    }

    /// Sets the value of an annotation.
    pub fn insert(&mut self, key: impl Into<Box<str>>, value: impl Into<Box<str>>) {
        let (key, value) = (key.into(), value.into());
        match self.place(&key) {
            Ok(place) => {
                if let Some((_, old)) = self.0.get_mut(place) {
                    *old = value;
                }
            }
            Err(place) => {
                self.0.reserve_exact(1);
                self.0.insert(place, (key, value));
            }
        }
    }

    /// Removes an annotation, if it is there.
    pub fn remove(&mut self, key: &str) {
        self.0.retain(|(k, _)| **k != *key);
    }

    /// Where the annotation is (`Ok`), or where it would be.
    fn place(&self, key: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(k, _)| (**k).cmp(key))
    }
}

impl<K: Into<Box<str>>, V: Into<Box<str>>> FromIterator<(K, V)> for Annotations {
    fn from_iter<T: IntoIterator<Item = (K, V)>>(pairs: T) -> Self {
        let pairs = pairs.into_iter();
        let mut all = Self(Vec::with_capacity(pairs.size_hint().0));
        pairs.for_each(|(key, value)| all.insert(key, value));
        all
    }
}

impl<const N: usize> From<[(String, String); N]> for Annotations {
    fn from(pairs: [(String, String); N]) -> Self {
        pairs.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_made_once_for_all_annotations_of_an_object() {
        let all: Annotations = (0..3).map(|n| (n.to_string(), "v")).collect();
        assert_eq!(all.0.capacity(), 3);
    }

    #[test]
    fn annotations_are_found_by_key_and_compared_whatever_their_order_was() {
        let mut all = Annotations::from_iter([("b", "2"), ("a", "1"), ("b", "3")]);
        assert_eq!((all.get("a"), all.get("b"), all.get("c")), (Some("1"), Some("3"), None));
        assert_eq!(all, Annotations::from_iter([("a", "1"), ("b", "3")]));
        all.remove("a");
        all.remove("c");
        assert!(!all.contains_key("a") && all.contains_key("b"));
        all.remove("b");
        assert_eq!(all, Annotations::default());
    }
}

//! An answer, brought into the form in which it is compared.

use serde_json::{Map, Value};
use wildmatch::WildMatch;

/// What is seen of `actual` through `expected`: of objects the fields that are expected, or all of
/// them where it is to be `whole`.
///
/// A text `*` stands for anything that is there, a text with a star in it for what matches, `!x`
/// for what is there and not `x`. Null is what is not there.
pub fn through(actual: &Value, expected: &Value, whole: bool) -> Value {
    match (actual, expected) {
        (Value::Null, _) => Value::Null,
        (_, Value::String(pattern)) if fits(actual, pattern) => expected.clone(),
        (Value::Object(have), Value::Object(want)) => {
            let mut fields: Map<String, Value> = want
                .iter()
                .map(|(key, want)| {
                    (key.clone(), through(have.get(key).unwrap_or(&Value::Null), want, whole))
                })
                .collect();
            if whole {
                let others =
                    have.iter().filter(|(key, value)| !want.contains_key(*key) && !value.is_null());
                fields.extend(others.map(|(key, value)| (key.clone(), value.clone())));
            }
            fields.into()
        }
        (Value::Array(have), Value::Array(want)) if have.len() == want.len() => {
            have.iter().zip(want).map(|(have, want)| through(have, want, whole)).collect()
        }
        _ => actual.clone(),
    }
}

fn fits(actual: &Value, pattern: &str) -> bool {
    if pattern == "*" {
        return true;
    }
    let Value::String(text) = actual else { return false };
    match pattern.strip_prefix('!') {
        Some(other) => text != other,
        None => pattern.contains('*') && WildMatch::new(pattern).matches(text),
    }
}

/// Values that were saved, by their names; the first name of a value counts.
#[derive(Default)]
pub struct Saved(Vec<(String, String)>);

impl Saved {
    pub fn save(&mut self, name: &str, value: String) {
        self.0.retain(|(have, _)| have != name);
        self.0.push((name.to_owned(), value));
    }

    /// With values in the place of names.
    pub fn fill(&self, text: &str) -> String {
        let mut by_length: Vec<_> = self.0.iter().collect();
        by_length.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
        by_length
            .iter()
            .fold(text.to_owned(), |text, (name, value)| text.replace(&format!("${name}"), value))
    }

    /// The same for every text of a JSON value.
    pub fn fill_in(&self, value: &Value) -> Value {
        map_texts(value, &|text| self.fill(text))
    }

    /// With names in the place of values, long ones first.
    pub fn hide_in(&self, value: &Value) -> Value {
        let mut by_length: Vec<_> = self.0.iter().collect();
        by_length.sort_by_key(|(_, value)| std::cmp::Reverse(value.len()));
        map_texts(value, &|text| {
            by_length.iter().fold(text.to_owned(), |text, (name, value)| {
                replace_word(&text, value, &format!("${name}"))
            })
        })
    }
}

fn map_texts(value: &Value, change: &impl Fn(&str) -> String) -> Value {
    match value {
        Value::String(text) => change(text).into(),
        Value::Array(items) => items.iter().map(|v| map_texts(v, change)).collect(),
        Value::Object(fields) => fields
            .iter()
            .map(|(k, v)| (change(k), map_texts(v, change)))
            .collect::<Map<_, _>>()
            .into(),
        other => other.clone(),
    }
}

/// Replaces `word` where it is not part of a longer one.
fn replace_word(text: &str, word: &str, by: &str) -> String {
    if word.is_empty() {
        return text.to_owned();
    }
    let of_word = |c: char| c.is_ascii_alphanumeric() || c == '$';
    let (mut out, mut rest, mut before) = (String::new(), text, None);
    while let Some(at) = rest.find(word) {
        let (head, tail) = (&rest[..at], &rest[at + word.len()..]);
        let alone = !head.chars().last().or(before).is_some_and(of_word)
            && !tail.chars().next().is_some_and(of_word);
        out.push_str(head);
        out.push_str(if alone { by } else { word });
        before = word.chars().last();
        rest = tail;
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_is_expected_is_seen_of_a_success_and_all_of_a_refusal() {
        let actual = json!({ "a": 1, "b": { "c": "text", "d": null }, "l": [{ "x": 1, "y": 2 }] });
        assert_eq!(
            through(&actual, &json!({ "b": { "c": "te*", "d": null } }), false),
            json!({ "b": { "c": "te*", "d": null } })
        );
        assert_eq!(
            through(&actual, &json!({ "l": [{ "x": "*" }], "z": 1 }), false),
            json!({ "l": [{ "x": "*" }], "z": null })
        );
        assert_eq!(through(&actual, &json!({ "a": 1 }), true), actual_without_nulls());
        assert_eq!(
            through(&actual, &json!({ "b": { "c": "!text" } }), false),
            json!({ "b": { "c": "text" } })
        );
        assert_eq!(
            through(&actual, &json!({ "l": [] }), false),
            json!({ "l": [{ "x": 1, "y": 2 }] })
        );
    }

    fn actual_without_nulls() -> Value {
        json!({ "a": 1, "b": { "c": "text", "d": null }, "l": [{ "x": 1, "y": 2 }] })
    }

    #[test]
    fn saved_values_are_shown_by_their_names() {
        let mut saved = Saved::default();
        saved.save("rv", "12".to_owned());
        saved.save("rv2", "345".to_owned());
        assert_eq!(saved.fill("a?rv=$rv&and=$rv2"), "a?rv=12&and=345");
        assert_eq!(
            saved.hide_in(&json!({ "12": ["x 12, 345", "125 612 12"] })),
            json!({ "$rv": ["x $rv, $rv2", "125 612 $rv"] })
        );
    }
}

//! The excerpt of a rejected message body that the log shows.

/// Most characters of the body to show.
const LENGTH: usize = 200;
/// The value after a name that contains one of these is hidden, because it may grant readers of the
/// log permissions (`LifecycleActionToken` completes a lifecycle action, the `Token` of a
/// `SubscribeURL` confirms a subscription).
const SECRET: [&str; 6] =
    ["token", "secret", "password", "signature", "credential", "authorization"];
const MASK: &str = "[...]";

/// The first 200 characters of a body, for a log, without the values of tokens and other secrets.
/// The body need not be JSON: it may be JSON inside a JSON string, a URL, or lines of `name=value`.
#[must_use]
pub fn excerpt(body: &str) -> String {
    let end = body.char_indices().nth(LENGTH).map_or(body.len(), |(at, _)| at);
    let (mut shown, mut from) = (String::new(), 0);
    while let Some((start, stop)) = next_secret(body, from, end) {
        shown.push_str(body.get(from..start).unwrap_or_default());
        shown.push_str(MASK);
        from = stop;
    }
    shown.push_str(body.get(from..end).unwrap_or_default());
    shown.chars().take(LENGTH).collect()
}

/// Start and end of the next secret value whose name begins between `from` and `end`. The value may
/// end after `end`. `None` if there is no such value.
fn next_secret(body: &str, from: usize, end: usize) -> Option<(usize, usize)> {
    let mut at = from;
    loop {
        let found = body
            .get(at..end)?
            .char_indices()
            .map(|(n, _)| at + n)
            .find(|n| is_secret(body.get(*n..).unwrap_or_default()))?;
        let name = skip(body, found, |c| c.is_alphanumeric() || c == '_' || c == '-');
        let value = skip(body, name, |c| c.is_whitespace() || "\\\"':=>".contains(c));
        let stop = skip(body, value, |c| !c.is_whitespace() && !"\\\"'&,;<>{}[]".contains(c));
        // No value follows: the body ends, or an object begins, whose own names are checked next.
        if stop > value {
            return Some((value, stop));
        }
        at = stop;
    }
}

/// The end of the run of `wanted` characters that begins at `from`.
fn skip(body: &str, from: usize, wanted: impl Fn(char) -> bool) -> usize {
    let rest = body.get(from..).unwrap_or_default();
    from + rest.find(|c| !wanted(c)).unwrap_or(rest.len())
}

fn is_secret(text: &str) -> bool {
    SECRET
        .iter()
        .any(|word| text.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word)))
}

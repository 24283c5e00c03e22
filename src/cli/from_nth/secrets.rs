//! Recognizes values that must not be printed, because people paste reports into tickets.

/// Parts of names that people give to secrets.
const WORDS: &[&str] = &["secret", "password", "passwd", "token", "key", "credential"];
/// An annotation of EKS whose value is a number of seconds, not a secret.
const SECONDS: &str = "eks.amazonaws.com/token-expiration";

/// Whether the value of this name may be a secret, by the name alone.
pub(super) fn smells(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name != SECONDS && WORDS.iter().any(|word| name.contains(word))
}

/// The URL without user and password. `None`: it contains neither.
pub(super) fn without_user(url: &str) -> Option<String> {
    let (scheme, rest) =
        url.split_once("://").map_or((None, url), |(scheme, rest)| (Some(scheme), rest));
    let (_, host) = rest.rsplit_once('@')?;
    Some(scheme.map_or_else(|| host.to_owned(), |scheme| format!("{scheme}://{host}")))
}

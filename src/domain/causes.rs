//! Errors in words.

/// An error and what caused it, on one line: the outermost alone ("client error (Connect)") tells
/// nothing.
#[must_use]
pub fn with_causes(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    for _ in 0..8 {
        let Some(cause) = next else { break };
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        next = cause.source();
    }
    text
}

//! Error messages with their causes.

/// An error and up to 8 of its causes on one line. The outermost error alone, such as "client error
/// (Connect)", does not help an operator.
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

//! What can be wrong with a template, in words for the person who wrote it.

use super::{FUEL, LARGEST_BODY, LARGEST_TEMPLATE, MOST_TOKENS, NAMES};

/// How many characters of a template an error shows.
pub(super) const SHOWN: usize = 100;

/// Why a template cannot be used, or why a notification cannot be rendered with it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadTemplate {
    /// The template is too large.
    #[error("it is larger than {LARGEST_TEMPLATE} bytes; shorten it")]
    TooLarge,
    /// It is not JSON.
    #[error(
        "it is not JSON ({error}); write {form} (names go inside JSON strings; inside braces, \
         quote with '…')"
    )]
    NotJson {
        /// The error of the JSON parser, with line and column.
        error: String,
        /// What to write instead.
        form: String,
    },
    /// One of its strings has an error.
    #[error("{place}: {fault}")]
    String {
        /// Where the string is in the JSON.
        place: String,
        /// What is wrong with it, and what to write instead.
        fault: Fault,
    },
    /// Two keys of an object became the same.
    #[error("{place}: two keys are `{key}` once they are rendered; keep them apart")]
    SameKey {
        /// Where the key is in the JSON.
        place: String,
        /// The key that both rendered to.
        key: String,
    },
    /// The template needs more than the steps that it may take.
    #[error("it takes more than {FUEL} steps to render; use fewer or shorter loops")]
    OutOfFuel,
    /// The rendered notification is too large.
    #[error("the rendered notification is larger than {LARGEST_BODY} bytes; shorten the template")]
    BodyTooLarge,
}

/// What is wrong with a string of a template.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// It does not follow the syntax of minijinja.
    #[error("`{text}` is not a minijinja template ({error}); write names as {{{{ summary }}}}")]
    Syntax {
        /// The beginning of the string.
        text: String,
        /// The error of minijinja.
        error: String,
    },
    /// It names a label of the Node in the form that Sundown had before it used minijinja.
    #[error("`{{{{ label:{0} }}}}` is written as {{{{ labels['{0}'] }}}}")]
    OldLabel(String),
    /// It has more tokens than minijinja can compile with the stack that there is.
    #[error("`{0}` has more than {MOST_TOKENS} words and operators; use several shorter strings")]
    TooLong(String),
    /// It has a comment. Before minijinja, Sundown sent `{#` as it is, so text would be lost.
    #[error("`{{#` would begin a comment, and comments are not sent; write {{{{ '{{' }}}}#")]
    Comment,
    /// It uses a name that does not exist.
    #[error("it uses `{0}`, which does not exist; use {known} or labels['KEY']", known = known())]
    UnknownName(String),
    /// It uses the labels, but not one by its key.
    #[error("it uses `labels` without the key of a label; write {{{{ labels['KEY'] }}}}")]
    NoKey,
    /// It calls a function or a method, or uses a filter or a test.
    #[error("it uses `{0}`, but there are no filters, tests or functions; use only operators")]
    Call(String),
    /// It cannot be rendered.
    #[error("`{text}` cannot be rendered ({error})")]
    Render {
        /// The beginning of the string.
        text: String,
        /// The error of minijinja.
        error: String,
    },
}

fn known() -> String {
    NAMES.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}

/// The beginning of a text, for an error.
pub(crate) fn beginning(text: &str) -> String {
    let mut shown: String = text.chars().take(SHOWN).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}

/// An error of minijinja without the name that the string has inside the engine.
pub(super) fn in_words(error: &minijinja::Error) -> String {
    match error.detail() {
        Some(detail) => format!("{}: {detail}", error.kind()),
        None => error.kind().to_string(),
    }
}

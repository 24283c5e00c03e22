//! Colors text on a terminal.

use std::io::IsTerminal as _;

/// What a text means to its reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tone {
    /// Needs attention now.
    Bad,
    /// Needs attention soon.
    Caution,
    /// As it should be.
    Good,
    /// A heading, printed bold.
    Strong,
    /// Less important.
    Faint,
}

/// Colors text, or (by default) leaves it as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Paint {
    is_on: bool,
}

impl Paint {
    /// `is_on`: whether to color text.
    #[cfg(test)]
    pub(super) const fn new(is_on: bool) -> Self {
        Self { is_on }
    }

    /// With colors if standard output is a terminal, unless `NO_COLOR` (no-color.org) or
    /// `TERM=dumb` is set.
    pub(super) fn of_stdout() -> Self {
        let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        Self { is_on: std::io::stdout().is_terminal() && !no_color && !is_dumb }
    }

    /// The text in its color. Measure its width before, because control sequences count as
    /// characters.
    pub(super) fn text(self, tone: Tone, text: &str) -> String {
        let code = match tone {
            Tone::Bad => "1;31",
            Tone::Caution => "33",
            Tone::Good => "32",
            Tone::Strong => "1",
            Tone::Faint => "2",
        };
        if self.is_on && !text.trim().is_empty() {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }
}

/// The text in at most `width` columns; a longer one ends with `…`. Control characters are left
/// out.
pub(super) fn fit(text: &str, width: usize) -> String {
    let clean: Vec<char> = text
        .chars()
        .map(|c| if c == '\n' || c == '\t' { ' ' } else { c })
        .filter(|c| !c.is_control())
        .collect();
    if clean.len() <= width {
        return clean.into_iter().collect();
    }
    clean
        .into_iter()
        .take(width.saturating_sub(1))
        .chain(std::iter::once('…'))
        .take(width)
        .collect()
}

/// As [`fit`], but cuts the middle: long names can differ at their beginning or at their end.
pub(super) fn fit_middle(text: &str, width: usize) -> String {
    let clean: Vec<char> = fit(text, usize::MAX).chars().collect();
    if clean.len() <= width {
        return clean.into_iter().collect();
    }
    let kept = width.saturating_sub(1);
    let head = clean.iter().take(kept / 2);
    let tail = clean.iter().skip(clean.len() - (kept - kept / 2));
    head.copied().chain(['…']).chain(tail.copied()).take(width).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_colored_only_where_that_is_on_and_there_is_something_to_color() {
        assert_eq!(Paint::new(true).text(Tone::Bad, "NO"), "\x1b[1;31mNO\x1b[0m");
        assert_eq!(Paint::new(true).text(Tone::Bad, "  "), "  ");
        assert_eq!(Paint::new(false).text(Tone::Bad, "NO"), "NO");
    }

    #[test]
    fn text_that_is_too_long_ends_with_an_ellipsis_and_control_characters_are_left_out() {
        for (text, width, expected) in [
            ("abc", 3, "abc"),
            ("abcd", 3, "ab…"),
            ("äöüß", 3, "äö…"),
            ("", 3, ""),
            ("a\nb\x1b[31m", 10, "a b[31m"),
            ("abc", 1, "…"),
            ("abc", 0, ""),
        ] {
            assert_eq!(fit(text, width), expected, "{text}");
        }
    }
}

//! Lines of text in colors, cut to the width of a terminal.

use std::fmt::Write as _;

/// How a part of a line looks on a terminal with colors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    Plain,
    /// An event of the scenario, the head of a table.
    Strong,
    /// Text of little importance.
    Faint,
    /// A drain that ended well.
    Good,
    /// Something that waits.
    Waiting,
    /// Something that went wrong, such as a forced deletion.
    Bad,
}

impl Style {
    /// The parameter of the control sequence SGR (ECMA-48).
    const fn code(self) -> &'static str {
        match self {
            Self::Plain => "0",
            Self::Strong => "1",
            Self::Faint => "2",
            Self::Good => "32",
            Self::Waiting => "33",
            Self::Bad => "31",
        }
    }
}

/// A line, in parts of one style each.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Line(Vec<(Style, String)>);

impl Line {
    pub(super) fn plain(text: impl Into<String>) -> Self {
        Self::default().and(Style::Plain, text)
    }

    pub(super) fn of(style: Style, text: impl Into<String>) -> Self {
        Self::default().and(style, text)
    }

    /// Appends text in a style.
    pub(super) fn and(mut self, style: Style, text: impl Into<String>) -> Self {
        self.0.push((style, text.into()));
        self
    }

    /// The number of its characters.
    pub(super) fn length(&self) -> usize {
        self.0.iter().map(|(_, text)| text.chars().count()).sum()
    }

    /// The line as it is printed. A line longer than `width` characters is cut and ends with `…`.
    /// Control characters, which names may contain, are shown as `?`.
    pub(super) fn render(&self, width: usize, colors: bool) -> String {
        let length = self.length();
        let mut room = if length > width { width.saturating_sub(1) } else { length };
        let mut all = String::new();
        for (style, text) in &self.0 {
            let shown: String =
                text.chars().take(room).map(|c| if c.is_control() { '?' } else { c }).collect();
            room -= shown.chars().count();
            if colors && *style != Style::Plain && !shown.is_empty() {
                write!(all, "\x1b[{}m{shown}\x1b[0m", style.code()).ok();
            } else {
                all += &shown;
            }
        }
        if length > width && width > 0 {
            all.push('…');
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_too_long_is_cut_with_an_ellipsis_and_colors_take_no_room() {
        let line = Line::plain("abc").and(Style::Bad, "def").and(Style::Plain, "gh");
        for (width, plain, colored) in [
            (8, "abcdefgh", "abc\x1b[31mdef\x1b[0mgh"),
            (7, "abcdef…", "abc\x1b[31mdef\x1b[0m…"),
            (5, "abcd…", "abc\x1b[31md\x1b[0m…"),
            (4, "abc…", "abc…"),
            (1, "…", "…"),
            (0, "", ""),
        ] {
            assert_eq!(line.render(width, false), plain);
            assert_eq!(line.render(width, true), colored);
        }
        assert_eq!(Line::plain("ümlaut").render(4, false), "üml…", "characters, not bytes");
        assert_eq!(
            Line::plain("a\x1b[2Jb\n").render(80, true),
            "a?[2Jb?",
            "names of others clear no screen"
        );
    }
}

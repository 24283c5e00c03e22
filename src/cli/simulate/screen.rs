//! Writes to standard output: lines that stay, and on a terminal a block of lines below them that
//! is redrawn in place.

use std::{
    fmt::Write as _,
    io::{self, IsTerminal as _, Write as _},
    time::Duration,
};

use super::{lines::Line, pace::Skip};

/// Standard output.
pub(super) struct Screen {
    /// `None`: it is not a terminal, or one without control sequences.
    terminal: Option<Terminal>,
    colors: bool,
    /// The first error of a write.
    failed: Option<io::Error>,
}

struct Terminal {
    /// Lines that stay, and that are not written yet.
    pending: Vec<Line>,
    /// The lengths, in characters, of the lines of the block that is on the screen.
    drawn: Vec<usize>,
    /// When the block was drawn, in real time.
    drawn_at: Option<std::time::SystemTime>,
    /// Each Enter moves the cursor down by a row.
    skip: Skip,
}

/// The shortest time between two drawings of a block without news.
const REDRAW: Duration = Duration::from_millis(40);
/// Switches line wrapping off (DECAWM) while lines are drawn, because a terminal that becomes
/// narrower meanwhile would break them.
const NO_WRAP: &str = "\x1b[?7l";
const WRAP: &str = "\x1b[?7h";

/// Whether standard output is a terminal that understands control sequences.
pub(super) fn is_terminal() -> bool {
    std::io::stdout().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Whether the user wants colors: <https://no-color.org>.
fn has_colors() -> bool {
    is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Columns and rows of the terminal.
fn size() -> (usize, usize) {
    let of = |(terminal_size::Width(columns), terminal_size::Height(rows))| {
        (usize::from(columns), usize::from(rows))
    };
    terminal_size::terminal_size().map_or((80, 24), of)
}

impl Screen {
    /// Opens standard output. `has_block`: nothing else writes to the terminal, so a block can be
    /// drawn.
    pub(super) fn open(has_block: bool, skip: Skip) -> Self {
        let terminal = (has_block && is_terminal()).then(|| Terminal {
            pending: Vec::new(),
            drawn: Vec::new(),
            drawn_at: None,
            skip,
        });
        Self { terminal, colors: has_colors(), failed: None }
    }

    /// Whether there is a block.
    pub(super) const fn has_block(&self) -> bool {
        self.terminal.is_some()
    }

    /// Prints a line that stays. If there is a block, the line appears above it with the next
    /// drawing.
    pub(super) fn print(&mut self, line: Line) {
        match &mut self.terminal {
            Some(terminal) => terminal.pending.push(line),
            None => self.write(&(line.render(width(), self.colors) + "\n")),
        }
    }

    /// Draws the block, clipped to the screen.
    pub(super) fn draw(&mut self, block: Vec<Line>) {
        let Some(terminal) = &mut self.terminal else { return };
        if terminal.pending.is_empty() && terminal.is_drawn_just_now() {
            return;
        }
        let (columns, rows) = size();
        let text = terminal.drawing(&fitting(block, rows), columns, self.colors);
        self.write(&text);
    }

    /// Removes the block. Later lines are printed below the lines that stay.
    pub(super) fn close(&mut self) {
        if let Some(mut terminal) = self.terminal.take() {
            let text = terminal.drawing(&[], size().0, self.colors);
            self.write(&text);
        }
    }

    /// Prints a line in full length. The terminal wraps it.
    pub(super) fn print_whole(&mut self, line: &Line) {
        self.write(&(line.render(usize::MAX, self.colors) + "\n"));
    }

    /// The number of characters of a line that are printed.
    pub(super) fn columns() -> usize {
        width()
    }

    /// Errs with the first failed write. A closed pipe is not a failure: its reader wants no more.
    pub(super) fn written(&mut self) -> io::Result<()> {
        self.failed.take().map_or(Ok(()), Err)
    }

    fn write(&mut self, text: &str) {
        let mut out = io::stdout().lock();
        let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        if let Err(error) = written
            && error.kind() != io::ErrorKind::BrokenPipe
        {
            self.failed.get_or_insert(error);
        }
    }
}

impl Terminal {
    fn is_drawn_just_now(&self) -> bool {
        let recent = self.drawn_at.and_then(|at| now().duration_since(at).ok());
        recent.is_some_and(|since| since < REDRAW)
    }

    /// The text that draws the pending lines, and the block in place of the last one.
    fn drawing(&mut self, block: &[Line], columns: usize, colors: bool) -> String {
        let mut text = String::new();
        // Moves the cursor up over the block, and clears everything below. The rows include those
        // of lines that a narrower terminal has wrapped, and those of Enter.
        let rows: usize =
            self.drawn.iter().map(|length| length.div_ceil(columns.max(1)).max(1)).sum();
        let rows = rows + self.skip.take_rows();
        if rows > 0 {
            write!(text, "\x1b[{rows}A\r\x1b[J").ok();
        }
        text += NO_WRAP;
        for line in self.pending.drain(..).chain(block.iter().cloned()) {
            text += &line.render(columns, colors);
            text.push('\n');
        }
        text += WRAP;
        self.drawn = block.iter().map(|line| line.render(columns, false).chars().count()).collect();
        self.drawn_at = Some(now());
        text
    }
}

/// The columns of the terminal. A pipe has no limit.
fn width() -> usize {
    if is_terminal() { size().0 } else { usize::MAX }
}

#[allow(
    clippy::disallowed_methods,
    reason = "how often a person's screen is redrawn has nothing to do with simulated time"
)]
fn now() -> std::time::SystemTime {
    std::time::SystemTime::now()
}

/// The lines that fit on the screen with two rows to spare, for a line that stays and for the
/// cursor. A line that has scrolled off cannot be redrawn.
fn fitting(mut lines: Vec<Line>, rows: usize) -> Vec<Line> {
    let room = rows.saturating_sub(2).max(1);
    if lines.len() > room {
        let hidden = lines.len() - room + 1;
        lines.truncate(room - 1);
        lines.push(Line::plain(format!("          … and {hidden} more")));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_lines_are_drawn_than_the_terminal_has() {
        let lines = |n: usize| (0..n).map(|i| Line::plain(i.to_string())).collect::<Vec<_>>();
        assert_eq!(fitting(lines(3), 24), lines(3));
        assert_eq!(fitting(lines(22), 24), lines(22));
        let cut = fitting(lines(100), 24);
        assert_eq!(
            (cut.len(), cut.last().map(|line| line.render(80, false))),
            (22, Some("          … and 79 more".to_owned()))
        );
        assert_eq!(fitting(lines(9), 0).len(), 1);
    }
}

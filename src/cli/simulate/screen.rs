//! Standard output: lines that stay. On a terminal also a block of lines below them that is drawn
//! anew in place.

use std::{
    fmt::Write as _,
    io::{self, IsTerminal as _, Write as _},
    time::Duration,
};

use super::{lines::Line, pace::Skip};

/// Standard output.
pub(super) struct Screen {
    /// `None`: it is no terminal, or one without control sequences.
    terminal: Option<Terminal>,
    colors: bool,
    /// The first error of a write.
    failed: Option<io::Error>,
}

struct Terminal {
    /// Lines that stay and are not written yet.
    pending: Vec<Line>,
    /// How many characters each line of the block has that is on the screen.
    drawn: Vec<usize>,
    /// When the block was drawn, on the clock of the person who looks at it.
    drawn_at: Option<std::time::SystemTime>,
    /// Each Enter moves the cursor down by a row.
    skip: Skip,
}

/// A block without news is redrawn this often at most.
const REDRAW: Duration = Duration::from_millis(40);
/// A terminal that does not wrap lines (DECAWM off) while they are drawn: one that becomes narrower
/// meanwhile would break them.
const NO_WRAP: &str = "\x1b[?7l";
const WRAP: &str = "\x1b[?7h";

/// Standard output is a terminal that understands control sequences.
pub(super) fn is_terminal() -> bool {
    std::io::stdout().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Colors are wanted: <https://no-color.org>.
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
    /// Standard output as it is. `has_block`: nobody else writes to the terminal.
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

    /// Prints a line that stays; where there is a block, above it when that is drawn the next time.
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

    /// Takes the block away; what follows is printed below the lines that stay.
    pub(super) fn close(&mut self) {
        if let Some(mut terminal) = self.terminal.take() {
            let text = terminal.drawing(&[], size().0, self.colors);
            self.write(&text);
        }
    }

    /// Prints a line that is as long as it is: the terminal wraps it.
    pub(super) fn print_whole(&mut self, line: &Line) {
        self.write(&(line.render(usize::MAX, self.colors) + "\n"));
    }

    /// How many characters of a line are printed.
    pub(super) fn columns() -> usize {
        width()
    }

    /// Whether everything could be written. A reader that has closed its pipe wants no more, which
    /// is no failure.
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

    /// What draws the lines that stay and the block in place of the last one.
    fn drawing(&mut self, block: &[Line], columns: usize, colors: bool) -> String {
        let mut text = String::new();
        // Up over the rows of the block, those that a narrower terminal has broken and those of
        // Enter included, and all below away.
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

/// The columns of a terminal; a pipe has no end.
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

/// The lines that fit on the screen with two to spare, one for a line that stays and one for the
/// cursor: what has scrolled off can never be drawn over.
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

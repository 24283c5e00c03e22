//! The drains as they happen: one line a node, refreshed in place on a terminal, plain lines otherwise.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    io::{IsTerminal as _, Write as _},
    time::Duration,
};

use super::summary::in_order;
use crate::{
    controller::NodeReport,
    domain::{Moment, MomentExt, NodeName},
};

pub(super) struct View {
    on: bool,
    terminal: bool,
    begun: Moment,
    drawn: usize,
    /// What was last printed of a node, where lines are plain.
    told: BTreeMap<NodeName, Told>,
    /// When the terminal was last drawn, on the clock of the person who looks at it.
    drawn_at: Option<std::time::SystemTime>,
}

/// What was last printed of a node.
struct Told {
    phase: &'static str,
    state: (usize, Vec<String>),
    at: Moment,
}

/// Plain lines: between two of one node in one phase lies this much simulated time at least.
const PAUSE: Duration = Duration::from_secs(15);
/// A line that is too long for the terminal is cut (DECAWM off), so that each takes one row and drawing over them finds them all.
const NO_WRAP: &str = "\x1b[?7l";
const WRAP: &str = "\x1b[?7h";
/// A terminal is redrawn this often at most.
const REDRAW: Duration = Duration::from_millis(40);

impl View {
    pub(super) fn new(on: bool, begun: Moment) -> Self {
        let terminal = std::io::stdout().is_terminal();
        Self { on, terminal, begun, drawn: 0, told: BTreeMap::new(), drawn_at: None }
    }

    /// Something happened.
    pub(super) fn say(&mut self, at: Duration, text: &str) {
        if self.on {
            self.print(&format!("{}  {text}\n", stamp(at)), true);
        }
    }

    /// Shows the drains as they are.
    pub(super) fn show(&mut self, drains: &BTreeMap<NodeName, NodeReport>, now: Moment) {
        if !self.on {
            return;
        }
        let at = now.since_or_zero(self.begun);
        if self.terminal {
            if self.is_drawn_just_now() {
                return;
            }
            let lines = in_order(drains).into_iter().map(|(name, r)| format!("{}  {}", stamp(at), line(name, r, now)));
            let lines = fitting(lines.collect(), terminal_height());
            self.print(&format!("{NO_WRAP}{}{WRAP}", lines.iter().fold(String::new(), |all, line| all + line + "\n")), false);
            self.drawn = lines.len();
            return;
        }
        for (name, report) in in_order(drains) {
            let state = (report.left, report.blocked.clone());
            let is_news = match self.told.get(name) {
                None => true,
                Some(told) => told.phase != report.phase || (told.state != state && now >= told.at.plus(PAUSE)),
            };
            if is_news {
                self.told.insert(name.clone(), Told { phase: report.phase, state, at: now });
                self.print(&format!("{}  {}\n", stamp(at), line(name, report, now)), false);
            }
        }
    }

    fn is_drawn_just_now(&mut self) -> bool {
        #[allow(clippy::disallowed_methods, reason = "how often a person's screen is redrawn has nothing to do with simulated time")]
        let now = std::time::SystemTime::now();
        let recent = self.drawn_at.and_then(|at| now.duration_since(at).ok()).is_some_and(|d| d < REDRAW);
        if !recent {
            self.drawn_at = Some(now);
        }
        recent
    }

    /// Prints over what was drawn; what is said stays above it.
    fn print(&mut self, text: &str, stays: bool) {
        let mut out = std::io::stdout().lock();
        if self.terminal && self.drawn > 0 {
            // Up over the lines that were drawn, and everything below away.
            write!(out, "\x1b[{}A\x1b[J", self.drawn).ok();
            self.drawn = 0;
        }
        write!(out, "{text}").ok();
        out.flush().ok();
        if stays {
            self.drawn_at = None;
        }
    }

    /// The summary follows.
    pub(super) fn finish(&mut self) {
        if self.on && self.terminal && self.drawn > 0 {
            self.print("", true);
        }
    }
}

/// How many lines the terminal has; as good as any where it does not say.
fn terminal_height() -> usize {
    terminal_size::terminal_size().map_or(usize::MAX, |(_, terminal_size::Height(lines))| usize::from(lines))
}

/// Those that fit on the screen with a line to spare: what has scrolled off it can never be drawn over.
fn fitting(mut lines: Vec<String>, height: usize) -> Vec<String> {
    let room = height.saturating_sub(1).max(2);
    if lines.len() > room {
        let hidden = lines.len() - room + 1;
        lines.truncate(room - 1);
        lines.push(format!("          … and {hidden} more"));
    }
    lines
}

fn stamp(at: Duration) -> String {
    let s = at.as_secs();
    format!("{:>2}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60)
}

fn line(name: &NodeName, r: &NodeReport, now: Moment) -> String {
    let mut text = format!("{name:<42} {:<14} {:<12}", r.kind, r.phase);
    if r.drained.is_some() {
        write!(text, " after {} s, {} evictions, {} forced", r.took(now).as_secs(), r.evictions, r.forced.len()).ok();
        if !r.completed.is_empty() {
            write!(text, ", completed {}", r.completed.join(" ")).ok();
        }
        return text;
    }
    write!(text, " {:>3} {} left", r.left, if r.left == 1 { "pod" } else { "pods" }).ok();
    if let Some(ends) = r.ends_at {
        write!(text, ", {} s to go", ends.since_or_zero(now).as_secs()).ok();
    }
    if let Some(first) = r.blocked.first() {
        write!(text, ", blocked: {first}").ok();
        if r.blocked.len() > 1 {
            write!(text, " and {} more", r.blocked.len() - 1).ok();
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_lines_are_drawn_than_the_terminal_has() {
        let lines = |n: usize| (0..n).map(|i| i.to_string()).collect::<Vec<_>>();
        assert_eq!(fitting(lines(3), 24), lines(3));
        assert_eq!(fitting(lines(23), 24), lines(23));
        let cut = fitting(lines(100), 24);
        assert_eq!((cut.len(), cut.last().map(|l| l.trim())), (23, Some("… and 78 more")));
        assert_eq!(fitting(lines(9), 0).len(), 2);
    }
}

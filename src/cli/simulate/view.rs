//! The timeline: a line for each change of a drain. A terminal shows the same, and below it the
//! drains as they are.

use std::{collections::BTreeMap, fmt::Write as _, time::Duration};

use super::{
    lines::{Line, Style},
    pace::{Pace, Skip},
    screen::Screen,
    summary::{in_order, short},
};
use crate::{
    controller::NodeReport,
    domain::{Moment, NodeName},
};

pub(super) struct View {
    /// `None`: nothing is shown.
    screen: Option<Screen>,
    begun: Moment,
    /// What a person may press, at the end of the first line below the timeline.
    hint: String,
    /// What was last printed of a node.
    told: BTreeMap<NodeName, Told>,
}

/// What was last printed of a node.
struct Told {
    phase: &'static str,
    state: (usize, Vec<String>),
    forced: usize,
    at: Moment,
}

/// Between two lines of one node in one phase lies this much simulated time at least.
const PAUSE: Duration = Duration::from_secs(15);

impl View {
    /// `screen`: where it is shown; `None`: nowhere. `skip`: Enter leads to the end.
    pub(super) fn new(
        screen: Option<Screen>,
        begun: Moment,
        pace: Pace,
        skip: Option<&Skip>,
    ) -> Self {
        let keys = if skip.is_some() { "Enter: to the end, Ctrl-C: stop" } else { "Ctrl-C: stop" };
        Self { screen, begun, hint: format!("{pace}; {keys}"), told: BTreeMap::new() }
    }

    /// Something happened.
    pub(super) fn say(&mut self, at: Duration, text: &str) {
        if let Some(screen) = &mut self.screen {
            screen.print(Line::plain(format!("{}  ", stamp(at))).and(Style::Strong, text));
        }
    }

    /// Shows the drains as they are.
    pub(super) fn show(&mut self, drains: &BTreeMap<NodeName, NodeReport>, now: Moment) {
        let Some(screen) = &mut self.screen else { return };
        let at = now.since_or_zero(self.begun);
        let all = in_order(drains);
        let width = all
            .iter()
            .map(|(name, _)| short(name.as_str()).chars().count())
            .max()
            .unwrap_or_default();
        for (name, report) in &all {
            let told = self.told.get(*name);
            let forced =
                report.forced.get(told.map_or(0, |told| told.forced)..).unwrap_or_default();
            if told.is_none() {
                screen.print(
                    head(at, name, width)
                        .and(Style::Strong, "cordoned")
                        .and(Style::Plain, format!("  {}", report.kind)),
                );
            }
            for pod in forced {
                screen.print(
                    head(at, name, width)
                        .and(Style::Bad, "forced  ")
                        .and(Style::Plain, format!("  {pod}: its deadline comes")),
                );
            }
            let state = (report.left, report.blocked.clone());
            let is_news = told.is_none_or(|told| {
                told.phase != report.phase || (told.state != state && now >= told.at.plus(PAUSE))
            });
            if is_news {
                self.told.insert(
                    (*name).clone(),
                    Told { phase: report.phase, state, forced: report.forced.len(), at: now },
                );
                screen.print(line(head(at, name, width), report, now));
            } else if !forced.is_empty()
                && let Some(told) = self.told.get_mut(*name)
            {
                told.forced = report.forced.len();
            }
        }
        if screen.has_block() {
            screen.draw(block(&all, at, now, width, &self.hint));
        }
    }

    /// The summary follows. Errs when a line could not be written.
    pub(super) fn finish(&mut self) -> std::io::Result<()> {
        let Some(screen) = &mut self.screen else { return Ok(()) };
        screen.close();
        screen.written()
    }
}

/// The drains that go on, below a line with the time.
fn block(
    all: &[(&NodeName, &NodeReport)],
    at: Duration,
    now: Moment,
    width: usize,
    hint: &str,
) -> Vec<Line> {
    let open: Vec<_> = all.iter().filter(|(_, report)| report.drained.is_none()).collect();
    let done = all.len() - open.len();
    let first = format!("{}  {} draining, {done} done, {hint}", stamp(at), open.len());
    let lines = open.into_iter().map(|(name, report)| line(head(at, name, width), report, now));
    std::iter::once(Line::of(Style::Faint, first)).chain(lines).collect()
}

fn stamp(at: Duration) -> String {
    let s = at.as_secs();
    format!("{:>2}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60)
}

fn head(at: Duration, name: &NodeName, width: usize) -> Line {
    Line::plain(format!("{}  {:<width$}  ", stamp(at), short(name.as_str())))
}

fn line(head: Line, r: &NodeReport, now: Moment) -> Line {
    if r.drained.is_some() {
        let style = if r.phase == "empty" { Style::Good } else { Style::Bad };
        let mut text =
            format!("after {} s, {}", r.took(now).as_secs(), count(r.evictions, "eviction"));
        if !r.forced.is_empty() {
            write!(text, ", {} forced", r.forced.len()).ok();
        }
        if !r.completed.is_empty() {
            write!(text, ", completed {}", r.completed.join(" ")).ok();
        }
        return head.and(style, format!("{:<8}", r.phase)).and(Style::Plain, format!("  {text}"));
    }
    let style = if r.phase == "paused" { Style::Waiting } else { Style::Plain };
    let mut text = format!("  {} left", count(r.left as u64, "pod"));
    if let Some(ends) = r.ends_at {
        write!(text, ", {} s to go", ends.since_or_zero(now).as_secs()).ok();
    }
    let line = head.and(style, format!("{:<8}", r.phase)).and(Style::Plain, text);
    let Some(first) = r.blocked.first() else { return line };
    let more = if r.blocked.len() > 1 {
        format!(" and {} more", r.blocked.len() - 1)
    } else {
        String::new()
    };
    line.and(Style::Plain, ", ").and(Style::Waiting, format!("blocked: {first}{more}"))
}

/// A number of things, in the singular or the plural.
pub(super) fn count(n: u64, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

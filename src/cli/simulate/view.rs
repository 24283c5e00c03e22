//! Shows the timeline: a line for each change of a drain. A terminal also shows the present state
//! of the drains below it.

use std::{collections::BTreeMap, fmt::Write as _, time::Duration};

use super::{
    lines::{Line, Style},
    pace::{Pace, Skip},
    screen::Screen,
    summary::{count, in_order, short},
};
use crate::{
    controller::NodeReport,
    domain::{Moment, NodeName},
};

pub(super) struct View {
    /// `None`: nothing is shown.
    screen: Option<Screen>,
    begun: Moment,
    /// The keys that the user may press. Printed at the end of the first line below the timeline.
    hint: String,
    /// What was last printed of a node.
    printed: BTreeMap<NodeName, Printed>,
}

/// What was last printed of a node.
struct Printed {
    phase: &'static str,
    state: (usize, Vec<String>),
    forced: usize,
    at: Moment,
}

/// The least simulated time between two lines about one node in one phase.
const PAUSE: Duration = Duration::from_secs(15);

impl View {
    /// `screen`: where it is shown. `None`: nowhere. `skip`: with it, Enter skips to the end.
    pub(super) fn new(
        screen: Option<Screen>,
        begun: Moment,
        pace: Pace,
        skip: Option<&Skip>,
    ) -> Self {
        let keys = if skip.is_some() { "Enter: to the end, Ctrl-C: stop" } else { "Ctrl-C: stop" };
        Self { screen, begun, hint: format!("{pace}; {keys}"), printed: BTreeMap::new() }
    }

    /// Prints a line about an event of the scenario.
    pub(super) fn print_event(&mut self, at: Duration, text: &str) {
        if let Some(screen) = &mut self.screen {
            screen.print(Line::plain(format!("{}  ", stamp(at))).and(Style::Strong, text));
        }
    }

    /// Prints changes of drains, and draws the present state.
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
            let printed = self.printed.get(*name);
            let forced = report
                .forced
                .get(printed.map_or(0, |printed| printed.forced)..)
                .unwrap_or_default();
            if printed.is_none() {
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
                        .and(Style::Plain, format!("  {pod}: deleted because of the deadline")),
                );
            }
            let state = (report.left, report.blocked.clone());
            let is_news = printed.is_none_or(|printed| {
                printed.phase != report.phase
                    || (printed.state != state && now >= printed.at.plus(PAUSE))
            });
            if is_news {
                self.printed.insert(
                    (*name).clone(),
                    Printed { phase: report.phase, state, forced: report.forced.len(), at: now },
                );
                screen.print(line(head(at, name, width), report, now));
            } else if !forced.is_empty()
                && let Some(printed) = self.printed.get_mut(*name)
            {
                printed.forced = report.forced.len();
            }
        }
        if screen.has_block() {
            screen.draw(block(&all, at, now, width, &self.hint));
        }
    }

    /// Removes the block. Errs if a line could not be written.
    pub(super) fn finish(&mut self) -> std::io::Result<()> {
        let Some(screen) = &mut self.screen else { return Ok(()) };
        screen.close();
        screen.written()
    }
}

/// The open drains, below a line with the time.
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

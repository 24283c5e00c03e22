//! The answer as sentences for people.

use super::model::{Answer, DrainKind, PodAnswer};
use crate::cli::words::count;

/// Formats the answer, in lines of at most `width` columns.
pub(super) fn text(answer: &Answer, width: usize) -> String {
    let mut page = Page { width, text: String::new() };
    page.head(answer);
    for note in &answer.notes {
        page.wrapped("", note);
    }
    if answer.pods.is_empty() {
        page.wrapped("", "No pod is on it.");
    }
    for pod in &answer.pods {
        page.text.push('\n');
        page.pod(pod);
    }
    if !answer.is_one_pod && !answer.pods.is_empty() {
        page.text.push('\n');
        page.wrapped("", &format!("{}.", count(answer.pods.len(), "pod")));
    }
    page.text
}

struct Page {
    width: usize,
    text: String,
}

impl Page {
    fn head(&mut self, answer: &Answer) {
        let (node, kinds) = (&answer.node, answer.kinds.join(", "));
        let end = match answer.deadline {
            Some(at) => format!("ends at {at:.0} at the latest"),
            None => "ends when the node is empty".to_owned(),
        };
        let head = match answer.drain {
            DrainKind::Open => format!("{node} is being drained ({kinds}). The drain {end}."),
            DrainKind::Assumed => format!(
                "{node} is not being drained. A drain that begins now ({kinds}) {end} and does \
                 this:"
            ),
        };
        self.wrapped("", &head);
        if let Some(rules) = &answer.rules {
            self.wrapped("", &format!("Rules: {rules}."));
        }
    }

    fn pod(&mut self, pod: &PodAnswer) {
        self.wrapped("", &pod.pod);
        self.fact("what", &pod.what);
        self.fact("why", &pod.why);
        if let Some(blocked) = &pod.blocked {
            let budgets = blocked.budgets.iter().map(|budget| format!(" {budget}"));
            let budgets = budgets.collect::<Vec<_>>().concat();
            let since = blocked.since.map(|at| format!(" since {at:.0}")).unwrap_or_default();
            let message = match blocked.message.as_str() {
                "" => String::new(),
                message => format!(" ({message})"),
            };
            self.fact(
                "blocked",
                &format!(
                    "{}{budgets}{since}{message}. It needs {}.",
                    blocked.reason, blocked.needs
                ),
            );
        }
        if let Some(force) = &pod.force {
            self.fact("forced", force);
        }
        if let Some(grace) = &pod.grace_period {
            self.fact("grace", grace);
        }
        for note in &pod.notes {
            self.fact("note", note);
        }
    }

    fn fact(&mut self, name: &str, text: &str) {
        self.wrapped(&format!("  {name:<8} "), text);
    }

    /// A sentence on as many lines as it needs; the later ones are indented as far as the first.
    fn wrapped(&mut self, start: &str, text: &str) {
        let indent = " ".repeat(start.chars().count());
        let room = self.width.saturating_sub(indent.len());
        let (mut lead, mut line) = (start, String::new());
        for word in text.split_whitespace() {
            if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > room {
                self.text.extend([lead, &line, "\n"]);
                lead = &indent;
                line.clear();
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        if !line.is_empty() {
            self.text.extend([lead, &line, "\n"]);
        }
    }
}

//! What a figure is, and how it is told.

use serde_json::{Value, json};

/// Which way is better.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Bar {
    /// At least this.
    Least(f64),
    /// At most this.
    Most(f64),
    /// It is only told.
    None,
}

/// What the machine itself can do at the time, measured in the same run.
#[derive(Debug, Clone)]
pub struct Baseline {
    /// What was measured.
    pub what: &'static str,
    /// In the figure's unit.
    pub value: f64,
    /// What an idle machine with two cores surely reaches: a baseline that does not says that the machine is too busy or too slow for
    /// the figure to mean anything.
    pub floor: Bar,
}

/// A measured figure.
#[derive(Debug, Clone)]
pub struct Figure {
    /// Its name on the command line.
    pub name: &'static str,
    /// What was measured.
    pub what: String,
    /// The measured value.
    pub value: f64,
    /// Its unit.
    pub unit: &'static str,
    /// What is promised.
    pub bar: Bar,
    /// What to hold it against.
    pub baseline: Option<Baseline>,
}

/// How a figure stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It keeps its promise.
    Met,
    /// It does not.
    Missed,
    /// Its baseline is worse than the floor: the run says nothing.
    Noisy,
}

impl Bar {
    fn holds(self, value: f64) -> bool {
        match self {
            Self::Least(least) => value >= least,
            Self::Most(most) => value <= most,
            Self::None => true,
        }
    }

    fn text(self) -> String {
        match self {
            Self::Least(least) => format!("≥ {}", number(least)),
            Self::Most(most) => format!("≤ {}", number(most)),
            Self::None => "–".to_owned(),
        }
    }
}

impl Figure {
    pub fn verdict(&self) -> Verdict {
        if self.baseline.as_ref().is_some_and(|b| !b.floor.holds(b.value)) {
            Verdict::Noisy
        } else if self.bar.holds(self.value) {
            Verdict::Met
        } else {
            Verdict::Missed
        }
    }

    fn ratio(&self) -> Option<f64> {
        self.baseline.as_ref().map(|b| self.value / b.value)
    }

    fn json(&self) -> Value {
        let baseline = self.baseline.as_ref().map(|b| json!({ "what": b.what, "value": b.value, "floor": b.floor.text() }));
        json!({
            "name": self.name, "what": self.what, "value": self.value, "unit": self.unit, "bar": self.bar.text(),
            "baseline": baseline, "ratio": self.ratio(), "verdict": self.verdict().text(),
        })
    }

    fn row(&self) -> [String; 7] {
        let baseline = self.baseline.as_ref().map_or_else(|| "–".to_owned(), |b| format!("{}: {}", b.what, number(b.value)));
        let ratio = self.ratio().map_or_else(|| "–".to_owned(), |r| format!("{r:.2}"));
        let measured = format!("{} {}", number(self.value), self.unit);
        [self.name.to_owned(), self.what.clone(), measured, self.bar.text(), baseline, ratio, self.verdict().text().to_owned()]
    }
}

impl Verdict {
    pub const fn text(self) -> &'static str {
        match self {
            Self::Met => "ok",
            Self::Missed => "MISSED",
            Self::Noisy => "noisy machine",
        }
    }
}

/// Three digits that count, whole from a hundred on.
fn number(value: f64) -> String {
    match value.abs() {
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        v if v >= 1.0 || v == 0.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// The figures as JSON, one object a line.
pub fn json_lines(figures: &[Figure]) {
    for figure in figures {
        println!("{}", figure.json());
    }
}

/// The figures as a table that Markdown understands.
pub fn table(figures: &[Figure]) {
    let head = ["figure", "what", "measured", "bar", "baseline", "ratio", ""].map(str::to_owned);
    println!();
    for (i, row) in std::iter::once(head).chain(figures.iter().map(Figure::row)).enumerate() {
        println!("| {} |", row.join(" | "));
        if i == 0 {
            println!("|{}", " --- |".repeat(row.len()));
        }
    }
}

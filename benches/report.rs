//! What a figure is, and how it is reported.

use serde_json::{Value, json};

/// A limit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Bar {
    /// At least this.
    Least(f64),
    /// At most this.
    Most(f64),
    /// The value is only reported.
    None,
}

/// What was measured: one value, or several runs of which one value counts.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    pub value: f64,
    /// In the order of the runs; a single one where there was only one.
    pub runs: Vec<f64>,
    /// Which of the runs counts.
    counts: Counts,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Counts {
    Only,
    Median,
    Largest,
}

/// What the machine itself can do at the time, measured in the same run.
#[derive(Debug, Clone)]
pub struct Baseline {
    pub what: &'static str,
    /// In the figure's unit.
    pub value: f64,
    /// What an idle machine with two cores surely reaches. A baseline that does not reach it says
    /// that the machine is too busy or too slow for the figure to mean anything.
    pub floor: Bar,
}

/// A measured figure.
#[derive(Debug, Clone)]
pub struct Figure {
    /// Its name on the command line.
    pub name: &'static str,
    pub what: String,
    pub measured: Measured,
    pub unit: &'static str,
    /// What is promised, in the figure's unit.
    pub bar: Bar,
    /// What would be a regression, in times the baseline.
    pub ratio: Bar,
    pub baseline: Option<Baseline>,
}

/// The result of a figure's check against its limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It is within its limits.
    Met,
    /// It is not.
    Missed,
    /// Its baseline is worse than the floor: the run means nothing.
    Noisy,
}

impl From<f64> for Measured {
    fn from(value: f64) -> Self {
        Self { value, runs: vec![value], counts: Counts::Only }
    }
}

impl Measured {
    /// For what is compared with other machines and days.
    pub fn median(runs: Vec<f64>) -> Self {
        Self { value: median(runs.clone()), runs, counts: Counts::Median }
    }

    /// For what is promised each time.
    pub fn largest(runs: Vec<f64>) -> Self {
        let value = runs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        Self { value, runs, counts: Counts::Largest }
    }
}

/// The one in the middle, or the larger one of two.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

impl Counts {
    const fn text(self) -> &'static str {
        match self {
            Self::Only => "the only one",
            Self::Median => "median",
            Self::Largest => "largest",
        }
    }
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

    fn json(self) -> Value {
        match self {
            Self::Least(least) => json!({ "least": rounded(least) }),
            Self::Most(most) => json!({ "most": rounded(most) }),
            Self::None => Value::Null,
        }
    }
}

impl Figure {
    pub fn verdict(&self) -> Verdict {
        if self.baseline.as_ref().is_some_and(|b| !b.floor.holds(b.value)) {
            Verdict::Noisy
        } else if self.bar.holds(self.measured.value)
            && self.times().is_none_or(|times| self.ratio.holds(times))
        {
            Verdict::Met
        } else {
            Verdict::Missed
        }
    }

    /// In times the baseline.
    fn times(&self) -> Option<f64> {
        self.baseline.as_ref().map(|b| self.measured.value / b.value)
    }

    /// All of it. What is told apart by machines is `bar`, `ratio_bar` and `floor`: `{"most": 5}`,
    /// `{"least": 5}` or null.
    pub fn json(&self) -> Value {
        let baseline = self
            .baseline
            .as_ref()
            .map(|b| json!({ "what": b.what, "value": rounded(b.value), "floor": b.floor.json() }));
        json!({
            "name": self.name, "what": self.what, "value": rounded(self.measured.value),
            "unit": self.unit,
            "runs": self.measured.runs.iter().copied().map(rounded).collect::<Vec<_>>(),
            "counts": self.measured.counts.text(),
            "bar": self.bar.json(), "baseline": baseline, "ratio": self.times().map(rounded),
            "ratio_bar": self.ratio.json(),
            "verdict": self.verdict().text(),
        })
    }

    fn row(&self) -> [String; 8] {
        let dash = || "–".to_owned();
        let baseline = self
            .baseline
            .as_ref()
            .map_or_else(dash, |b| format!("{}: {}", b.what, number(b.value)));
        let times = self.times().map_or_else(dash, |times| format!("{times:.2}"));
        let measured = format!("{} {}", number(self.measured.value), self.unit);
        let verdict = self.verdict().text().to_owned();
        [
            self.name.to_owned(),
            self.what.clone(),
            measured,
            self.bar.text(),
            baseline,
            times,
            self.ratio.text(),
            verdict,
        ]
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

/// Four digits that count: more of them differ from run to run and only make differences between
/// files longer.
fn rounded(value: f64) -> f64 {
    format!("{value:.3e}").parse().unwrap()
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

/// The figures as a table in Markdown.
pub fn table(figures: &[Figure]) {
    let head = ["figure", "what", "measured", "bar", "baseline", "ratio", "its bar", ""]
        .map(str::to_owned);
    println!();
    for (i, row) in std::iter::once(head).chain(figures.iter().map(Figure::row)).enumerate() {
        println!("| {} |", row.join(" | "));
        if i == 0 {
            println!("|{}", " --- |".repeat(row.len()));
        }
    }
}

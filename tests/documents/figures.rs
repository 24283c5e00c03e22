//! The files of `docs/figures`, which `benches/run` writes, and the tables that are generated from
//! them.

use std::{collections::BTreeMap, fmt::Write as _};

use serde_json::Value;

use crate::{files, generated::hold, read};

/// Pages with tables of figures. Between the two comments stands what the files say.
const PAGES: [&str; 2] = ["docs/benchmarks.md", "docs/sizing.md"];
const BEGIN: &str = "<!-- figures: ";
const END: &str = "<!-- end of the figures -->";

/// The figures on file, by name.
pub fn measured() -> BTreeMap<String, Value> {
    let name =
        |file: &str| file.trim_start_matches("docs/figures/").trim_end_matches(".json").to_owned();
    let one = |file: String| {
        let text = read(&file);
        assert!(text.ends_with("}\n") && text.lines().count() == 1, "{file} is one line of JSON");
        (name(&file), serde_json::from_str(&text).unwrap_or_else(|error| panic!("{file}: {error}")))
    };
    files("docs/figures", ".json").into_iter().map(one).collect()
}

/// The figures that can be measured, in their order.
fn measurable() -> Vec<String> {
    let source = read("benches/main.rs");
    let table = source.split("const BENCHES").nth(1).unwrap().split("\n];").next().unwrap();
    let lists = table
        .split("bench(")
        .skip(1)
        .map(|bench| bench.split("&[").nth(1).unwrap().split(']').next().unwrap());
    lists.flat_map(|list| list.split('"').skip(1).step_by(2)).map(str::to_owned).collect()
}

/// A figure with the names of its fields.
struct Figure<'a>(&'a Value);

impl Figure<'_> {
    fn text(&self, field: &str) -> &str {
        self.0[field].as_str().unwrap_or_else(|| panic!("no {field} in {}", self.0))
    }

    fn number(&self, field: &str) -> f64 {
        self.0[field].as_f64().unwrap_or_else(|| panic!("no {field} in {}", self.0))
    }

    fn is_carried_over(&self) -> bool {
        self.0["carried_over"] == true
    }

    fn is_missed(&self) -> bool {
        self.text("verdict") == "MISSED"
    }

    /// `1.87 s (median of 5: 1.80 to 2.32)`.
    fn value(&self) -> String {
        let value = with_unit(self.number("value"), self.text("unit"));
        let value = if self.is_missed() { format!("**{value}**, missed") } else { value };
        let runs: Vec<f64> =
            self.0["runs"].as_array().unwrap().iter().map(|run| run.as_f64().unwrap()).collect();
        if runs.len() < 2 {
            return value;
        }
        let (least, most) = runs
            .iter()
            .fold((f64::MAX, f64::MIN), |(least, most), run| (least.min(*run), most.max(*run)));
        format!(
            "{value} ({} of {}: {} to {})",
            self.text("counts"),
            runs.len(),
            short(least),
            short(most)
        )
    }

    fn bar(&self) -> String {
        let own = bar(&self.0["bar"])
            .map(|(sign, value)| format!("{sign} {}", with_unit(value, self.text("unit"))));
        let ratio =
            bar(&self.0["ratio_bar"]).map(|(sign, times)| format!("{sign} {times} × baseline"));
        match own.into_iter().chain(ratio).collect::<Vec<_>>() {
            bars if bars.is_empty() => "only reported".to_owned(),
            bars => bars.join("; "),
        }
    }

    fn baseline(&self) -> String {
        let baseline = &self.0["baseline"];
        let Some(what) = baseline["what"].as_str() else { return "–".to_owned() };
        format!(
            "{what}: {} (ratio {})",
            with_unit(baseline["value"].as_f64().unwrap(), self.text("unit")),
            short(self.number("ratio"))
        )
    }

    fn origin(&self) -> String {
        let mark = if self.is_carried_over() { " †" } else { "" };
        format!("{}, `{}`{mark}", self.text("date"), self.text("commit"))
    }
}

/// The sign and the value of a bar.
fn bar(bar: &Value) -> Option<(&'static str, f64)> {
    let of = |key: &str, sign| bar[key].as_f64().map(|value| (sign, value));
    of("least", "≥").or_else(|| of("most", "≤"))
}

/// Three digits that count, without zeros at the end; thousands in groups.
fn short(value: f64) -> String {
    let whole = || {
        let digits = format!("{value:.0}");
        let groups: Vec<_> =
            digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy).collect();
        groups.join(" ")
    };
    let digits = match value.abs() {
        v if v >= 100.0 => return whole(),
        v if v >= 10.0 => format!("{value:.1}"),
        v if v >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    };
    digits.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn with_unit(value: f64, unit: &str) -> String {
    if unit.starts_with('/') { short(value) + unit } else { format!("{} {unit}", short(value)) }
}

/// What stands between the comments.
fn table(which: &str) -> String {
    let all = measured();
    let rows: Vec<String> = match which {
        "all on embedded servers" | "all on a real control plane" => {
            let is_real = which.ends_with("control plane");
            let names =
                measurable().into_iter().filter(|name| name.starts_with("real-") == is_real);
            let row = |name: String| match all.get(&name).map(Figure) {
                Some(figure) => format!(
                    "| `{name}` | {} | {} | {} | {} | {} |",
                    figure.text("what"),
                    figure.value(),
                    figure.bar(),
                    figure.baseline(),
                    figure.origin()
                ),
                None => format!("| `{name}` | not measured yet | – | – | – | – |"),
            };
            let head = "| figure | what | measured | bar | baseline in the same run | when, at \
                which commit |\n| --- | --- | --- | --- | --- | --- |";
            std::iter::once(head.to_owned()).chain(names.map(row)).collect()
        }
        names => {
            let row = |name: &str| {
                let figure =
                    Figure(all.get(name).unwrap_or_else(|| panic!("docs/figures has no {name}")));
                format!("| `{name}` | {} | {} |", figure.value(), figure.text("what"))
            };
            let head = "| figure | measured | what |\n| --- | --- | --- |";
            std::iter::once(head.to_owned()).chain(names.split(' ').map(row)).collect()
        }
    };
    rows.join("\n")
}

/// The page with its tables as the files have them.
fn page(text: &str) -> String {
    let mut parts = text.split(BEGIN);
    let mut page = parts.next().unwrap().to_owned();
    for part in parts {
        let (which, rest) = part.split_once(" -->\n").unwrap();
        let (_, after) =
            rest.split_once(END).unwrap_or_else(|| panic!("no «{END}» behind «{BEGIN}{which}»"));
        write!(page, "{BEGIN}{which} -->\n\n{}\n\n{END}{after}", table(which)).unwrap();
    }
    page
}

#[test]
fn the_tables_of_figures_are_generated() {
    for path in PAGES {
        let text = read(path);
        assert!(text.contains(BEGIN), "{path} has no table of figures");
        hold(path, &page(&text));
    }
}

/// No figure without a command.
#[test]
fn every_figure_on_file_is_one_that_can_be_measured() {
    let measurable = measurable();
    assert!(measurable.len() > 30, "{measurable:?}");
    for (name, value) in measured() {
        assert!(measurable.contains(&name), "benches/run measures no {name}");
        let figure = Figure(&value);
        assert_eq!(figure.text("name"), name);
        let is_date = figure.text("date").split('-').map(str::len).eq([4, 2, 2]);
        let is_commit =
            figure.text("commit").trim_end_matches('+').chars().all(|c| c.is_ascii_hexdigit());
        assert!(is_date && is_commit, "{name} was measured {}", figure.origin());
    }
}

/// Rows of figures stand only where they are generated.
#[test]
fn no_figure_stands_in_a_table_that_is_written_by_hand() {
    let measurable = measurable();
    for path in PAGES {
        let text = read(path);
        let by_hand: String = text
            .split(BEGIN)
            .enumerate()
            .map(|(i, part)| if i == 0 { part } else { part.split_once(END).unwrap().1 })
            .collect();
        let rows = by_hand.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
        let found: Vec<_> = rows.filter(|name| measurable.iter().any(|m| m == name)).collect();
        assert!(found.is_empty(), "{path}: {found:?}");
    }
}

#[test]
fn the_readme_rounds_what_was_measured() {
    let seconds = measured()["real-burst-1000"]["value"].as_f64().unwrap();
    let words = format!("1000 nodes cordoned in about {seconds:.0} s");
    assert!(read("README.md").contains(&words), "README.md does not have: {words}");
}

/// A bar that is far from what is measured lets a regression pass. What was carried over has bars
/// of its time.
#[test]
fn each_figure_has_a_bar_that_catches_twice_of_what_it_is() {
    for (name, value) in measured() {
        let figure = Figure(&value);
        if figure.is_carried_over() {
            continue;
        }
        let is_near = |bar_of: &str, is: Option<f64>| match (bar(&value[bar_of]), is) {
            (Some(("≤", most)), Some(is)) => most <= 2.0 * is,
            (Some((_, least)), Some(is)) => least >= is / 2.0,
            _ => false,
        };
        let is_only_reported = value["bar"].is_null() && value["ratio_bar"].is_null();
        let is_caught = is_near("bar", value["value"].as_f64())
            || is_near("ratio_bar", value["ratio"].as_f64());
        assert!(
            is_only_reported || is_caught || figure.is_missed(),
            "{name}: {} with {}",
            figure.bar(),
            figure.value()
        );
    }
}

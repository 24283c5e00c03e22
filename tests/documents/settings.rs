//! The flags of `sundown run`, as their page has them.

use sundown::config::document;

/// Every flag without its dashes, and its variable.
pub fn flags() -> Vec<(String, String)> {
    let page = document();
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `--"));
    let cells = rows.map(|row| {
        row.split(" | ").map(|cell| cell.trim_matches('`').to_owned()).collect::<Vec<_>>()
    });
    cells.map(|c| (c[0].split([' ', '`']).next().unwrap().to_owned(), c[1].clone())).collect()
}

/// The flag that has this variable.
pub fn flag_of(variable: &str) -> String {
    flags()
        .into_iter()
        .find(|(_, v)| v == variable)
        .unwrap_or_else(|| panic!("no flag has the variable {variable}"))
        .0
}

/// The name of its value in the chart, where it is one of `config`.
pub fn value_of(flag: &str) -> String {
    let mut words = flag.split('-');
    let mut name = words.next().unwrap().to_owned();
    for word in words {
        let (first, rest) = word.split_at(1);
        name += &(first.to_uppercase() + rest);
    }
    match name.as_str() {
        // Those that are lists of URLs.
        "queueUrl" | "dlqUrl" => name + "s",
        // YAML 1.1 reads the key `on` as true.
        "on" => "responses".to_owned(),
        _ => name,
    }
}

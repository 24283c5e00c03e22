//! Every link of every page, read as Markdown is read; and the pages that other files name.
//!
//! A link to a file of ours must lead to one, and to a heading of it where it names one. What leads
//! out of the project is held to its form only: no test asks the network.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Component, Path, PathBuf},
};

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use crate::{files, pages::anchor, read, root};

/// Every Markdown file of the project.
pub fn all_pages() -> Vec<String> {
    let mut all: Vec<String> =
        ["README.md", "CHANGELOG.md", "CONTRIBUTING.md"].map(str::to_owned).into();
    for dir in ["docs", "deploy", "terraform", "tests"] {
        all.extend(
            files(dir, ".md")
                .into_iter()
                .filter(|file| !file.contains("/.terraform/") && !file.contains("/target/")),
        );
    }
    all
}

/// What a page has of links and headings.
struct Page {
    links: Vec<String>,
    anchors: BTreeSet<String>,
}

impl Page {
    fn of(text: &str) -> Self {
        let mut page = Self { links: Vec::new(), anchors: BTreeSet::new() };
        let mut heading: Option<String> = None;
        let mut seen: BTreeMap<String, usize> = BTreeMap::new();
        for event in Parser::new_ext(text, Options::ENABLE_TABLES) {
            match event {
                Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
                Event::Text(words) | Event::Code(words) => {
                    if let Some(heading) = &mut heading {
                        heading.push_str(&words);
                    }
                }
                Event::End(TagEnd::Heading(_)) => {
                    let name = anchor(&heading.take().unwrap());
                    let count = seen.entry(name.clone()).or_default();
                    // The second of a name gets a number.
                    page.anchors.insert(if *count == 0 { name } else { format!("{name}-{count}") });
                    *count += 1;
                }
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    page.links.push(dest_url.into_string());
                }
                _ => {}
            }
        }
        page
    }
}

/// What is wrong with a link of a page, if anything is.
fn fault(page: &str, own: &Page, link: &str) -> Option<String> {
    if let Some((scheme, rest)) =
        link.split_once(':').filter(|(scheme, _)| scheme.chars().all(|c| c.is_ascii_alphanumeric()))
    {
        let host = rest.trim_start_matches('/').split(['/', '?', '#']).next().unwrap_or_default();
        let named = host.contains('.')
            && host.chars().all(|c| c.is_ascii_alphanumeric() || c == '.' || c == '-');
        let fine =
            scheme == "https" && rest.starts_with("//") && named && url::Url::parse(link).is_ok();
        return (!fine).then(|| "it is no https:// link to a host".to_owned());
    }
    let (file, wanted) =
        link.split_once('#').map_or((link, None), |(file, wanted)| (file, Some(wanted)));
    if file.is_empty() {
        return wanted
            .filter(|wanted| !own.anchors.contains(*wanted))
            .map(|wanted| format!("the page has no heading {wanted}"));
    }
    let Some(target) = within(&Path::new(page).parent().unwrap().join(file)) else {
        return Some("it leads out of the project".to_owned());
    };
    if !root().join(&target).exists() {
        return Some(format!("there is no {}", target.display()));
    }
    let wanted = wanted?;
    if target.extension().is_none_or(|e| e != "md") {
        return Some("only a page has headings".to_owned());
    }
    let there = Page::of(&read(target.to_str().unwrap()));
    (!there.anchors.contains(wanted))
        .then(|| format!("{} has no heading {wanted}", target.display()))
}

/// The path without `..`, where it is one in the project.
fn within(path: &Path) -> Option<PathBuf> {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => plain.push(name),
            Component::CurDir => {}
            Component::ParentDir if plain.pop() => {}
            _ => return None,
        }
    }
    Some(plain)
}

#[test]
fn every_link_of_every_page_leads_somewhere() {
    let mut faults = Vec::new();
    let mut followed = 0;
    for page in all_pages() {
        let own = Page::of(&read(&page));
        followed += own.links.len();
        faults.extend(
            own.links.iter().filter_map(|link| {
                Some(format!("{page}: ({link}): {}", fault(&page, &own, link)?))
            }),
        );
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(followed > 100, "{followed} links");
}

#[test]
fn every_kind_of_fault_is_found() {
    let text = "# One\n\n## Two `flags`\n\n## One\n\n[a](#two-flags) [b](#one-1) [c][ref] \
        ![d](docs/adr) `[e](nowhere)`\n\n```\n[f](nowhere)\n# no-heading\n```\n\n[ref]: \
        README.md\n";
    let page = Page::of(text);
    assert_eq!(page.links, ["#two-flags", "#one-1", "README.md", "docs/adr"]);
    assert_eq!(page.anchors, ["one", "one-1", "two-flags"].map(str::to_owned).into());
    for fine in [
        "#two-flags",
        "README.md",
        "./docs/operations.md#alerts",
        "docs/../LICENSE",
        "https://example.com/a?b#c",
    ] {
        assert_eq!(fault("README.md", &page, fine), None, "{fine}");
    }
    for (link, words) in [
        ("#no-heading", "no heading"),
        ("docs/nowhere.md", "there is no docs/nowhere.md"),
        ("docs/operations.md#nowhere", "docs/operations.md has no heading nowhere"),
        ("LICENSE#alerts", "only a page"),
        ("../other/README.md", "out of the project"),
        ("/etc/passwd", "out of the project"),
        ("http://example.com", "no https:// link"),
        ("https:/example.com", "no https:// link"),
        ("https://localhost/x", "no https:// link"),
        ("https://exa mple.com/", "no https:// link"),
        ("ftp://example.com", "no https:// link"),
    ] {
        let said = fault("README.md", &page, link);
        assert!(said.as_ref().is_some_and(|said| said.contains(words)), "{link}: {said:?}");
    }
}

/// Messages, comments and alerts name pages by their path from the root.
#[test]
fn pages_that_other_files_name_are_there() {
    let mut seen = 0;
    let kinds = [
        ("src", ".rs"),
        ("deploy", ".yaml"),
        ("deploy", ".tpl"),
        ("deploy", ".txt"),
        ("deploy", ".json"),
        ("terraform", ".tf"),
    ];
    for file in kinds
        .iter()
        .flat_map(|(dir, ending)| files(dir, ending))
        .filter(|file| !file.contains("/.terraform/"))
    {
        let text = read(&file);
        let words = text.split(|c: char| !c.is_ascii_alphanumeric() && !"-_./#".contains(c));
        for named in words
            .filter(|word| word.starts_with("docs/") && word.contains(".md"))
            .map(|word| word.trim_end_matches('.'))
        {
            assert_eq!(fault("README.md", &Page::of(""), named), None, "{file} names {named}");
            seen += 1;
        }
    }
    assert!(seen > 30, "{seen} names");
}

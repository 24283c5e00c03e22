//! The picture of README, against what `sundown simulate` prints.

use std::process::Command;

use crate::{read, root};

const PICTURE: &str = "docs/picture/drain.svg";

/// The text of each `<text>` element.
fn lines(picture: &str) -> Vec<String> {
    let elements =
        picture.split("<text ").skip(1).map(|rest| rest.split("</text>").next().unwrap());
    let plain = |element: &str| {
        // Each part begins within a tag.
        let parts = element.split('<').map(|part| part.split_once('>').unwrap().1);
        let text = parts.collect::<String>();
        text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
    };
    elements.map(plain).collect()
}

#[test]
fn the_text_of_an_element_is_found() {
    let picture = r#"<svg><title>t</title><text x="1">a<tspan fill="b">&lt;c&gt; </tspan> d</text>
        <text x="2"><tspan>e</tspan></text></svg>"#;
    assert_eq!(lines(picture), ["a<c>  d", "e"]);
}

/// The simulation prints the same bytes on every machine.
#[test]
fn the_picture_shows_what_the_simulation_prints() {
    let shown = lines(&read(PICTURE));
    let (prompt, shown) = shown.split_first().unwrap();
    let arguments = prompt.strip_prefix("$ sundown ").unwrap().split(' ');
    let output = Command::new(env!("CARGO_BIN_EXE_sundown"))
        .args(arguments)
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let printed = String::from_utf8(output.stdout).unwrap();
    let printed: Vec<_> = printed.lines().filter(|line| !line.is_empty()).collect();
    assert_eq!(shown, printed, "docs/picture/render draws it again");
}

/// Readers who cannot see the picture have its description, in README and in the file. GitHub shows
/// no file that loads another one or runs a script.
#[test]
fn the_picture_is_described_small_and_alone() {
    let (picture, readme) = (read(PICTURE), read("README.md"));
    let (before, _) = readme.split_once(&format!("]({PICTURE})")).unwrap();
    let description = before.rsplit("![").next().unwrap();
    assert!(description.split_whitespace().count() > 30, "{description}");
    for part in ["<title ", "<desc ", "role=\"img\""] {
        assert!(picture.contains(part), "{PICTURE} has no {part}");
    }
    let links = picture.replace("http://www.w3.org/2000/svg", "");
    for part in ["<script", "<image", "http", "url(", "@import"] {
        assert!(!links.contains(part), "{PICTURE} has {part}");
    }
    assert!(picture.len() < 60_000, "{} bytes", picture.len());
}

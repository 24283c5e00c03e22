//! What the chart makes of three sets of values, as it was read by a person last.

use std::{fs, path::PathBuf};

use crate::tools::{ROOT, SETS, Tools, chart, objects, values};

fn snapshot(set: &str) -> PathBuf {
    format!("{ROOT}/tests/packaging/snapshots/{set}.yaml").into()
}

#[test]
fn what_is_made_of_three_sets_of_values_is_what_was_read() {
    let Some(tools) = Tools::found() else { return };
    for set in SETS {
        let file = snapshot(set);
        if std::env::var_os("SUNDOWN_WRITE_DOCS").is_some() {
            fs::write(
                &file,
                tools.template(&tools.helms()[0], &chart(), &["--values", &values(set)]).unwrap(),
            )
            .unwrap();
        }
        let (now, read) = (tools.objects(set, &[]), objects(&fs::read_to_string(&file).unwrap()));
        assert_eq!(
            now.keys().collect::<Vec<_>>(),
            read.keys().collect::<Vec<_>>(),
            "{set}: other objects"
        );
        for (name, object) in &now {
            let lines = |o: &serde_json::Value| serde_json::to_string_pretty(o).unwrap();
            assert!(
                object == &read[name],
                "{set}: {name} was\n{}\nand is\n{}\nWrite it with SUNDOWN_WRITE_DOCS=1",
                lines(&read[name]),
                lines(object)
            );
        }
    }
}

#[test]
fn either_helm_finds_no_fault_in_the_chart() {
    let Some(tools) = Tools::found() else { return };
    let chart = chart();
    for helm in tools.helms() {
        for set in SETS.map(values).iter().map(|file| vec!["--values", file]).chain([vec![]]) {
            let args =
                [&["lint", "--strict", "--kube-version", "1.37.0", &chart], &set[..]].concat();
            let output = tools
                .run(&helm, &args)
                .unwrap_or_else(|error| panic!("{} {set:?}: {error}", helm.display()));
            assert!(output.contains("1 chart(s) linted, 0 chart(s) failed"), "{output}");
        }
        let broken = tools.work.path().join("broken");
        tools.run("cp".as_ref(), &["-r", &chart, broken.to_str().unwrap()]).unwrap();
        fs::write(broken.join("templates/broken.yaml"), "kind: {{ .Values.nothing.here }}")
            .unwrap();
        assert!(
            tools
                .run(
                    &helm,
                    &["lint", "--strict", "--kube-version", "1.37.0", broken.to_str().unwrap()]
                )
                .is_err(),
            "it finds what is one"
        );
        fs::remove_dir_all(broken).unwrap();
    }
}

//! The values that `sundown from-nth` prints, as the chart takes them.

use std::{fs, path::Path};

use crate::{
    process::{run, sundown},
    tools::{ROOT, Tools, chart, objects},
};

/// What only a person knows.
const IMAGE: [&str; 2] = ["--set", "image.repository=registry.example.com/sundown"];
const QUEUE: [&str; 2] =
    ["--set", "config.queueUrls={https://sqs.eu-west-1.amazonaws.com/123456789012/sundown-shop}"];

#[tokio::test(flavor = "multi_thread")]
async fn the_values_that_from_nth_prints_are_taken_and_the_account_of_the_pods_is_made() {
    let Some(tools) = Tools::found() else { return };
    let files = fs::read_dir(Path::new(ROOT).join("tests/from-nth"))
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mut fixtures: Vec<_> =
        files.filter(|file| file.extension().is_some_and(|ending| ending == "yaml")).collect();
    fixtures.sort();
    assert!(fixtures.len() >= 8, "{fixtures:?}");
    let file = tools.work.path().join("from-nth.yaml");
    let values = ["--values", file.to_str().unwrap()];
    let (mut with_queue, mut without) = (0, 0);
    for fixture in fixtures {
        let fixture = fixture.to_str().unwrap();
        let output = run(
            tools.work.path(),
            sundown(tools.work.path()).args(["from-nth", "-o", "values", fixture]),
        )
        .await;
        assert_eq!(output.code, Some(0), "{fixture}: {}", output.err);
        fs::write(&file, &output.out).unwrap();
        for helm in tools.helms() {
            let mut args = [values, IMAGE].concat();
            // A DaemonSet has no queue yet.
            if output.err.contains("IMDS mode") {
                let refused = tools.template(&helm, &chart(), &args).expect_err(fixture);
                assert!(refused.contains("config.queueUrls is empty"), "{fixture}: {refused}");
                args.extend(QUEUE);
                without += 1;
            } else {
                with_queue += 1;
            }
            let printed = tools.template(&helm, &chart(), &args).unwrap_or_else(|error| {
                panic!("{}: {fixture}: {error}\n{}", helm.display(), output.out)
            });
            let made = objects(&printed);
            let account =
                made["Deployment/sundown"]["spec"]["template"]["spec"]["serviceAccountName"]
                    .as_str()
                    .unwrap();
            assert!(
                made.contains_key(&format!("ServiceAccount/{account}")),
                "{fixture}: {:?}",
                made.keys()
            );
            assert!(
                made.contains_key("ClusterRoleBinding/sundown"),
                "{fixture}: {:?}",
                made.keys()
            );
        }
    }
    assert!(with_queue > without && without > 0, "{with_queue}, {without}");
}

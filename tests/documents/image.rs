//! The image and the workflow that releases it, as far as that needs no engine. (That the binary
//! starts in what the base image has: tests/binary.)

use std::{collections::BTreeSet, path::Path};

use serde_json::Value;
use sundown::config::RunArgs;

use crate::{files, read, root};

const WORKFLOW: &str = ".github/workflows/release.yml";

/// The instructions of the Dockerfile, each in one line.
fn instructions() -> Vec<String> {
    let text = read("deploy/Dockerfile").replace("\\\n", " ");
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
    lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

fn of(kind: &str) -> Vec<String> {
    instructions()
        .iter()
        .filter_map(|line| line.strip_prefix(kind)?.strip_prefix(' ').map(str::to_owned))
        .collect()
}

/// An image that is named by its digest, with what stands behind it.
fn without_digest(image: &str) -> String {
    let (name, rest) = image
        .split_once("@sha256:")
        .unwrap_or_else(|| panic!("{image} has no digest: its tag may be another image tomorrow"));
    let (digest, rest) = rest.split_at(64);
    assert!(
        digest.bytes().all(|b| b.is_ascii_hexdigit())
            && !rest.starts_with(|c: char| c.is_ascii_hexdigit()),
        "{image}"
    );
    format!("{name}{rest}")
}

#[test]
fn the_image_is_built_with_the_rust_of_cargo_toml_and_meets_the_c_library_it_was_built_with() {
    let stages: Vec<_> = of("FROM").iter().map(|stage| without_digest(stage)).collect();
    let [build, base] = &stages[..] else { panic!("{stages:?}") };
    let rust = env!("CARGO_PKG_RUST_VERSION");
    let releases = [("bookworm", "debian12"), ("trixie", "debian13")];
    let fits = |(code, number): &(&str, &str)| {
        *build == format!("rust:{rust}-{code} AS build")
            && *base == format!("gcr.io/distroless/cc-{number}:nonroot")
    };
    assert!(releases.iter().any(fits), "{stages:?} are not of one Debian");
    let labels = of("LABEL").join(" ");
    assert!(labels.contains(&format!("image.base.name=\"{base}\"")), "{labels}");
    assert!(of("ARG").contains(&format!("VERSION={}", env!("CARGO_PKG_VERSION"))));
}

/// Its layer is of use only as long as nothing of ours is in it.
#[test]
fn the_dependencies_are_compiled_before_the_sources_are_there() {
    let build: Vec<_> = instructions()
        .into_iter()
        .skip_while(|line| !line.starts_with("FROM"))
        .skip(1)
        .take_while(|l| !l.starts_with("FROM"))
        .collect();
    let compiled: Vec<_> = (0..build.len())
        .filter(|at| build[*at].contains("cargo build --release --locked --bin sundown"))
        .collect();
    let [dependencies, all] = compiled[..] else { panic!("{build:#?}") };
    let copied = |lines: &[String]| {
        lines.iter().filter(|l| l.starts_with("COPY ")).cloned().collect::<Vec<_>>()
    };
    assert_eq!(copied(&build[..dependencies]), ["COPY Cargo.toml Cargo.lock ./"]);
    assert!(copied(&build[dependencies..all]).contains(&"COPY src src".to_owned()));
    // The same time as the empty program's, and cargo would keep that.
    assert!(build[all].starts_with("RUN touch src/lib.rs src/main.rs "), "{}", build[all]);
}

/// What the sources take in at compile time is copied, and what is copied is let into the context.
#[test]
fn whatever_is_compiled_in_is_in_the_context() {
    let copied: Vec<String> = of("COPY")
        .iter()
        .filter(|c| !c.starts_with("--from"))
        .flat_map(|c| c.split(' ').rev().skip(1).map(str::to_owned).collect::<Vec<_>>())
        .collect();
    let mut taken_in = 0;
    for file in files("src", ".rs")
        .into_iter()
        .filter(|file| !file.contains("/tests") && !file.ends_with("/tests.rs"))
    {
        for (path, _) in
            read(&file).split("include_str!(\"").skip(1).filter_map(|rest| rest.split_once('"'))
        {
            let full = root().join(&file).parent().unwrap().join(path).canonicalize().unwrap();
            let full = full.strip_prefix(root().canonicalize().unwrap()).unwrap().to_owned();
            assert!(
                copied.iter().any(|c| full.starts_with(c)),
                "{file} takes in {}, which the Dockerfile does not copy",
                full.display()
            );
            taken_in += 1;
        }
    }
    assert!(taken_in > 0, "the built-in scenario at least");
    let ignored = read(".dockerignore");
    let let_in: BTreeSet<_> =
        ignored.lines().filter_map(|line| line.strip_prefix('!')).map(str::to_owned).collect();
    assert!(ignored.lines().any(|line| line == "*"));
    assert_eq!(copied.into_iter().collect::<BTreeSet<_>>(), let_in);
    assert!(let_in.iter().all(|path| root().join(path).exists()));
}

#[test]
fn it_listens_where_the_image_says_and_is_where_people_are_told() {
    let config = RunArgs::from_flags(["--queue-url", "https://sqs.eu-west-1.amazonaws.com/1/a"])
        .unwrap()
        .config(&|_| None)
        .unwrap();
    let ports = [config.service.metrics, config.service.probes]
        .map(|address| address.unwrap().port().to_string());
    assert_eq!(of("EXPOSE"), [ports.join(" ")]);
    let entry: Vec<String> = serde_json::from_str(&of("ENTRYPOINT")[0]).unwrap();
    assert!(of("COPY").contains(&format!("--from=build /src/target/release/sundown {}", entry[0])));
    for page in ["docs/install.md", "docs/operations.md"] {
        let told: Vec<String> = read(page)
            .split("deploy/sundown -- ")
            .skip(1)
            .map(|rest| rest.split([' ', '`']).next().unwrap().to_owned())
            .collect();
        assert!(
            !told.is_empty() && told.iter().all(|program| *program == entry[0]),
            "{page}: {told:?}"
        );
    }
}

fn workflow() -> Value {
    serde_saphyr::from_str(&read(WORKFLOW)).unwrap()
}

#[test]
fn a_release_is_made_of_tags_alone_and_each_job_may_do_what_it_has_to() {
    let workflow = workflow();
    assert_eq!(workflow["on"], serde_json::json!({ "push": { "tags": ["v*.*.*"] } }));
    assert_eq!(workflow["permissions"], serde_json::json!({}));
    let writes = |job: &str| {
        let granted = workflow["jobs"][job]["permissions"]
            .as_object()
            .unwrap_or_else(|| panic!("{job} has all rights there are"));
        granted
            .iter()
            .filter(|(_, right)| *right == "write")
            .map(|(what, _)| what.clone())
            .collect::<Vec<_>>()
    };
    let jobs: Vec<_> = workflow["jobs"].as_object().unwrap().keys().cloned().collect();
    let all: Vec<_> = jobs.iter().map(|job| (job.as_str(), writes(job))).collect();
    let publish = vec!["id-token".to_owned(), "packages".to_owned()];
    assert_eq!(
        all,
        [
            ("dependencies", vec![]),
            ("image", vec!["packages".to_owned()]),
            ("publish", publish),
            ("tested", vec![]),
            ("version", vec![])
        ]
    );
    assert_eq!(
        workflow["jobs"]["publish"]["environment"], "release",
        "who signs waits for a reviewer"
    );
}

#[test]
fn both_platforms_are_built_with_all_that_is_promised() {
    let workflow = workflow();
    let image = &workflow["jobs"]["image"];
    let built: BTreeSet<_> = image["strategy"]["matrix"]["include"]
        .as_array()
        .unwrap()
        .iter()
        .map(|leg| leg["platform"].as_str().unwrap())
        .collect();
    let deny = read("deny.toml");
    let checked = [("amd64", "x86_64-unknown-linux-gnu"), ("arm64", "aarch64-unknown-linux-gnu")];
    assert!(checked.iter().all(|(_, target)| deny.contains(target)));
    assert_eq!(built, checked.map(|(platform, _)| platform).into());

    let steps = workflow["jobs"]
        .as_object()
        .unwrap()
        .values()
        .flat_map(|job| job["steps"].as_array().unwrap());
    let build = steps
        .clone()
        .find(|step| {
            step["uses"].as_str().is_some_and(|u| u.starts_with("docker/build-push-action@"))
        })
        .unwrap();
    let by = |job: &str| format!("{{{{ needs.version.outputs.{job} }}}}");
    assert_eq!(
        (&build["with"]["sbom"], &build["with"]["provenance"]),
        (&Value::from(format!("generator=${}", by("sbom"))), &Value::from("mode=max,version=v1"))
    );
    for builder in steps.clone().filter(|step| {
        step["uses"].as_str().is_some_and(|uses| uses.starts_with("docker/setup-buildx-action@"))
    }) {
        assert_eq!(builder["with"]["driver-opts"], format!("image=${}", by("buildkit")));
    }
    assert!(Path::new(root()).join(build["with"]["file"].as_str().unwrap()).exists());
    let commands: Vec<&str> = steps.filter_map(|step| step["run"].as_str()).collect();
    assert!(
        commands.iter().any(|c| c.contains("cosign sign --yes"))
            && commands.iter().any(|c| c.contains("cosign verify"))
    );
}

/// What a job runs, as one text, and where in it something stands.
fn place(job: &str, what: &str) -> usize {
    let steps = workflow()["jobs"][job]["steps"].clone();
    let commands: Vec<String> = steps
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|step| step["run"].as_str().map(str::to_owned))
        .collect();
    commands.join("\n").find(what).unwrap_or_else(|| panic!("{job} does not run {what}"))
}

#[test]
fn an_image_gets_the_name_of_its_version_only_after_it_was_scanned_signed_attested_and_verified() {
    assert!(
        place("version", "git merge-base --is-ancestor")
            < place("version", "imagetools inspect --raw")
    );
    place("dependencies", "cargo deny --locked check");
    place("image", "--fail-on high");
    let order = [
        "cosign sign --yes --recursive \"$IMAGE@$DIGEST\"",
        "cosign attest --yes --type spdxjson",
        "cosign verify \"$IMAGE@$DIGEST\"",
        "cosign verify-attestation \"$IMAGE@$DIGEST\"",
        "--tag \"$IMAGE:$VERSION\"",
        "helm push",
        "cosign sign --yes \"$charts/sundown@$digest\"",
    ];
    let places: Vec<_> = order.iter().map(|what| place("publish", what)).collect();
    assert!(places.is_sorted(), "{places:?}");
    let workflow = workflow();
    let needs = |job: &str| workflow["jobs"][job]["needs"].clone();
    assert_eq!(
        (needs("image"), needs("publish")),
        (
            serde_json::json!(["version", "tested", "dependencies"]),
            serde_json::json!(["version", "image"])
        )
    );
}

#[test]
fn the_images_that_a_release_runs_are_named_by_digest_and_kept_up_to_date() {
    let file = ".github/images/Dockerfile";
    let images: Vec<_> = read(file)
        .lines()
        .filter_map(|line| line.strip_prefix("FROM "))
        .map(without_digest)
        .collect();
    let uses: Vec<_> = images.iter().map(|image| image.split_once(" AS ").unwrap().1).collect();
    assert_eq!(uses, ["buildkit", "sbom", "scan"]);
    let updates: Value = serde_saphyr::from_str(&read(".github/dependabot.yml")).unwrap();
    let updates = updates["updates"].as_array().unwrap();
    let of = |kind: &str| {
        updates
            .iter()
            .find(|update| update["package-ecosystem"] == kind)
            .unwrap_or_else(|| panic!("no updates of {kind}"))
    };
    assert_eq!(of("docker")["directories"], serde_json::json!(["/deploy", "/.github/images"]));
    for kind in ["cargo", "github-actions", "gomod", "pip"] {
        let folders = of(kind)["directories"]
            .as_array()
            .cloned()
            .unwrap_or_else(|| vec![of(kind)["directory"].clone()]);
        for folder in folders {
            assert!(
                root().join(folder.as_str().unwrap().trim_start_matches('/')).is_dir(),
                "{kind}: {folder}"
            );
        }
    }
}

#[test]
fn a_vulnerability_has_a_private_way_to_the_maintainers() {
    let policy = read("SECURITY.md");
    assert!(policy.contains("**Report a vulnerability**") && policy.contains("docs/security.md"));
}

/// What tests and benchmarks say of the binary is true of the image.
#[test]
fn tests_and_benchmarks_run_the_binary_in_the_environment_of_the_image() {
    let set = of("ENV");
    assert!(!set.is_empty());
    for (name, value) in set.iter().map(|pair| pair.split_once('=').unwrap()) {
        assert!(
            read("tests/binary/process.rs").contains(&format!(".env(\"{name}\", \"{value}\")")),
            "{name}={value}"
        );
    }
}

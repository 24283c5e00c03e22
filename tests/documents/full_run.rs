//! That `tests/run --all` cannot be hollowed out: it is played here in a small repository of its
//! own, with programs that print what they are told to.

use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::atomic::{AtomicU32, Ordering},
};

use crate::{files, read, root};

/// Variables that `tests/run --all` leaves as they are, and why none of them narrows a run.
const KEPT: &[(&str, &str)] = &[
    ("SUNDOWN_CACHE", "where built tools are kept"),
    ("SUNDOWN_CONTROL_PLANE", "where a control plane is; without its programs the tests fail"),
    ("SUNDOWN_PYTHON", "where Python's packages are; without them the tests fail"),
    ("HOME", "where programs keep their files"),
    ("PATH", "where programs are"),
    ("SHELL", "which shell a person is given by tests/control-plane/shell"),
    ("TERM", "how the simulation draws on a terminal"),
    ("NO_COLOR", "how the simulation draws on a terminal"),
];

/// What stands in for cargo and the other programs. It answers by the words of its command line,
/// with what the variables of the case say, and notes its environment.
const PROGRAM: &str = r#"#!/bin/sh
env > "$CASE/environment.$$"
case "$(basename "$0") $*" in
  "cargo metadata"*) printf '{"target_directory":"%s"}\n' "$CASE/target" ;;
  "cargo build"*) mkdir -p "$CASE/target/release" && printf '#!/bin/sh\n' > "$CASE/target/release/sundown" \
    && chmod +x "$CASE/target/release/sundown" ;;
  *--no-run*) ;;
  *"--test simulation"*) printf '%s\n' "$CASE_SIMULATION"; sh -c "$CASE_DOES" ;;
  "cargo test"*) printf '%s\n' "$CASE_TESTS" ;;
esac
"#;

const PASSED: &str =
    "test result: ok. 7 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.1s";

/// A repository with tests/run and nothing to test.
struct Repository {
    folder: PathBuf,
}

impl Drop for Repository {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.folder));
    }
}

/// What the tests print, and what else they do.
#[derive(Clone, Copy)]
struct Case<'a> {
    simulation: &'a str,
    others: &'a str,
    does: &'a str,
    arguments: &'a [&'a str],
}

const FINE: Case<'_> = Case { simulation: "", others: PASSED, does: "", arguments: &[] };

impl Repository {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name =
            format!("full-run-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let new = Self { folder: Path::new(env!("CARGO_TARGET_TMPDIR")).join(name) };
        drop(fs::remove_dir_all(&new.folder));
        for file in ["tests/run", "tests/checks.sh"] {
            new.write(&format!("project/{file}"), &read(file));
        }
        let tool = "#!/bin/sh\necho /nowhere\n";
        for file in ["tests/control-plane/build", "tests/contract/python", "tests/terraform/build"]
        {
            new.program(&format!("project/{file}"), tool);
        }
        new.program("project/tests/terraform/run", "#!/bin/sh\n");
        for name in ["cargo", "chroot", "nice"] {
            let text = if name == "nice" {
                "#!/bin/sh\n[ \"$1\" != -n ] || shift 2\nexec \"$@\"\n"
            } else {
                PROGRAM
            };
            new.program(&format!("programs/{name}"), text);
        }
        new.write("project/.gitignore", "/ignored\n");
        new.write("project/page.md", "one\n");
        new.git(&["init", "--quiet"]);
        new.git(&["add", "--all"]);
        new.git(&[
            "-c",
            "user.name=a",
            "-c",
            "user.email=a@example.com",
            "commit",
            "--quiet",
            "--message",
            "a",
        ]);
        new
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.folder.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn program(&self, path: &str, text: &str) {
        self.write(path, text);
        fs::set_permissions(self.folder.join(path), fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn git(&self, arguments: &[&str]) {
        let output =
            Command::new("git").args(arguments).current_dir(self.folder.join("project")).output();
        let output = output.expect("these tests need git");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// `tests/run --all`, with these variables set.
    fn run(&self, case: Case<'_>, variables: &BTreeSet<String>) -> Output {
        let path = format!(
            "{}:{}",
            self.folder.join("programs").display(),
            std::env::var("PATH").unwrap()
        );
        let mut command = Command::new("bash");
        command
            .args(["tests/run", "--all"])
            .args(case.arguments)
            .current_dir(self.folder.join("project"));
        for name in variables {
            command.env(name, "1");
        }
        command.env("PATH", path).env("CASE", &self.folder).env("CASE_SIMULATION", case.simulation);
        command.env("CASE_TESTS", case.others).env("CASE_DOES", case.does).output().unwrap()
    }

    /// Whether it succeeded, and what it said.
    fn said(&self, case: Case<'_>) -> (bool, String) {
        let output = self.run(case, &BTreeSet::new());
        let text =
            [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
        (output.status.success(), text)
    }

    /// The variables that cargo was given, in all its calls.
    fn given(&self) -> BTreeSet<String> {
        let mut all = BTreeSet::new();
        for entry in fs::read_dir(&self.folder).unwrap() {
            let path = entry.unwrap().path();
            if path.file_name().unwrap().to_string_lossy().starts_with("environment.") {
                let text = fs::read_to_string(path).unwrap();
                all.extend(
                    text.lines().filter_map(|line| Some(line.split_once('=')?.0.to_owned())),
                );
            }
        }
        all
    }
}

/// What two lanes print of `count` random worlds.
fn lanes(count: u64) -> String {
    let half = count / 2;
    format!(
        "test a ... \nplayed: {half} seeds of 1 to {count}\nok\n\nplayed: {} seeds of 1 to \
         {count}\n{PASSED}",
        count - half
    )
}

/// The words of a text that are variables of Sundown.
fn variables(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|c: char| !c.is_ascii_uppercase() && !c.is_ascii_digit() && c != '_');
    words.filter(|word| word.strip_prefix("SUNDOWN_").is_some_and(|rest| !rest.is_empty()))
}

/// What `env::var` and `env::var_os` are given in a text: a name, or what stands in the place of
/// one.
fn read_from_environment(text: &str) -> impl Iterator<Item = &str> {
    let calls = ["env::var(", "env::var_os("].into_iter().flat_map(|call| text.split(call).skip(1));
    calls.map(|rest| rest.split(')').next().unwrap())
}

#[test]
fn the_full_run_forgets_every_variable_that_could_narrow_it() {
    let mut names = BTreeSet::from(
        ["PROPTEST_CASES", "CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER"].map(str::to_owned),
    );
    let own = "tests/documents/full_run.rs";
    for file in
        files("tests", "").into_iter().chain(files("benches", "")).filter(|file| file != own)
    {
        // The corpus of the fuzzer is not text.
        let Ok(text) = fs::read_to_string(root().join(&file)) else { continue };
        names.extend(variables(&text).map(str::to_owned));
    }
    let of_src = files("src", ".rs")
        .into_iter()
        .filter(|file| file.contains("/tests/") || file.ends_with("tests.rs"));
    for file in files("tests", ".rs").into_iter().chain(of_src).filter(|file| file != own) {
        let text = read(&file);
        for name in read_from_environment(&text) {
            match name.strip_prefix('"').and_then(|name| name.strip_suffix('"')) {
                Some(name) => drop(names.insert(name.to_owned())),
                // Its caller names the variable, which begins with SUNDOWN_ (above).
                None => assert_eq!(name, "name", "{file} reads a variable that no test knows"),
            }
        }
    }
    let known = [
        "SUNDOWN_SEED",
        "SUNDOWN_SEEDS",
        "SUNDOWN_FIRST_SEED",
        "SUNDOWN_FUZZ_SEED",
        "SUNDOWN_CASE",
        "SUNDOWN_WRITE_DOCS",
        "SUNDOWN_BINARY",
    ];
    assert!(known.iter().all(|name| names.contains(*name)), "{names:?}");

    let repository = Repository::new();
    let unset: BTreeSet<_> =
        names.iter().filter(|name| KEPT.iter().all(|(kept, _)| kept != name)).cloned().collect();
    let lanes = lanes(40);
    let output = repository.run(Case { simulation: &lanes, ..FINE }, &unset);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let set_by_the_run = [
        "SUNDOWN_SEEDS",
        "SUNDOWN_NEW_SEEDS",
        "SUNDOWN_FUZZ_SECONDS",
        "SUNDOWN_SKIP",
        "SUNDOWN_BINARY",
        "SUNDOWN_TEST_GOGC",
    ];
    let left: Vec<_> = repository
        .given()
        .intersection(&unset)
        .filter(|name| !set_by_the_run.contains(&name.as_str()))
        .cloned()
        .collect();
    assert_eq!(left, Vec::<String>::new(), "tests/checks.sh does not unset these");
    for entry in fs::read_dir(&repository.folder).unwrap().map(|entry| entry.unwrap().path()) {
        let Ok(text) = fs::read_to_string(&entry) else { continue };
        for (name, value) in [
            ("SUNDOWN_SEEDS", "40"),
            ("SUNDOWN_NEW_SEEDS", "0"),
            ("SUNDOWN_FUZZ_SECONDS", "2"),
            ("SUNDOWN_SKIP", "no"),
        ] {
            assert!(
                text.lines().any(|line| line == format!("{name}={value}")),
                "{name} is not {value} for cargo"
            );
        }
    }
}

#[test]
fn the_full_run_fails_unless_the_tests_say_that_they_played_the_random_worlds() {
    let (repository, all, few, many) = (Repository::new(), lanes(40), lanes(39), lanes(300));
    let none_played = PASSED.to_owned();
    let half = all.replacen("played: 20 seeds", "20 seeds", 1);
    for (simulation, arguments, words) in [
        (&all, &[][..], None),
        (&many, &["--seeds", "300"][..], None),
        (&few, &[][..], Some("39 of 40 were played")),
        (&half, &[][..], Some("20 of 40 were played")),
        (&none_played, &[][..], Some("0 of 40 were played")),
        (&all, &["--seeds", "300"][..], Some("40 of 300 were played")),
        (&few, &["--seeds", "39"][..], Some("--seeds 39 is too few")),
        (&many, &["--seeds", "100", "--new-seeds", "200"][..], None),
        (&many, &["--seeds", "100", "--new-seeds", "201"][..], Some("300 of 301 were played")),
        (&all, &["--fuzz-seconds", "1"][..], Some("--fuzz-seconds 1 is too few")),
        (&all, &["--seeds", "many"][..], Some("does not take `--seeds many`")),
        (&all, &["--seeds"][..], Some("does not take `--seeds`")),
        (&all, &["simulation"][..], Some("does not take `simulation`")),
    ] {
        let (succeeded, said) = repository.said(Case { simulation, arguments, ..FINE });
        assert_eq!(succeeded, words.is_none(), "{arguments:?}: {said}");
        assert!(words.is_none_or(|words| said.contains(words)), "{words:?}: {said}");
    }
}

#[test]
fn the_full_run_fails_where_tests_are_left_out() {
    let (repository, lanes) = (Repository::new(), lanes(40));
    let result = |passed, ignored, filtered| {
        format!(
            "test result: ok. {passed} passed; 0 failed; {ignored} ignored; 0 measured; \
             {filtered} filtered out"
        )
    };
    for (others, words) in [
        (format!("{}\n{PASSED}", result(0, 0, 0)), None),
        (result(7, 1, 0), Some("front: 1 tests were ignored or filtered out")),
        (
            format!("{PASSED}\n{}", result(1, 0, 30)),
            Some("control-plane: 30 tests were ignored or filtered out"),
        ),
        (result(0, 0, 0), Some("front: no test passed")),
        // What a runner that is no runner prints.
        (String::new(), Some("control-plane: no test passed")),
    ] {
        let (succeeded, said) =
            repository.said(Case { simulation: &lanes, others: &others, ..FINE });
        assert_eq!(succeeded, words.is_none(), "{others}: {said}");
        assert!(words.is_none_or(|words| said.contains(words)), "{words:?}: {said}");
    }
}

#[test]
fn the_full_run_fails_where_it_changes_a_file_and_names_it() {
    let lanes = lanes(40);
    for (before, does, words) in [
        ("", "", None),
        // Changes of somebody who is at work on a page are none of the run's.
        ("echo two > page.md; echo new > other.md", "", None),
        ("", "echo > ignored", None),
        ("", "echo two > page.md", Some("M\tpage.md")),
        ("echo two > page.md", "echo six > page.md", Some("M\tpage.md")),
        ("echo two > page.md", "git checkout --quiet page.md", Some("M\tpage.md")),
        ("", "echo new > other.md", Some("A\tother.md")),
        ("echo new > other.md", "rm other.md", Some("D\tother.md")),
        ("", "rm page.md", Some("D\tpage.md")),
        ("", "chmod +x page.md", Some("M\tpage.md")),
        // A commit does not hide a change.
        (
            "",
            "echo two > page.md; git -c user.name=a -c user.email=a@example.com commit --quiet \
             --all --message b",
            Some("M\tpage.md"),
        ),
    ] {
        let repository = Repository::new();
        let status = Command::new("sh")
            .args(["-c", before])
            .current_dir(repository.folder.join("project"))
            .status()
            .unwrap();
        assert!(status.success(), "{before}");
        let (succeeded, said) = repository.said(Case { simulation: &lanes, does, ..FINE });
        assert_eq!(succeeded, words.is_none(), "{before}, then {does}: {said}");
        assert!(
            words.is_none_or(|words| said.contains(words) && said.contains("a clean tree")),
            "{words:?}: {said}"
        );
    }
}

#[test]
fn a_change_must_pass_the_full_run() {
    let ci = read(".ci/run");
    let runs: Vec<_> =
        ci.lines().filter(|line| line.contains("tests/run") && !line.starts_with('#')).collect();
    assert_eq!(runs, ["tests/run --all --seeds 300 --new-seeds 0 --fuzz-seconds 60"]);
}

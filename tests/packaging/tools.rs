//! Helm, promtool and kustomize, and what they make of the chart.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

use crate::{process::Folder, skip::skip};

pub const ROOT: &str = env!("CARGO_MANIFEST_DIR");
/// The newest that the chart is rendered for.
const KUBERNETES: &str = "1.37.0";
/// Sets of values, in `values/`.
pub const SETS: [&str; 3] = ["minimal", "company", "trial"];

/// Where the programs are, and a folder for what they write.
pub struct Tools {
    folder: PathBuf,
    pub work: Folder,
}

/// What a chart was rendered to: every object by its kind and name.
pub type Objects = BTreeMap<String, Value>;

impl Tools {
    /// `None`, and it is said why, where nobody built them.
    pub fn found() -> Option<Self> {
        let Some(setting) = std::env::var_os("SUNDOWN_CONTROL_PLANE") else {
            skip("SUNDOWN_CONTROL_PLANE is not set; see tests/control-plane/build");
            return None;
        };
        assert!(
            setting != "required",
            "SUNDOWN_CONTROL_PLANE=required: run tests/control-plane/build and give the folder \
             that it prints"
        );
        let folder = PathBuf::from(setting);
        for program in ["helm", "helm4", "promtool", "kubectl"] {
            assert!(
                folder.join(program).exists(),
                "{program} is missing in {}: run tests/control-plane/build",
                folder.display()
            );
        }
        Some(Self { folder, work: Folder::new() })
    }

    /// Helm 3 and Helm 4.
    pub fn helms(&self) -> [PathBuf; 2] {
        ["helm", "helm4"].map(|name| self.folder.join(name))
    }

    pub fn promtool(&self, args: &[&str]) -> Result<String, String> {
        self.run(&self.folder.join("promtool"), args)
    }

    /// What kustomize, as `kubectl apply -k` has it, makes of a folder.
    pub fn kustomize(&self, folder: &Path) -> Objects {
        let output =
            self.run(&self.folder.join("kubectl"), &["kustomize", folder.to_str().unwrap()]);
        objects(&output.unwrap_or_else(|error| panic!("{}: {error}", folder.display())))
    }

    /// Runs a program to its end, in a home of its own: what it printed, or what it complained of.
    pub fn run(&self, program: &Path, args: &[&str]) -> Result<String, String> {
        let mut command = Command::new(program);
        command
            .args(args)
            .env_clear()
            .env("HOME", self.work.path())
            .env("PATH", std::env::var_os("PATH").unwrap_or_default());
        let output = command
            .output()
            .unwrap_or_else(|error| panic!("{} cannot be started: {error}", program.display()));
        let (out, err) = (
            String::from_utf8_lossy(&output.stdout).into_owned(),
            String::from_utf8_lossy(&output.stderr).into_owned(),
        );
        if output.status.success() { Ok(out) } else { Err(out + &err) }
    }

    /// `helm template` of a chart as the release `sundown` in the namespace `sundown`.
    pub fn template(&self, helm: &Path, chart: &str, args: &[&str]) -> Result<String, String> {
        let usual =
            ["template", "sundown", chart, "--namespace", "sundown", "--kube-version", KUBERNETES];
        self.run(helm, &[&usual[..], args].concat())
    }

    /// The objects of our chart with one of the sets of values and these arguments, as either Helm
    /// makes them.
    pub fn objects(&self, set: &str, args: &[&str]) -> Objects {
        let values = values(set);
        let mut made = self.helms().map(|helm| {
            let args = [&["--values", &values], args].concat();
            objects(
                &self
                    .template(&helm, &chart(), &args)
                    .unwrap_or_else(|error| panic!("{}: {set}: {error}", helm.display())),
            )
        });
        assert_eq!(made[0], made[1], "Helm 3 and Helm 4 make the same of it");
        std::mem::take(&mut made[0])
    }
}

/// Our chart.
pub fn chart() -> String {
    format!("{ROOT}/deploy/helm/sundown")
}

/// The file of a set of values.
pub fn values(set: &str) -> String {
    format!("{ROOT}/tests/packaging/values/{set}.yaml")
}

/// What `helm template` or `kubectl kustomize` printed.
pub fn objects(text: &str) -> Objects {
    let mut all = Objects::new();
    for document in format!("\n{text}")
        .split("\n---")
        .filter(|d| d.lines().any(|l| !l.is_empty() && !l.starts_with('#')))
    {
        let object: Value = serde_saphyr::from_str(document)
            .unwrap_or_else(|error| panic!("{error} in\n{document}"));
        let name = format!(
            "{}/{}",
            object["kind"].as_str().unwrap(),
            object["metadata"]["name"].as_str().unwrap()
        );
        assert!(all.insert(name.clone(), object).is_none(), "two objects are {name}");
    }
    all
}

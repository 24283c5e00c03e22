//! What is made of the chart and committed.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use crate::tools::{ROOT, Tools};

/// The files below a folder, by their path there.
fn below(folder: &Path) -> BTreeMap<PathBuf, String> {
    let (mut found, mut look_in) = (BTreeMap::new(), vec![folder.to_owned()]);
    while let Some(dir) = look_in.pop() {
        for path in fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                look_in.push(path);
            } else {
                found.insert(path.strip_prefix(folder).unwrap().to_owned(), fs::read_to_string(&path).unwrap());
            }
        }
    }
    found
}

#[test]
fn what_is_committed_is_what_the_chart_makes() {
    let Some(tools) = Tools::found() else { return };
    let [made, by_the_other] = tools.helms().map(|helm| {
        let into = tools.work.path().join(helm.file_name().unwrap());
        let helm = format!("HELM={}", helm.display());
        tools.run("env".as_ref(), &[&helm, &format!("{ROOT}/deploy/render"), into.to_str().unwrap()]).unwrap();
        below(&into)
    });
    assert_eq!(made.len(), 8, "{:?}", made.keys());
    assert!(made == by_the_other, "Helm 3 and Helm 4 make the same of it");
    for (file, text) in &made {
        let committed = fs::read_to_string(Path::new(ROOT).join("deploy").join(file)).unwrap_or_default();
        assert!(committed == *text, "deploy/{} is not what the chart makes: run deploy/render", file.display());
    }
    // Nothing that says that it was rendered was left behind by a template that is no more.
    let kept = below(&Path::new(ROOT).join("deploy/manifests"));
    for (file, _) in kept.iter().filter(|(_, text)| text.starts_with("# Rendered from the chart")) {
        assert!(made.contains_key(&Path::new("manifests").join(file)), "nothing renders deploy/manifests/{}", file.display());
    }
}

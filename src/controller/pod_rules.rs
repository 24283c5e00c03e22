//! The administrator's rules about pods: reads their file again and passes changes on.

use std::{path::PathBuf, sync::Arc, time::Duration};

use tokio::task::JoinHandle;
use tracing::{info, warn};

use super::{context::Term, shared::Shared};
use crate::{
    config::read_rules,
    domain::{PodRules, seconds},
    fleet,
};

/// How often the file is read.
const EVERY: Duration = seconds(10);
/// A read that takes longer counts as failed. The next round waits for the same read.
const LONGEST_READ: Duration = seconds(5);

/// A read that is under way.
type Reading = JoinHandle<Result<PodRules, String>>;

/// Reads the file at intervals, on every replica, for as long as the process lives. While it cannot
/// be read, or the labels that new rules read are not known of all Nodes, the last good rules stay in
/// force.
pub(super) async fn follow(shared: Arc<Shared>, path: PathBuf) {
    let (mut trouble, mut reading) = (None, None);
    let mut lacks_labels = false;
    loop {
        tokio::time::sleep(EVERY).await;
        match read(&path, &mut reading).await {
            Ok(rules) => {
                if trouble.take().is_some() {
                    info!(file = %path.display(), "The file with rules about pods is good again.");
                }
                let counting = Arc::clone(&shared.pod_rules.borrow());
                let known = shared.nodes.keep_labels_of_rules(keys_of(&counting, &rules)).await;
                if let Err(error) = &known
                    && !lacks_labels
                {
                    warn!(%error, "The Nodes cannot be listed, so the labels that new rules about \
                        pods read are not known. Until then, the last rules stay in force.");
                }
                lacks_labels = known.is_err();
                if known.is_ok() {
                    pass_on_if_changed(&shared, rules);
                }
            }
            Err(error) if trouble.as_ref() == Some(&error) => {}
            Err(error) => {
                warn!(file = %path.display(), error, "The file with rules about pods \
                    (--rules-file) is bad. The last good rules stay in force.");
                trouble = Some(error);
            }
        }
        shared.metrics.set_rules_file_bad(trouble.is_some());
    }
}

/// The keys of the labels of Nodes that the last rules and the new ones read. The last rules count
/// until the new ones are passed on, so their labels are kept until the next round.
fn keys_of<'a>(last: &'a PodRules, new: &'a PodRules) -> impl Iterator<Item = &'a str> {
    last.node_label_keys().chain(new.node_label_keys())
}

async fn read(path: &std::path::Path, reading: &mut Option<Reading>) -> Result<PodRules, String> {
    let path = path.to_owned();
    let started =
        reading.get_or_insert_with(|| tokio::task::spawn_blocking(move || read_rules(&path)));
    let Ok(read) = tokio::time::timeout(LONGEST_READ, started).await else {
        return Err(format!("it could not be read within {} s", LONGEST_READ.as_secs()));
    };
    *reading = None;
    read.unwrap_or_else(|_| Err("the read ended without a result".to_owned()))
}

fn pass_on_if_changed(shared: &Shared, rules: PodRules) {
    let count = rules.count();
    let is_changed = shared.pod_rules.send_if_modified(|known| {
        let is_changed = **known != rules;
        if is_changed {
            *known = Arc::new(rules);
        }
        is_changed
    });
    if is_changed {
        info!(rules = count, "The rules about pods have changed. They apply to all drains.");
    }
}

/// Passes the rules to the fleet of a term, now and after each change.
pub(super) fn begin(term: &Term) {
    let mut rules = term.shared.pod_rules.subscribe();
    let first = Arc::clone(&rules.borrow_and_update());
    term.send(fleet::Input::PodRules(first));
    let sender = term.clone();
    term.spawn(async move {
        while rules.changed().await.is_ok() {
            let changed = Arc::clone(&rules.borrow_and_update());
            sender.send(fleet::Input::PodRules(changed));
        }
    });
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::config::parse_rules;

    #[test]
    fn the_labels_of_the_last_rules_are_kept_until_the_new_ones_count() {
        let rules = |key: &str| {
            let rule = format!("{{match: {{nodeLabels: {key}=a}}, behavior: Skip}}");
            parse_rules(&format!("rules:\n- {rule}\n")).unwrap()
        };
        for (last, new, expected) in [
            ("pool", "pool", vec!["pool"]),
            ("pool", "team", vec!["pool", "team"]),
            ("team", "team", vec!["team"]),
        ] {
            let (last, new) = (rules(last), rules(new));
            let keys: BTreeSet<&str> = keys_of(&last, &new).collect();
            assert_eq!(keys.into_iter().collect::<Vec<_>>(), expected);
        }
    }
}

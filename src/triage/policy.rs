//! What people have decided beforehand.

use std::time::Duration;

use wildmatch::WildMatch;

use super::{Reason, Verdict};
use crate::domain::{HookName, Selector, seconds};

/// The hooks that Amazon EKS puts on the groups of managed node groups, and answers itself.
const EKS_HOOKS: [&str; 2] = ["Terminate-LC-Hook", "Launch-LC-Hook"];

/// What people have decided beforehand.
#[derive(Debug, Clone)]
pub struct Policy {
    /// Which lifecycle hooks are ours (`--lifecycle-hook`).
    pub hooks: HookGlobs,
    /// Which Nodes are ours (`--node-selector`).
    pub nodes: Selector,
    /// The key of the tag that an instance must have to be ours (`--managed-tag`).
    pub managed_tag: Option<String>,
    /// The cluster's name in the tags of instances and groups (`--cluster-name`).
    pub cluster_name: Option<String>,
    /// How long after its launch an instance may take to become a Node (`--join-timeout`).
    pub join_timeout: Duration,
    /// Others read this queue too: nothing that may concern them is deleted (`--shared-queue`).
    pub shared_queue: bool,
    /// From which age on an interruption must be proved.
    pub staleness: Staleness,
}

/// From which age on an interruption must be proved, and how long an answer is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Staleness {
    /// Spot and capacity warnings.
    pub warning: Duration,
    /// Changes of state.
    pub state_change: Duration,
    /// Hooks whose HeartbeatTimeout is not known; where it is, that counts.
    pub hook: Duration,
    /// After this long without an answer, nobody can be asked.
    pub cannot_ask: Duration,
}

impl Default for Staleness {
    fn default() -> Self {
        Self {
            warning: seconds(120),
            state_change: seconds(60),
            hook: seconds(30),
            cannot_ask: seconds(10),
        }
    }
}

/// The globs of `--lifecycle-hook`. With none given, the other hooks of a group decide
/// ([`HookGlobs::claim`]). No wildcard ever matches the hooks of Amazon EKS: they are ours only
/// where they are named in full.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HookGlobs(Vec<(String, WildMatch)>);

/// The text cannot be the glob of a hook's name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` matches no lifecycle hook (expected 1 to 255 letters, digits, `-`, `_`, `/`, `*` or `?`)"
)]
pub struct BadGlob(pub String);

impl HookGlobs {
    /// From the globs that people gave (`*`: anything, `?`: any one character).
    pub fn new<S: AsRef<str>>(globs: &[S]) -> Result<Self, BadGlob> {
        globs.iter().map(|g| glob(g.as_ref())).collect::<Result<_, _>>().map(Self)
    }

    /// Nobody has said which hooks are ours.
    #[must_use]
    pub const fn is_default(&self) -> bool {
        self.0.is_empty()
    }

    /// Amazon EKS puts a hook of this name on its groups, and answers it.
    #[must_use]
    pub fn is_of_eks(hook: &HookName) -> bool {
        EKS_HOOKS.contains(&hook.as_str())
    }

    /// By its name alone, this hook may be ours.
    #[must_use]
    pub fn cover(&self, hook: &HookName) -> bool {
        if self.0.is_empty() { !EKS_HOOKS.contains(&hook.as_str()) } else { self.names(hook) }
    }

    /// Somebody named this hook.
    #[must_use]
    pub fn names(&self, hook: &HookName) -> bool {
        let eks = EKS_HOOKS.contains(&hook.as_str());
        self.0.iter().any(
            |(text, glob)| if eks { text == hook.as_str() } else { glob.matches(hook.as_str()) },
        )
    }
}

fn glob(text: &str) -> Result<(String, WildMatch), BadGlob> {
    let fine = (1..=255).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_/*?".contains(&b));
    if fine {
        Ok((text.to_owned(), WildMatch::new(text)))
    } else {
        Err(BadGlob(text.chars().take(64).collect()))
    }
}

impl Policy {
    /// The default policy; `nodes` is the node selector.
    #[must_use]
    pub fn new(nodes: Selector) -> Self {
        Self {
            hooks: HookGlobs::default(),
            nodes,
            managed_tag: None,
            cluster_name: None,
            join_timeout: seconds(300),
            shared_queue: false,
            staleness: Staleness::default(),
        }
    }

    /// The verdict on a message that is not acted on, for this reason.
    #[must_use]
    pub const fn dispose(&self, reason: Reason) -> Verdict {
        if self.shared_queue && reason.may_concern_others() {
            Verdict::Leave(reason)
        } else {
            Verdict::Delete(reason)
        }
    }
}

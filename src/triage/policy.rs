//! What the operator has configured.

use std::time::Duration;

use wildmatch::WildMatch;

use super::{LaunchPolicy, Reason, Verdict};
use crate::domain::{
    BLOCK_NOTICE, HookName, HookResult, Kind, Response, Responses, Selector, seconds,
};

/// The hooks that Amazon EKS puts on the groups of managed node groups, and answers itself.
const EKS_HOOKS: [&str; 2] = ["Terminate-LC-Hook", "Launch-LC-Hook"];

/// What the operator has configured.
#[derive(Debug, Clone)]
pub struct Policy {
    /// The lifecycle hooks that Sundown answers (`--lifecycle-hook`).
    pub hooks: HookGlobs,
    /// The Nodes that Sundown manages (`--node-selector`).
    pub nodes: Selector,
    /// The key of the tag that an instance must have (`--managed-tag`); `None`: no tag is needed.
    pub managed_tag: Option<String>,
    /// The cluster's name in the tags of instances and groups (`--cluster-name`), if it was given.
    pub cluster_name: Option<String>,
    /// How long after its launch an instance may take to become a Node (`--join-timeout`).
    pub join_timeout: Duration,
    /// Others also read this queue, so Sundown leaves messages that may concern them
    /// (`--shared-queue`).
    pub shared_queue: bool,
    /// What Sundown does about each kind of interruption (`--on`).
    pub responses: Responses,
    /// How long a recommendation counts (`--rebalance-ttl`).
    pub rebalance_ttl: Duration,
    /// The region of the instances; `None`: not known, so it is not compared.
    pub region: Option<String>,
    /// What a launch hook waits for (`--launch-…`).
    pub launch: LaunchPolicy,
    /// When an interruption is stale.
    pub staleness: Staleness,
}

/// The ages above which an interruption is stale, so that AWS must prove it first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Staleness {
    /// For spot notices and capacity reservation warnings.
    pub warning: Duration,
    /// For Capacity Block warnings: until the block has ended. Before, an instance that runs proves
    /// nothing.
    pub block: Duration,
    /// For state changes of instances.
    pub state_change: Duration,
    /// For hooks whose HeartbeatTimeout is not known. If it is known, the age is this timeout.
    pub hook: Duration,
    /// How long AWS is asked for a proof before the interruption is accepted without one.
    pub cannot_ask: Duration,
}

impl Default for Staleness {
    fn default() -> Self {
        Self {
            warning: seconds(120),
            block: BLOCK_NOTICE,
            state_change: seconds(60),
            hook: seconds(30),
            cannot_ask: seconds(10),
        }
    }
}

/// The globs of `--lifecycle-hook`. Without globs, the hooks of a group decide which of them
/// Sundown answers ([`HookGlobs::claim`]). No wildcard matches the hooks of Amazon EKS: Sundown
/// answers them only if they are given by their full names.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HookGlobs(Vec<(String, WildMatch)>);

/// The text cannot be the glob of a hook's name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` matches no lifecycle hook (expected 1 to 255 letters, digits, `-`, `_`, `/`, `*` or `?`)"
)]
pub struct BadGlob(pub String);

impl HookGlobs {
    /// Parses globs (`*`: any characters, `?`: any one character). Errs for a text that matches no
    /// possible name of a hook.
    pub fn new<S: AsRef<str>>(globs: &[S]) -> Result<Self, BadGlob> {
        globs.iter().map(|g| glob(g.as_ref())).collect::<Result<_, _>>().map(Self)
    }

    /// No globs were given.
    #[must_use]
    pub const fn is_default(&self) -> bool {
        self.0.is_empty()
    }

    /// Amazon EKS puts hooks of this name on the groups of managed node groups, and answers them.
    #[must_use]
    pub fn is_of_eks(hook: &HookName) -> bool {
        EKS_HOOKS.contains(&hook.as_str())
    }

    /// The name of this hook allows that Sundown answers it.
    #[must_use]
    pub fn cover(&self, hook: &HookName) -> bool {
        if self.0.is_empty() { !EKS_HOOKS.contains(&hook.as_str()) } else { self.names(hook) }
    }

    /// A glob matches this hook.
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
    /// The default configuration, with this node selector.
    #[must_use]
    pub fn new(nodes: Selector) -> Self {
        Self {
            hooks: HookGlobs::default(),
            nodes,
            managed_tag: None,
            cluster_name: None,
            join_timeout: seconds(300),
            shared_queue: false,
            responses: Responses::default(),
            rebalance_ttl: seconds(3600),
            region: None,
            launch: LaunchPolicy {
                timeout: seconds(300),
                on_timeout: HookResult::Continue,
                daemon_sets: Vec::new(),
                startup_taints: Vec::new(),
            },
            staleness: Staleness::default(),
        }
    }

    /// A scheduled change in this region concerns no instance of ours: copies of AWS Health events
    /// also come to other regions. `None`: the event does not name its region.
    #[must_use]
    pub fn is_elsewhere(&self, region: Option<&str>) -> bool {
        self.region.as_deref().zip(region).is_some_and(|(ours, theirs)| ours != theirs)
    }

    /// Whether `--on` ignores this kind: the reason, if so.
    #[must_use]
    pub fn ignores(&self, kind: Kind) -> Option<Reason> {
        (self.responses.of(kind) == Response::Ignore).then_some(Reason::Ignored)
    }

    /// The verdict on a message on which Sundown does not act, for this reason.
    #[must_use]
    pub const fn dispose(&self, reason: Reason) -> Verdict {
        if self.shared_queue && reason.may_concern_others() {
            Verdict::GiveBack(reason)
        } else {
            Verdict::Delete(reason)
        }
    }
}

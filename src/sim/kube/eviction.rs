//! Evictions, in the order of the real server (kubernetes:
//! pkg/registry/core/pod/storage/eviction.go).

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};

use super::{
    build::PodState,
    delete::Options as DeleteOptions,
    failure::{Failure, details},
    faults::{EvictionReview, EvictionVerdict},
    journal::Fact,
    json::{Look, seconds},
    object::{Key, Object},
    pods,
    request::{Call, Reply},
    store::State,
    verbs::namespace_terminating,
};

/// More unconfirmed disruptions than this are refused.
const MAX_DISRUPTED: usize = 2000;
/// Maximum number of tries of an eviction that meets conflicts.
pub(super) const TRIES: usize = 20;

/// Conflicts that the deletion of a pod will meet.
#[derive(Debug, Clone)]
pub(super) struct Conflicts {
    pub(super) left: usize,
    /// What the pod becomes at the first one.
    pub(super) becomes: Option<PodState>,
}

/// How one try ended.
#[derive(Debug)]
pub(super) enum Try {
    Done(Reply),
    /// The budget was read and its new status is on the way.
    Granting(Read),
    /// Another eviction or the controller wrote the budget first: to be decided again a little
    /// later, if tries are left.
    Contended(Failure),
    /// A conflict: to be decided again a little later, if tries are left.
    Again(Failure),
}

/// A budget as it was read: its resourceVersion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Read(String);

/// An eviction, read.
#[derive(Debug)]
pub(super) struct Eviction {
    options: DeleteOptions,
    dry_run: bool,
}

impl Eviction {
    /// Steps 2 to 4: the checks that do not need the state of the cluster.
    pub(super) fn read(call: &Call) -> Result<Self, Failure> {
        let body = call.json()?;
        let version = body.text("apiVersion");
        if !matches!(version, "" | "policy/v1" | "policy/v1beta1")
            || !matches!(body.text("kind"), "" | "Eviction")
        {
            return Err(Failure::bad_request(format!(
                "no kind \"{}\" is registered for version \"{version}\"",
                body.text("kind")
            )));
        }
        if body.text("metadata.name") != call.key.name {
            return Err(Failure::bad_request("name in URL does not match name in Eviction object"));
        }
        let namespace = body.text("metadata.namespace");
        if !namespace.is_empty() && namespace != call.key.namespace {
            return Err(Failure::bad_request(
                "the namespace of the provided object does not match the namespace sent on the \
                 request",
            ));
        }
        if body.at("deleteOptions.ignoreStoreReadErrorWithClusterBreakingPotential").as_bool()
            == Some(true)
        {
            let message = "Eviction.policy \"\" is invalid: \
                ignoreStoreReadErrorWithClusterBreakingPotential: Invalid value: true: is not \
                allowed for eviction";
            return Err(Failure::new(422, "Invalid", message)
                .with_details(details(&call.kind, &call.key.name)));
        }
        let (query, inside) = (call.query.all("dryRun"), body.items("deleteOptions.dryRun"));
        if !query.is_empty()
            && !inside.is_empty()
            && !query.iter().map(String::as_str).eq(inside.iter().filter_map(Value::as_str))
        {
            let list = |all: Vec<&str>| all.join(" ");
            let message = format!(
                "Non-matching dry-run options in request and content: [{}] and [{}]",
                list(query.iter().map(String::as_str).collect()),
                list(inside.iter().filter_map(Value::as_str).collect())
            );
            return Err(Failure::internal(&message));
        }
        Ok(Self {
            dry_run: !query.is_empty() || !inside.is_empty(),
            options: DeleteOptions::of(body.at("deleteOptions")),
        })
    }
}

/// How the budgets of a pod allow its eviction.
enum Answer {
    /// Go on; the deletion must find the pod as it was seen.
    Ignored,
    /// Go on.
    Granted,
}

/// In the words of apiserver `pkg/admission/plugin/webhook/errors/statuserror.go`.
fn denied(message: &str) -> String {
    format!("admission webhook \"evictions.example.com\" denied the request: {message}")
}

impl State {
    /// Step 5, which happens once: admission.
    pub(super) fn admit_eviction(
        &mut self,
        call: &Call,
        eviction: &Eviction,
    ) -> Result<Option<Reply>, Failure> {
        if self.is_terminating_namespace(&call.key.namespace) {
            return Err(namespace_terminating(call, &call.key.name));
        }
        let Some(hook) = &self.hook else { return Ok(None) };
        let before = self.asked.entry(call.key.clone()).or_default();
        let review = EvictionReview {
            namespace: call.key.namespace.clone(),
            name: call.key.name.clone(),
            before: *before,
        };
        *before += 1;
        match hook(&review) {
            EvictionVerdict::Allow => Ok(None),
            EvictionVerdict::Intercept => {
                if let Some(pod) = self.get("pods", &call.key).cloned() {
                    let wrap = |pod, grace, _, _| Fact::EvictionIntercepted { pod, grace };
                    self.note_deletion(&pod, eviction.options.grace, &call.by, wrap);
                }
                Ok(Some(created()))
            }
            // A webhook's answer is passed on unchanged: if it has a code but no reason, the Status
            // has neither reason nor details.
            EvictionVerdict::Deny(m) => Err(Failure::new(403, "", denied(&m))),
            EvictionVerdict::Busy(m) => Err(Failure::new(429, "", denied(&m))),
            EvictionVerdict::Unreachable(m) => Err(Failure::internal(&format!(
                "failed calling webhook \"evictions.example.com\": {m}"
            ))),
        }
    }

    /// Steps 6 to 12; with the budget that was read in the try before, where its status is being
    /// written now.
    pub(super) fn evict(
        &mut self,
        call: &Call,
        eviction: &Eviction,
        read: Option<Read>,
    ) -> Result<Try, Failure> {
        let pod = self
            .get("pods", &call.key)
            .cloned()
            .ok_or_else(|| Failure::not_found(&call.kind, &call.key.name))?;
        let Some(facts) = &pod.pod else { return Err(Failure::no_such_resource()) };
        if facts.is_finished() || facts.phase == "Pending" || facts.deletion.is_some() {
            return match self.mark_and_delete(call, eviction, &pod) {
                Err(f) if f.reason == "Conflict" && eviction.options.revision.is_none() => {
                    Ok(Try::Again(f))
                }
                other => other.map(Try::Done),
            };
        }
        let budgets = self.budgets_of(&pod);
        let budget = match budgets.as_slice() {
            [] => return self.mark_and_delete(call, eviction, &pod).map(Try::Done),
            [one] => &one.value,
            _ => {
                let message = "This pod has more than one PodDisruptionBudget, which the eviction \
                    subresource does not support.";
                return Err(Failure::new(500, "", message));
            }
        };
        let answer = if !facts.ready && may_ignore(budget) {
            Answer::Ignored
        } else {
            let now = Read(budget.text("metadata.resourceVersion").to_owned());
            match read {
                Some(read) if read != now => {
                    return Ok(Try::Contended(contended(budget.text("metadata.name"))));
                }
                None if self.options.timing.budget_write > Duration::ZERO && !eviction.dry_run => {
                    grants(budget)?;
                    return Ok(Try::Granting(now));
                }
                _ => self.decrement(call, eviction, budget)?,
            }
        };
        match (self.mark_and_delete(call, eviction, &pod), answer) {
            (Err(f), Answer::Ignored)
                if f.reason == "Conflict" && eviction.options.revision.is_none() =>
            {
                Err(still_processed(budget.text("metadata.name")))
            }
            (other, _) => other.map(Try::Done),
        }
    }

    /// Step 10: the budget grants one disruption.
    fn decrement(
        &mut self,
        call: &Call,
        eviction: &Eviction,
        budget: &Value,
    ) -> Result<Answer, Failure> {
        let name = budget.text("metadata.name");
        let allowed = grants(budget)?;
        if eviction.dry_run {
            return Ok(Answer::Granted);
        }
        let now = self.now();
        let key = Key::new(call.key.namespace.as_str(), name);
        self.change("poddisruptionbudgets", &key, "<eviction>", |b| {
            b.put("status.disruptionsAllowed", allowed - 1);
            if allowed == 1 {
                b.set_condition("DisruptionAllowed", "False", "InsufficientPods", "", now);
            }
            let mut pods = b.at("status.disruptedPods").as_object().cloned().unwrap_or_default();
            pods.insert(call.key.name.clone(), seconds(now).into());
            b.put("status.disruptedPods", pods);
        });
        Ok(Answer::Granted)
    }

    /// Step 11: the condition `DisruptionTarget`, then the deletion.
    fn mark_and_delete(
        &mut self,
        call: &Call,
        eviction: &Eviction,
        pod: &Arc<Object>,
    ) -> Result<Reply, Failure> {
        let differs =
            |wanted: &Option<String>, have: &str| wanted.as_ref().is_some_and(|w| w != have);
        let other = |why: &str| Err(Failure::precondition(&call.kind, &call.key.name, why));
        if differs(&eviction.options.uid, pod.uid()) {
            return other(&format!(
                "the UID in the precondition ({}) does not match the UID in record ({}). The \
                 object might have been deleted and then recreated",
                eviction.options.uid.as_deref().unwrap_or_default(),
                pod.uid()
            ));
        }
        let revision = pod.value.text("metadata.resourceVersion");
        if differs(&eviction.options.revision, revision) {
            return other(&format!(
                "the ResourceVersion in the precondition ({}) does not match the ResourceVersion \
                 in record ({revision}). The object might have been modified",
                eviction.options.revision.as_deref().unwrap_or_default(),
            ));
        }
        if eviction.dry_run {
            return Ok(created());
        }
        if self.meets_conflict(&call.key) {
            return Err(Failure::conflict(&call.kind, &call.key.name, "message: Conflict"));
        }
        let now = self.now();
        self.change("pods", &call.key, &call.by, |p| {
            p.set_condition(
                "DisruptionTarget",
                "True",
                "EvictionByEvictionAPI",
                "Eviction API: evicting",
                now,
            );
        });
        self.delete_evicted(&call.key, &eviction.options, &call.by);
        self.expect_deletion(&call.key);
        Ok(created())
    }

    fn meets_conflict(&mut self, key: &Key) -> bool {
        let Some(conflicts) = self.conflicts.get_mut(key).filter(|c| c.left > 0) else {
            return false;
        };
        conflicts.left -= 1;
        let becomes = conflicts.becomes.take();
        let now = self.now();
        if let Some(state) = becomes {
            self.change("pods", key, "<kubelet>", |p| match state {
                PodState::Ready => pods::set_running(p, true, now),
                PodState::NotReady => pods::set_running(p, false, now),
                PodState::Succeeded => pods::set_finished(p, true, now),
                PodState::Failed => pods::set_finished(p, false, now),
                PodState::New | PodState::StuckPending => p.put("status.phase", "Pending"),
            });
        }
        true
    }
}

/// Step 9: a pod that is not ready may go without asking the budget.
fn may_ignore(budget: &Value) -> bool {
    let (healthy, desired) =
        (budget.int("status.currentHealthy"), budget.int("status.desiredHealthy"));
    budget.text("spec.unhealthyPodEvictionPolicy") == "AlwaysAllow"
        || (healthy >= desired && desired > 0)
}

/// How many disruptions a budget grants now, or why it grants none.
fn grants(budget: &Value) -> Result<i64, Failure> {
    let name = budget.text("metadata.name");
    let allowed = budget.int("status.disruptionsAllowed");
    let disrupted = budget.at("status.disruptedPods").as_object().map_or(0, serde_json::Map::len);
    // Kubernetes 1.37 adds the cause.
    let refuse = |message: &str, cause: &str| {
        Err(Failure::new(
            403,
            "Forbidden",
            format!("poddisruptionbudget.policy \"{name}\" is forbidden: {message}"),
        )
        .with_details(json!({
            "name": name, "group": "policy", "kind": "poddisruptionbudget",
            "causes": [{
                "reason": "DisruptionBudget",
                "message": format!(
                    "The disruption budget {name} does not allow evicting pods currently: {cause}"
                ),
            }],
        })))
    };
    if budget.int("status.observedGeneration") < budget.int("metadata.generation") {
        return Err(still_processed(name));
    }
    if allowed < 0 {
        let why = "pdb disruptions allowed is negative";
        return refuse(why, why);
    }
    if disrupted > MAX_DISRUPTED {
        return refuse(
            "DisruptedPods map too big - too many evictions not confirmed by PDB controller",
            "too many pending evictions not confirmed by PDB controller",
        );
    }
    if allowed == 0 { Err(exhausted(budget)) } else { Ok(allowed) }
}

/// The failure of an eviction if another writer came first in every try.
fn contended(budget: &str) -> Failure {
    let message = format!(
        "Operation cannot be fulfilled on poddisruptionbudgets.policy \"{budget}\": the object \
         has been modified; please apply your changes to the latest version and try again"
    );
    Failure::new(409, "Conflict", message)
        .with_details(json!({ "name": budget, "group": "policy", "kind": "poddisruptionbudgets" }))
}

fn created() -> Reply {
    Reply::Json(
        201,
        json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201
        }),
    )
}

fn too_many(cause: &str) -> Failure {
    let message = "Cannot evict pod as it would violate the pod's disruption budget.";
    Failure::new(429, "TooManyRequests", message)
        .with_details(json!({ "causes": [{ "reason": "DisruptionBudget", "message": cause }] }))
}

fn still_processed(budget: &str) -> Failure {
    too_many(&format!("The disruption budget {budget} is still being processed by the server."))
        .retry_after(10)
}

fn exhausted(budget: &Value) -> Failure {
    let name = budget.text("metadata.name");
    let (healthy, desired) =
        (budget.int("status.currentHealthy"), budget.int("status.desiredHealthy"));
    let condition = budget
        .items("status.conditions")
        .iter()
        .find(|c| c.text("type") == "DisruptionAllowed" && c.text("status") == "False");
    let message = condition.map_or("", |c| c.text("message"));
    let reason = condition.map_or("", |c| c.text("reason"));
    too_many(&if !message.is_empty() && reason == "SyncFailed" {
        format!(
            "The disruption budget {name} does not allow evicting pods currently because it \
             failed sync: {message}"
        )
    } else if healthy <= desired {
        format!(
            "The disruption budget {name} needs {desired} healthy pods and has {healthy} currently"
        )
    } else if !message.is_empty() {
        format!(
            "The disruption budget {name} does not allow evicting pods currently ({reason}): \
             {message}"
        )
    } else {
        format!("The disruption budget {name} does not allow evicting pods currently")
    })
}

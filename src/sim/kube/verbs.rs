//! What the verbs do to objects.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{
    delete::Options as DeleteOptions,
    events,
    failure::{Failure, details},
    json::{Look, seconds},
    kinds::REVIEWS,
    nodes::NODE_LEASES,
    object::{Key, Object},
    patch::{self, PatchKind, Unpatchable},
    request::{Call, Reply},
    rules::Asked,
    store::State,
    validate,
    watch::Scope,
};

impl State {
    /// Does what a request asks for. Evictions have their own way.
    pub(super) fn perform(&mut self, call: &Call) -> Result<Reply, Failure> {
        validate::dry_run(call)?;
        match (call.verb, call.subresource.as_str()) {
            ("create", "") if call.kind.plural == REVIEWS => self.review(call),
            _ if call.kind.plural == REVIEWS => Err(Failure::no_such_method()),
            ("watch", "") => self.watch(call).map(Reply::Watch),
            ("list", "") => self.list(call),
            ("create", "") if call.key.name.is_empty() => self.create(call),
            ("deletecollection", "") => self.delete_collection(call),
            ("delete", "") => self.delete_one(call),
            ("get", "") if call.kind.plural == "leases" && call.key.namespace == NODE_LEASES => {
                self.renew_node_lease(&call.key.name);
                self.find(call).map(|o| o.reply(200))
            }
            ("get", "") => self.find(call).map(|o| o.reply(200)),
            ("get", "status") if call.kind.status => self.find(call).map(|o| o.reply(200)),
            ("update" | "patch", "") => self.modify(call, Part::Whole),
            ("update" | "patch", "status") if call.kind.status => self.modify(call, Part::Status),
            ("update", "finalize") if call.kind.plural == "namespaces" => {
                self.modify(call, Part::Whole)
            }
            ("get" | "update" | "patch", "scale") if call.kind.scale => self.scale(call),
            ("create", "binding") if call.kind.plural == "pods" => self.bind_by_hand(call),
            // A POST to an object by its name is a method that it does not take, as a GET of an
            // eviction is.
            (_, subresource) if call.kind.has(subresource) => Err(Failure::no_such_method()),
            _ => Err(Failure::no_such_resource()),
        }
    }

    /// May the caller do what it asks about? Everybody may do everything but what a rule forbids.
    fn review(&self, call: &Call) -> Result<Reply, Failure> {
        let mut value = call.json()?;
        let field = |name: &str| value.text(&format!("spec.resourceAttributes.{name}")).to_owned();
        let asked = Asked {
            client: call.by.to_string(),
            verb: field("verb"),
            resource: field("resource"),
            group: field("group"),
            subresource: field("subresource"),
            namespace: field("namespace"),
            name: field("name"),
        };
        let allowed = !self.rules.forbid(&asked);
        value.put("status.allowed", allowed);
        Ok(Reply::Json(201, value))
    }

    pub(super) fn find(&self, call: &Call) -> Result<Arc<Object>, Failure> {
        self.get(&call.kind.plural, &call.key)
            .cloned()
            .ok_or_else(|| Failure::not_found(&call.kind, &call.key.name))
    }

    /// Admission of what is new: its namespace must be there, and must not be going.
    pub(super) fn admit(&self, call: &Call, name: &str) -> Result<(), Failure> {
        let namespace = &call.key.namespace;
        if !call.kind.namespaced {
            return Ok(());
        }
        let Some(object) = self.get("namespaces", &Key::cluster(namespace.as_str())) else {
            return Err(Failure::new(
                404,
                "NotFound",
                format!("namespaces \"{namespace}\" not found"),
            )
            .with_details(json!({ "name": namespace, "kind": "namespaces" })));
        };
        if object.is_terminating() { Err(namespace_terminating(call, name)) } else { Ok(()) }
    }

    fn create(&mut self, call: &Call) -> Result<Reply, Failure> {
        let mut value = call.json()?;
        if events::is_newer(&call.kind) {
            value = events::to_older(value);
        }
        check_identity(call, &value)?;
        if value.text("metadata.name").is_empty() {
            if value.text("metadata.generateName").is_empty() {
                return Err(Failure::invalid(
                    &call.kind,
                    "",
                    "metadata.name",
                    "Required value: name or generateName is required",
                ));
            }
            let name = format!("{}{}", value.text("metadata.generateName"), self.suffix());
            value.put("metadata.name", name);
        }
        let name = value.text("metadata.name").to_owned();
        if call.kind.namespaced {
            value.put("metadata.namespace", call.key.namespace.as_str());
        }
        if !value.text("metadata.resourceVersion").is_empty() {
            return Err(Failure::new(
                500,
                "",
                "resourceVersion should not be set on objects to be created",
            ));
        }
        self.admit(call, &name)?;
        validate::object(&call.kind, &value)?;
        if self.get(&call.kind.plural, &Key::of(&value)).is_some() {
            return Err(Failure::exists(&call.kind, &name));
        }
        for field in [
            "uid",
            "creationTimestamp",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
            "generation",
            "managedFields",
        ] {
            value.take_away(&format!("metadata.{field}"));
        }
        if call.kind.status && !matches!(call.kind.plural.as_str(), "nodes") {
            value.take_away("status");
        }
        if call.is_dry_run() {
            tidy(&call.kind, &mut value);
            value.put("metadata.uid", self.uid());
            value.put("metadata.creationTimestamp", seconds(self.now()));
            return Ok(Reply::Object(201, value));
        }
        let object =
            self.add(&call.kind.plural, value, &call.by).ok_or_else(Failure::no_such_resource)?;
        Ok(object.reply(201))
    }

    fn modify(&mut self, call: &Call, part: Part) -> Result<Reply, Failure> {
        let patch_kind = PatchKind::of(&call.content_type);
        let old = match self.find(call) {
            _ if patch_kind == Some(PatchKind::Apply)
                && call.query.get("fieldManager").is_empty() =>
            {
                return Err(no_manager());
            }
            Err(_) if call.verb == "patch" && patch_kind == Some(PatchKind::Apply) => {
                let mut create = call.clone();
                "application/json".clone_into(&mut create.content_type);
                return self.create(&create);
            }
            found => found?,
        };
        let mut new = if call.verb == "update" {
            self.updated(call)?
        } else {
            patched(call, &old, patch_kind)?
        };
        check_identity(call, &new)?;
        check_name(call, &new)?;
        check_preconditions(call, &old, new.at("metadata"))?;
        if call.verb == "update"
            && call.kind.plural == "leases"
            && new.text("metadata.resourceVersion").is_empty()
        {
            return Err(unconditional(call));
        }
        keep_what_is_the_servers(&old.value, &mut new, part, call.kind.status);
        tidy(&call.kind, &mut new);
        validate::object(&call.kind, &new)?;
        if call.is_dry_run() {
            return Ok(Reply::Object(200, new));
        }
        let object = self.replace(&Arc::clone(&self.stored_kind(call)), &old, new, &call.by);
        Ok(object.reply(200))
    }

    fn updated(&self, call: &Call) -> Result<Value, Failure> {
        let mut value = call.json()?;
        if events::is_newer(&call.kind) {
            value = events::to_older(value);
        }
        check_name(call, &value)?;
        let kind = self.stored_kind(call);
        value.put("apiVersion", kind.api_version());
        value.put("kind", kind.kind.as_str());
        if call.kind.namespaced {
            value.put("metadata.namespace", call.key.namespace.as_str());
        }
        Ok(value)
    }

    /// The kind that objects of this resource are stored as.
    fn stored_kind(&self, call: &Call) -> Arc<super::kinds::Kind> {
        self.shelves
            .get(&call.kind.plural)
            .map_or_else(|| Arc::clone(&call.kind), |s| Arc::clone(&s.kind))
    }

    fn delete_one(&mut self, call: &Call) -> Result<Reply, Failure> {
        let options = DeleteOptions::read(call)?;
        let old = self.find(call)?;
        options.check(call, &old)?;
        if call.is_dry_run() || options.dry_run {
            return Ok(self.deleted_dry(call, &old, &options));
        }
        let uid = old.uid().to_owned();
        match self.delete(&call.kind.plural, &call.key, &options, &call.by) {
            Some(object) if call.kind.plural == "pods" || object.is_terminating() => {
                Ok(object.reply(200))
            }
            _ => Ok(deleted(call, &uid)),
        }
    }

    /// What a deletion would answer.
    fn deleted_dry(&self, call: &Call, old: &Object, options: &DeleteOptions) -> Reply {
        match self.after_deletion(old, options) {
            Some(value) => Reply::Object(200, value),
            None if call.kind.plural == "pods" => old.reply(200),
            None => deleted(call, old.uid()),
        }
    }

    fn delete_collection(&mut self, call: &Call) -> Result<Reply, Failure> {
        let options = DeleteOptions::read(call)?;
        let all = self.matching(&call.kind.plural, &Scope::of(call)?);
        if !call.is_dry_run() {
            for shown in &all {
                self.delete(&call.kind.plural, &shown.key, &options, &call.by);
            }
        }
        let metadata = json!({ "resourceVersion": self.revision.to_string() });
        Ok(Reply::Bytes(super::render::Render::of(call, self.clock).list(&all, &metadata)))
    }

    fn scale(&mut self, call: &Call) -> Result<Reply, Failure> {
        let old = self.find(call)?;
        let scale = |v: &Value| {
            json!({ "kind": "Scale", "apiVersion": "autoscaling/v1",
                "metadata": {
                    "name": v.at("metadata.name"), "namespace": v.at("metadata.namespace"),
                    "uid": v.at("metadata.uid"),
                    "resourceVersion": v.at("metadata.resourceVersion"), "creationTimestamp": v.at("metadata.creationTimestamp") },
                "spec": {
                    "replicas": v.int("spec.replicas")
                }, "status": { "replicas": v.int("status.replicas") } })
        };
        if call.verb == "get" {
            return Ok(Reply::Json(200, scale(&old.value)));
        }
        let mut wanted = scale(&old.value);
        if call.verb == "update" {
            wanted = call.json()?;
        } else {
            let kind = PatchKind::of(&call.content_type).ok_or_else(|| unsupported(call))?;
            patch::apply(kind, &mut wanted, &call.json()?).map_err(unpatchable)?;
        }
        check_preconditions(call, &old, wanted.at("metadata"))?;
        let replicas = wanted.int("spec.replicas");
        let new = self
            .change(&call.kind.plural, &call.key, &call.by, |v| v.put("spec.replicas", replicas));
        Ok(Reply::Json(200, scale(&new.unwrap_or(old).value)))
    }

    fn bind_by_hand(&mut self, call: &Call) -> Result<Reply, Failure> {
        let old = self.find(call)?;
        if !old.value.text("spec.nodeName").is_empty() {
            let why = format!(
                "pod {} is already assigned to node {:?}",
                call.key.name,
                old.value.text("spec.nodeName")
            );
            return Err(Failure::conflict(&call.kind, &call.key.name, &why));
        }
        let node = call.json()?.text("target.name").to_owned();
        self.bind(&call.key, &node, &call.by);
        Ok(Reply::Json(
            201,
            json!({
                "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
                "code": 201
            }),
        ))
    }
}

/// It is gone.
fn deleted(call: &Call, uid: &str) -> Reply {
    let mut d = details(&call.kind, &call.key.name);
    d.put("uid", uid);
    Reply::Json(
        200,
        json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": d
        }),
    )
}

/// The refusal of a server-side apply without `fieldManager`.
fn no_manager() -> Failure {
    let why = "Required value: is required for apply patch";
    let d = json!({
        "group": "meta.k8s.io", "kind": "PatchOptions",
        "causes": [{ "reason": "FieldValueRequired", "message": why, "field": "fieldManager" }]
    });
    Failure::new(
        422,
        "Invalid",
        format!("PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: {why}"),
    )
    .with_details(d)
}

/// The name in the body is that of the URL.
fn check_name(call: &Call, value: &Value) -> Result<(), Failure> {
    let name = &call.key.name;
    match value.text("metadata.name") {
        given if given == name => Ok(()),
        "" => Err(Failure::bad_request(format!(
            "the name of the object ({name} based on URL) was undeterminable: name must be provided"
        ))),
        given => Err(Failure::bad_request(format!(
            "the name of the object ({given}) does not match the name on the URL ({name})"
        ))),
    }
}

/// Removes empty and false fields, as the real server's types do (`omitempty`).
pub(super) fn tidy(kind: &super::kinds::Kind, value: &mut Value) {
    let mut fields = vec![
        "metadata.labels",
        "metadata.annotations",
        "metadata.finalizers",
        "metadata.ownerReferences",
    ];
    if kind.plural == "nodes" {
        fields.extend(["spec.taints", "spec.unschedulable", "spec.providerID"]);
    }
    for field in fields {
        let empty = match value.at(field) {
            Value::Object(map) => map.is_empty(),
            Value::Array(items) => items.is_empty(),
            Value::String(text) => text.is_empty(),
            other => *other == Value::Bool(false),
        };
        if empty {
            value.take_away(field);
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Whole,
    Status,
}

/// 403 for the creation of an object in a terminating namespace.
pub(super) fn namespace_terminating(call: &Call, name: &str) -> Failure {
    let namespace = &call.key.namespace;
    let message = format!(
        "{} \"{name}\" is forbidden: unable to create new content in namespace {namespace} \
         because it is being terminated",
        call.kind.qualified()
    );
    let mut d = details(&call.kind, name);
    d.put(
        "causes",
        json!([{
            "reason": "NamespaceTerminating",
            "message": format!("namespace {namespace} is being terminated"),
            "field": "metadata.namespace"
        }]),
    );
    Failure::new(403, "Forbidden", message).with_details(d)
}

fn unsupported(call: &Call) -> Failure {
    let message = format!(
        "the body of the request was in an unknown format - accepted media types include: \
         application/json-patch+json, application/merge-patch+json, \
         application/strategic-merge-patch+json, application/apply-patch+yaml: {}",
        call.content_type
    );
    Failure::new(415, "UnsupportedMediaType", message).with_details(json!({}))
}

/// The refusal of an update without `metadata.resourceVersion` for kinds that require it
/// (`AllowUnconditionalUpdate`).
fn unconditional(call: &Call) -> Failure {
    let (kind, name) = (call.kind.qualified(), &call.key.name);
    let why = "Invalid value: 0: must be specified for an update";
    let mut d = details(&call.kind, name);
    d.put(
        "causes",
        json!([{
            "reason": "FieldValueInvalid", "message": why, "field": "metadata.resourceVersion"
        }]),
    );
    Failure::new(
        422,
        "Invalid",
        format!("{kind} \"{name}\" is invalid: metadata.resourceVersion: {why}"),
    )
    .with_details(d)
}

fn unpatchable(why: Unpatchable) -> Failure {
    match why {
        Unpatchable::Malformed(m) => Failure::bad_request(m),
        Unpatchable::DoesNotFit => Failure::new(
            422,
            "Invalid",
            "the server rejected our request due to an error in our request",
        )
        .with_details(json!({})),
    }
}

fn patched(call: &Call, old: &Object, kind: Option<PatchKind>) -> Result<Value, Failure> {
    let mut patch = call.json()?;
    let newer = events::is_newer(&call.kind);
    if newer && kind != Some(PatchKind::Json) {
        patch = events::to_older(patch);
    }
    let mut value = old.value.clone();
    patch::apply(kind.ok_or_else(|| unsupported(call))?, &mut value, &patch)
        .map_err(unpatchable)?;
    if newer {
        value.put("apiVersion", "v1");
    }
    Ok(value)
}

/// Kind and namespace in the body must be those of the URL.
fn check_identity(call: &Call, value: &Value) -> Result<(), Failure> {
    if !value.is_object() {
        return Err(Failure::bad_request(
            "the object provided is unrecognized (must be of type Object)",
        ));
    }
    let kind = value.text("kind");
    if !kind.is_empty() && kind != call.kind.kind {
        let message = format!(
            "{kind} in version \"{}\" cannot be handled as a {}: no kind \"{kind}\" is registered",
            call.kind.version, call.kind.kind
        );
        return Err(Failure::bad_request(message));
    }
    let namespace = value.text("metadata.namespace");
    if !namespace.is_empty() && namespace != call.key.namespace {
        return Err(Failure::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    Ok(())
}

/// A resourceVersion or UID in the body must be the newest and the object's own.
fn check_preconditions(call: &Call, old: &Object, metadata: &Value) -> Result<(), Failure> {
    let revision = metadata.text("resourceVersion");
    if !revision.is_empty() && revision != old.value.text("metadata.resourceVersion") {
        return Err(Failure::stale(&call.kind, &call.key.name));
    }
    let uid = metadata.text("uid");
    if !uid.is_empty() && uid != old.uid() {
        if call.verb == "patch" {
            let why = format!("Invalid value: {uid:?}: field is immutable");
            return Err(Failure::invalid(&call.kind, &call.key.name, "metadata.uid", &why));
        }
        let why = format!(
            "Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
            old.uid()
        );
        return Err(Failure::conflict(&call.kind, &call.key.name, &why));
    }
    Ok(())
}

/// What belongs to the server in the metadata of an object.
const OF_THE_SERVER: [&str; 10] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "metadata.creationTimestamp",
    "metadata.deletionTimestamp",
    "metadata.deletionGracePeriodSeconds",
    "metadata.generation",
    "metadata.resourceVersion",
    "apiVersion",
    "kind",
];

/// What a client cannot change: identity and life of the object, and the part that it did not ask
/// for.
fn keep_what_is_the_servers(old: &Value, new: &mut Value, part: Part, has_status: bool) {
    for path in OF_THE_SERVER {
        keep(old, new, path);
    }
    match part {
        Part::Whole if has_status => keep(old, new, "status"),
        Part::Whole => {}
        Part::Status => {
            keep(old, new, "spec");
            keep(old, new, "metadata");
        }
    }
}

fn keep(old: &Value, new: &mut Value, path: &str) {
    match old.at(path) {
        Value::Null => new.take_away(path),
        // Mostly it is the same, and a copy costs more than a look.
        value if value == new.at(path) => {}
        value => new.put(path, value.clone()),
    }
}

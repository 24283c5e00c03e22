//! The API server's audit log: who asked for what, when, and with which answer.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{Read as _, Seek as _, SeekFrom},
    path::PathBuf,
};

use serde_json::Value;
use sundown::domain::Moment;

/// An answered request.
#[derive(Debug, Clone)]
pub struct Call {
    pub user: String,
    pub verb: String,
    /// With its subresource.
    pub resource: String,
    pub name: String,
    pub code: u64,
    pub received: Moment,
    pub answered: Moment,
    /// The object in the answer, of what is logged with bodies.
    pub object: Value,
}

impl Call {
    fn of(event: &Value) -> Option<Self> {
        let text = |path: &str| event.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
        let sub = text("/objectRef/subresource");
        let resource = text("/objectRef/resource");
        Some(Self {
            user: text("/user/username"),
            verb: text("/verb"),
            resource: if sub.is_empty() { resource } else { format!("{resource}/{sub}") },
            name: text("/objectRef/name"),
            code: event.pointer("/responseStatus/code")?.as_u64()?,
            received: text("/requestReceivedTimestamp").parse().ok()?,
            answered: text("/stageTimestamp").parse().ok()?,
            object: event.get("responseObject").cloned().unwrap_or_default(),
        })
    }

    /// It is this verb on this resource, and was granted.
    pub fn did(&self, verb: &str, resource: &str) -> bool {
        self.verb == verb && self.resource == resource && self.code < 300
    }

    pub fn is_by_sundown(&self) -> bool {
        self.user == "system:serviceaccount:sundown:sundown"
    }
}

/// The log, from somewhere on.
pub struct Audit {
    path: PathBuf,
    from: u64,
}

impl Audit {
    /// What comes from now on.
    pub fn from_now(path: PathBuf) -> Self {
        let from = fs::metadata(&path).map_or(0, |m| m.len());
        Self { path, from }
    }

    /// What has come so far. The end of a watch is no call.
    pub fn calls(&self) -> Vec<Call> {
        let mut file = File::open(&self.path).unwrap();
        file.seek(SeekFrom::Start(self.from)).unwrap();
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        // The last line may be half written.
        let events = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        events.filter(|e| e["verb"] != "watch").filter_map(|e| Call::of(&e)).collect()
    }
}

/// What Sundown had asked for and been answered by then.
pub fn kinds(calls: &[Call], until: Moment) -> BTreeMap<String, usize> {
    let mut kinds = BTreeMap::new();
    for call in calls.iter().filter(|c| c.is_by_sundown() && c.answered <= until) {
        *kinds.entry(format!("{} {} {}", call.verb, call.resource, call.code)).or_default() += 1;
    }
    kinds
}

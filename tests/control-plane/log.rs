//! The API server's audit log: who asked for what, when, and with which answer.

use std::{
    fs::File,
    io::{Read as _, Seek as _, SeekFrom},
    path::PathBuf,
    sync::Mutex,
};

use serde_json::Value;
use sundown::domain::Moment;

/// Who Sundown is to the API server; replicas differ by uid.
pub const USER: &str = "system:serviceaccount:sundown:sundown";

/// One call, by anybody.
#[derive(Debug, Clone, Default)]
pub struct Call {
    pub received: Moment,
    pub answered: Moment,
    pub user: String,
    /// Which replica: `sundown-N` of [`crate::cluster::replica_token`].
    pub uid: String,
    pub verb: String,
    pub group: String,
    /// With its subresource: `pods/eviction`. Empty: no resource at all.
    pub resource: String,
    pub namespace: String,
    pub name: String,
    pub code: u64,
    /// Of a write of a Lease: the holder that it names, empty for none.
    pub holder: Option<String>,
    pub uri: String,
    /// The object in the answer, of what is logged with bodies.
    pub object: Value,
}

impl Call {
    fn of(event: &Value) -> Self {
        let text =
            |path: &str| event.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (resource, sub) = (text("/objectRef/resource"), text("/objectRef/subresource"));
        let verb = text("/verb");
        let named = event.pointer("/requestObject/spec/holderIdentity").is_some();
        let holder = (["create", "update"].contains(&verb.as_str()) || named)
            .then(|| text("/requestObject/spec/holderIdentity"));
        Self {
            received: text("/requestReceivedTimestamp").parse().unwrap(),
            answered: text("/stageTimestamp").parse().unwrap(),
            user: text("/user/username"),
            uid: text("/user/uid"),
            verb,
            group: text("/objectRef/apiGroup"),
            holder: holder.filter(|_| resource == "leases"),
            resource: if sub.is_empty() { resource } else { format!("{resource}/{sub}") },
            namespace: text("/objectRef/namespace"),
            name: text("/objectRef/name"),
            code: event["responseStatus"]["code"].as_u64().unwrap_or_default(),
            uri: text("/requestURI"),
            object: event.get("responseObject").cloned().unwrap_or_default(),
        }
    }

    pub fn is(&self, verb: &str, resource: &str) -> bool {
        (self.verb.as_str(), self.resource.as_str()) == (verb, resource)
    }

    /// It is this, and was granted.
    pub fn did(&self, verb: &str, resource: &str) -> bool {
        self.is(verb, resource) && (200..300).contains(&self.code)
    }

    pub fn is_by_sundown(&self) -> bool {
        self.user == USER
    }
}

/// The events of a line. An API server that is killed may leave half of one, or a whole one without
/// its end, and the next server writes on behind it.
fn events(line: &[u8]) -> Vec<Value> {
    const BEGINNING: &[u8] = br#"{"kind":"Event","apiVersion":"audit.k8s.io/"#;
    if let Ok(event) = serde_json::from_slice(line) {
        return vec![event];
    }
    let begins = (1..line.len())
        .filter(|at| line.get(*at..).is_some_and(|rest| rest.starts_with(BEGINNING)));
    let ends: Vec<usize> = begins.chain([line.len()]).collect();
    let parts = [0].iter().chain(&ends).zip(&ends).filter_map(|(from, to)| line.get(*from..*to));
    let parsed: Vec<_> = parts.map(serde_json::from_slice).collect();
    // The last one has been written to its end.
    if let Some(Err(error)) = parsed.last() {
        panic!("the audit log: {error}: {}", String::from_utf8_lossy(line));
    }
    parsed.into_iter().flatten().collect()
}

/// The log, from some byte on. What has been read is kept: a test may look as often as it likes.
pub struct Log {
    path: PathBuf,
    read: Mutex<(u64, Vec<Call>)>,
}

impl Log {
    pub fn from(path: PathBuf, byte: u64) -> Self {
        Self { path, read: Mutex::new((byte, Vec::new())) }
    }

    /// All calls so far, in the order in which they came in. Of a watch its beginning counts, of
    /// everything else its end.
    pub fn calls(&self) -> Vec<Call> {
        self.look(<[Call]>::to_vec)
    }

    /// The same, looked at without a copy.
    pub fn look<T>(&self, at: impl FnOnce(&[Call]) -> T) -> T {
        let (byte, calls) = &mut *self.read.lock().unwrap();
        let mut text = Vec::new();
        if let Ok(mut file) = File::open(&self.path) {
            file.seek(SeekFrom::Start(*byte)).unwrap();
            file.read_to_end(&mut text).unwrap();
        }
        // The last line may be half written.
        text.truncate(text.iter().rposition(|b| *b == b'\n').map_or(0, |end| end + 1));
        *byte += text.len() as u64;
        let counts = |e: &Value| {
            e["stage"] == if e["verb"] == "watch" { "ResponseStarted" } else { "ResponseComplete" }
        };
        let events = text.split(|b| *b == b'\n').filter(|line| !line.is_empty()).flat_map(events);
        calls.extend(events.filter(counts).map(|e| Call::of(&e)));
        calls.sort_by_key(|c| c.received);
        at(calls)
    }
}

#[test]
fn half_a_line_of_a_server_that_was_killed_does_not_cost_the_line_behind_it() {
    let folder = crate::process::Folder::new();
    let path = folder.path().join("audit.log");
    let line = |name: &str| {
        let time = "2026-01-05T09:00:00.000000Z";
        format!(
            r#"{{"kind":"Event","apiVersion":"audit.k8s.io/v1","stage":"ResponseComplete","verb":"get","objectRef":{{"resource":"pods","name":"{name}"}},"requestReceivedTimestamp":"{time}","stageTimestamp":"{time}"}}"#
        )
    };
    let (a, b, c) = (line("a"), line("b"), line("c"));
    for length in [0, 1, 16, 150, b.len() - 1, b.len()] {
        let half = b.get(..length).unwrap();
        std::fs::write(&path, format!("{a}\n{half}{c}\n{half}")).unwrap();
        let names: Vec<_> =
            Log::from(path.clone(), 0).calls().into_iter().map(|call| call.name).collect();
        let expected: &[&str] = if length == b.len() { &["a", "b", "c"] } else { &["a", "c"] };
        assert_eq!(names, expected, "{half}");
    }
}

//! Drain requests: annotations by which people and other controllers ask for the drain of a Node.
//!
//! The key is `drain.sundown.dev/NAME`. The value holds fields that `;` separates, all of them
//! optional:
//!
//! | field | meaning | without it |
//! | --- | --- | --- |
//! | `stage=cordon` or `stage=drain` | how far to go | `drain` |
//! | `deadline=RFC 3339` | when the drain ends | it ends when the node is empty |
//! | `reason=TEXT` | why, in words; without `;` | no reason |

use std::fmt::{self, Write as _};

use super::{Cause, InstanceId, Interruption, Moment, Response, keys};

/// The most requests of a Node that are kept. Further ones are counted and not obeyed.
pub const MAX_REQUESTS: usize = 16;
/// What the event ID of an accepted request begins with: no event of AWS reports it.
const EVENT: &str = "request:";
/// The longest value of such an annotation, in bytes.
const LONGEST_VALUE: usize = 1024;
/// The longest reason that is kept, in characters.
const LONGEST_REASON: usize = 200;
/// The longest name, in characters: Kubernetes allows no longer one after the `/` of a key.
const LONGEST_NAME: usize = 63;
/// The most characters of a wrong value that an error shows.
const LONGEST_SHOWN: usize = 40;

/// How far a request wants the drain to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum RequestStage {
    /// The node is cordoned. Its pods stay.
    Cordon,
    /// The node is cordoned, and its pods are evicted.
    #[default]
    Drain,
}

impl RequestStage {
    /// Every stage, from the weakest to the strongest.
    pub const ALL: [Self; 2] = [Self::Cordon, Self::Drain];

    /// Its name in the annotation and in `sundown drain --stage`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Cordon => "cordon",
            Self::Drain => "drain",
        }
    }

    /// The stage with this name; `None` for any other text.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|stage| stage.as_str() == word)
    }

    /// What Sundown does with the node.
    #[must_use]
    pub const fn response(self) -> Response {
        match self {
            Self::Cordon => Response::Cordon,
            Self::Drain => Response::Drain,
        }
    }
}

/// What one annotation asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DrainRequest {
    /// The key of the annotation after the `/`, at most 63 characters: who asks.
    pub name: Box<str>,
    /// How far to go.
    pub stage: RequestStage,
    /// When the drain ends even if pods are left. `None`: when the node is empty.
    pub deadline: Option<Moment>,
    /// Why, in one line of at most 200 characters. `None`: no reason is given.
    pub reason: Option<Box<str>>,
}

/// Why an annotation is not a request. Each text says what to write instead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestProblem {
    /// The key has no name, or one that Kubernetes would refuse.
    #[error(
        "its name is empty or longer than 63 characters: use drain.sundown.dev/NAME, such as \
         drain.sundown.dev/upgrade"
    )]
    Name,
    /// The value is too long to be read.
    #[error("its value is longer than 1024 bytes: use a shorter reason")]
    TooLong,
    /// A part of the value has no `=`, or a name that is not known.
    #[error(
        "`{0}` is not a field: use stage=cordon or stage=drain, deadline=RFC 3339 time, and \
         reason=TEXT, with `;` between them (a reason cannot contain `;`)"
    )]
    UnknownField(String),
    /// A field is there twice.
    #[error("the field {0} is given twice: give it once")]
    Twice(&'static str),
    /// No such stage.
    #[error("there is no stage `{0}`: use stage=cordon or stage=drain")]
    Stage(String),
    /// The deadline cannot be read.
    #[error("the deadline `{0}` is not an RFC 3339 time: use one such as 2026-01-31T18:00:00Z")]
    Deadline(String),
    /// The deadline was not ahead when Sundown read the request for the first time.
    #[error("its deadline {0} has passed: use a later one, or leave the deadline out")]
    Past(Moment),
}

impl DrainRequest {
    /// The name of a request with this annotation key; `None` if it is no request.
    #[must_use]
    pub fn name_of_key(key: &str) -> Option<&str> {
        key.strip_prefix(keys::DRAIN_REQUEST)
    }

    /// Reads a request. Errs with the first mistake in its name or value. A deadline in the past is
    /// no mistake here ([`Self::check_deadline`]).
    pub fn read(name: &str, value: &str) -> Result<Self, RequestProblem> {
        if name.is_empty() || name.chars().count() > LONGEST_NAME {
            return Err(RequestProblem::Name);
        }
        if value.len() > LONGEST_VALUE {
            return Err(RequestProblem::TooLong);
        }
        let (mut stage, mut deadline, mut reason) = (None, None, None);
        for field in value.split(';').map(str::trim).filter(|field| !field.is_empty()) {
            let unknown = || RequestProblem::UnknownField(beginning(field, LONGEST_SHOWN));
            let (key, text) = field.split_once('=').ok_or_else(unknown)?;
            let (key, text) = (key.trim(), text.trim());
            match key {
                "stage" => {
                    let read = RequestStage::from_word(text)
                        .ok_or_else(|| RequestProblem::Stage(beginning(text, LONGEST_SHOWN)))?;
                    set_once(&mut stage, read, "stage")?;
                }
                "deadline" => {
                    let read = text
                        .parse()
                        .map_err(|_| RequestProblem::Deadline(beginning(text, LONGEST_SHOWN)))?;
                    set_once(&mut deadline, read, "deadline")?;
                }
                "reason" => set_once(&mut reason, beginning(text, LONGEST_REASON), "reason")?,
                _ => return Err(unknown()),
            }
        }
        let reason = reason.filter(|reason| !reason.is_empty()).map(String::into_boxed_str);
        Ok(Self { name: name.into(), stage: stage.unwrap_or_default(), deadline, reason })
    }

    /// Errs if its deadline is not after `now`.
    pub fn check_deadline(&self, now: Moment) -> Result<(), RequestProblem> {
        match self.deadline {
            Some(deadline) if deadline <= now => Err(RequestProblem::Past(deadline)),
            _ => Ok(()),
        }
    }

    /// The event ID by which a record holds it: its name, and a hash of what it asks for. A request
    /// that was changed has another one.
    #[must_use]
    pub fn event_id(&self) -> String {
        // FNV-1a (draft-eastlake-fnv): the same in every version, which the standard library's
        // hashes are not.
        let hash = self.value().bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        format!("{EVENT}{}:{hash:016x}", self.name)
    }

    /// The name of the request that has this event ID; `None` if it is of no request.
    #[must_use]
    pub fn name_of_event(event_id: &str) -> Option<&str> {
        event_id.strip_prefix(EVENT)?.rsplit_once(':').map(|(name, _)| name)
    }

    /// What a Node of this instance is drained for.
    #[must_use]
    pub fn interruption(&self, instance: &InstanceId) -> Interruption {
        Interruption {
            instance: instance.clone(),
            event_id: self.event_id(),
            time: None,
            cause: Cause::Request(self.clone()),
        }
    }

    /// The key of its annotation.
    #[must_use]
    pub fn key(&self) -> String {
        Self::key_of(&self.name)
    }

    /// The key of the annotation of a request with this name.
    #[must_use]
    pub fn key_of(name: &str) -> String {
        format!("{}{name}", keys::DRAIN_REQUEST)
    }

    /// The value of its annotation. [`Self::read`] reads the same request from it, as long as the
    /// reason has no `;`.
    #[must_use]
    pub fn value(&self) -> String {
        let mut value = format!("stage={}", self.stage.as_str());
        if let Some(deadline) = self.deadline {
            write!(value, ";deadline={deadline}").ok();
        }
        if let Some(reason) = &self.reason {
            write!(value, ";reason={reason}").ok();
        }
        value
    }
}

/// The request in words, for logs, Events and `status`: its name and its reason.
impl fmt::Display for DrainRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.reason {
            Some(reason) => write!(f, "{} ({reason})", self.name),
            None => f.write_str(&self.name),
        }
    }
}

fn set_once<T>(place: &mut Option<T>, value: T, field: &'static str) -> Result<(), RequestProblem> {
    match place.replace(value) {
        Some(_) => Err(RequestProblem::Twice(field)),
        None => Ok(()),
    }
}

/// The beginning of a text from outside, in one line.
fn beginning(text: &str, longest: usize) -> String {
    text.chars().take(longest).map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(stage: RequestStage, deadline: Option<&str>, reason: Option<&str>) -> DrainRequest {
        DrainRequest {
            name: "upgrade".into(),
            stage,
            deadline: deadline.map(|text| text.parse().unwrap()),
            reason: reason.map(Into::into),
        }
    }

    #[test]
    fn a_request_is_known_by_the_prefix_of_its_key() {
        for (key, name) in [
            ("drain.sundown.dev/upgrade", Some("upgrade")),
            ("drain.sundown.dev/", Some("")),
            ("pre-drain.sundown.dev/backup", None),
            ("sundown.dev/drain", None),
        ] {
            assert_eq!(DrainRequest::name_of_key(key), name, "{key}");
        }
    }

    #[test]
    fn each_field_may_be_left_out() {
        use RequestStage::{Cordon, Drain};
        let at = "2026-01-31T18:00:00Z";
        for (value, expected) in [
            ("", request(Drain, None, None)),
            (" ; ", request(Drain, None, None)),
            ("stage=drain", request(Drain, None, None)),
            ("stage=cordon", request(Cordon, None, None)),
            ("deadline=2026-01-31T18:00:00Z", request(Drain, Some(at), None)),
            ("deadline=2026-01-31T19:00:00+01:00", request(Drain, Some(at), None)),
            ("reason=new kernel", request(Drain, None, Some("new kernel"))),
            ("reason=a=b", request(Drain, None, Some("a=b"))),
            ("reason=", request(Drain, None, None)),
            (
                "reason=two\nlines; deadline = 2026-01-31T18:00:00Z ;stage=cordon;",
                request(Cordon, Some(at), Some("two lines")),
            ),
        ] {
            assert_eq!(DrainRequest::read("upgrade", value), Ok(expected), "{value}");
        }
    }

    #[test]
    fn each_mistake_is_named_with_what_to_write_instead() {
        let long_name = "n".repeat(64);
        let long_value = format!("reason={}", "x".repeat(1024));
        for (name, value, words) in [
            ("", "", "its name is empty"),
            (long_name.as_str(), "", "longer than 63 characters"),
            ("upgrade", long_value.as_str(), "longer than 1024 bytes"),
            ("upgrade", "true", "`true` is not a field: use stage=cordon"),
            ("upgrade", "stage=drain,reason=x", "there is no stage `drain,reason=x`"),
            ("upgrade", "reason=a; b", "`b` is not a field"),
            ("upgrade", "force=true", "`force=true` is not a field"),
            ("upgrade", "stage=Drain", "there is no stage `Drain`"),
            ("upgrade", "deadline=1h", "the deadline `1h` is not an RFC 3339 time"),
            ("upgrade", "deadline=2026-01-31", "is not an RFC 3339 time"),
            ("upgrade", "stage=drain;stage=drain", "the field stage is given twice"),
        ] {
            let problem = DrainRequest::read(name, value).unwrap_err().to_string();
            assert!(problem.contains(words), "{problem} instead of {words}");
        }
    }

    #[test]
    fn a_deadline_counts_only_while_it_is_ahead() {
        let read = DrainRequest::read("upgrade", "deadline=2026-01-31T18:00:00Z").unwrap();
        for (now, is_ahead) in [("2026-01-31T17:59:59Z", true), ("2026-01-31T18:00:00Z", false)] {
            assert_eq!(read.check_deadline(now.parse().unwrap()).is_ok(), is_ahead, "{now}");
        }
        assert_eq!(request(RequestStage::Drain, None, None).check_deadline(Moment::MAX), Ok(()));
    }

    #[test]
    fn a_changed_request_has_another_event_id_and_each_shows_its_name() {
        let ids = ["", "stage=cordon", "deadline=2026-01-31T18:00:00Z", "reason=x"]
            .map(|value| DrainRequest::read("a.b_c-d", value).unwrap().event_id());
        let different: std::collections::BTreeSet<&String> = ids.iter().collect();
        assert_eq!(different.len(), ids.len());
        let again = DrainRequest::read("a.b_c-d", " stage = drain ;").unwrap();
        assert_eq!(again.event_id(), ids[0], "it asks for the same");
        for id in &ids {
            assert_eq!(DrainRequest::name_of_event(id), Some("a.b_c-d"));
            assert!(id.len() <= 128, "a record cuts longer ones");
        }
        assert_eq!(DrainRequest::name_of_event("sweep:1:x"), None);
    }

    #[test]
    fn what_is_written_is_read_as_the_same_request() {
        for (stage, deadline, reason) in [
            (RequestStage::Drain, None, None),
            (RequestStage::Cordon, Some("2026-01-31T18:00:00Z"), Some("new kernel: 6.18 = LTS")),
        ] {
            let written = request(stage, deadline, reason);
            assert_eq!(DrainRequest::read("upgrade", &written.value()), Ok(written.clone()));
            assert_eq!(DrainRequest::name_of_key(&written.key()), Some("upgrade"));
        }
    }
}

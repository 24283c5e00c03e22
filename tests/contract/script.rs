//! What a case is made of: requests, and the answers that are expected.

use serde_json::Value;

/// A script with a name. Each is played in a namespace of its own, `$ns`.
pub struct Case {
    pub name: &'static str,
    pub steps: Vec<Step>,
    /// Budgets keep the status that the case writes.
    pub without_controllers: bool,
}

impl Case {
    pub fn new(name: &'static str, steps: Vec<Step>) -> Self {
        Self { name, steps, without_controllers: false }
    }

    /// No controller changes what the case writes.
    pub fn without_controllers(mut self) -> Self {
        self.without_controllers = true;
        self
    }
}

/// One step of a script.
pub enum Step {
    Ask(Ask),
    /// Opens a watch under a name.
    Open {
        name: &'static str,
        ask: Ask,
    },
    /// The next events of a watch; bookmarks that are not expected are passed over.
    Events {
        name: &'static str,
        expected: Value,
    },
    /// A watch ends.
    Ends {
        name: &'static str,
    },
    /// The server forgets what was: watches and pages from before cannot be continued.
    Forget,
}

/// A request, and what it is answered.
///
/// Texts may hold `$name`: what was saved under that name. In answers those values are shown as
/// `$name` too.
pub struct Ask {
    pub method: &'static str,
    pub path: String,
    pub headers: Vec<(&'static str, String)>,
    pub body: Option<Value>,
    pub code: u16,
    /// Of a success: the fields that are looked at, as [`shown`](crate::shown) selects them. Of a
    /// refusal: the whole of it.
    pub expected: Value,
    /// Names for later, and where their values are in the answer.
    pub saves: Vec<(&'static str, &'static str)>,
    /// It is asked again until the answer is so.
    pub eventually: bool,
    /// Why the server that stands for the real one is known to answer otherwise, with the source.
    pub unlike: Option<&'static str>,
}

fn ask(method: &'static str, path: &str, body: Option<Value>) -> Ask {
    let code = if method == "POST" { 201 } else { 200 };
    Ask {
        method,
        path: path.to_owned(),
        headers: Vec::new(),
        body,
        code,
        expected: serde_json::json!({}),
        saves: Vec::new(),
        eventually: false,
        unlike: None,
    }
}

pub fn get(path: &str) -> Ask {
    ask("GET", path, None)
}

pub fn post(path: &str, body: Value) -> Ask {
    ask("POST", path, Some(body)).header("content-type", "application/json")
}

pub fn put(path: &str, body: Value) -> Ask {
    ask("PUT", path, Some(body)).header("content-type", "application/json")
}

pub fn delete(path: &str) -> Ask {
    ask("DELETE", path, None)
}

/// With `DeleteOptions`.
pub fn delete_with(path: &str, options: Value) -> Ask {
    ask("DELETE", path, Some(options)).header("content-type", "application/json")
}

/// A JSON merge patch.
pub fn merge(path: &str, patch: Value) -> Ask {
    patch_as("application/merge-patch+json", path, patch)
}

/// A patch of this content type.
pub fn patch_as(kind: &str, path: &str, patch: Value) -> Ask {
    ask("PATCH", path, Some(patch)).header("content-type", kind)
}

impl Ask {
    pub fn header(mut self, name: &'static str, value: &str) -> Self {
        self.headers.retain(|(have, _)| *have != name);
        self.headers.push((name, value.to_owned()));
        self
    }

    /// It is answered this.
    pub fn gives(mut self, code: u16, expected: Value) -> Self {
        self.code = code;
        self.expected = expected;
        self
    }

    /// It succeeds with these fields.
    pub fn shows(mut self, expected: Value) -> Self {
        self.expected = expected;
        self
    }

    /// It is refused with this status, reason and message, and no more than these details.
    pub fn refused(self, code: u16, reason: &str, message: &str, details: Value) -> Self {
        let mut expected = serde_json::json!({ "message": message });
        if !reason.is_empty() {
            expected["reason"] = reason.into();
        }
        if !details.is_null() {
            expected["details"] = details;
        }
        self.gives(code, expected)
    }

    /// The answer has this header `Retry-After` too.
    pub fn retry_after(mut self, seconds: &str) -> Self {
        self.expected["retryAfter"] = seconds.into();
        self
    }

    pub fn save(mut self, name: &'static str, pointer: &'static str) -> Self {
        self.saves.push((name, pointer));
        self
    }

    /// moto answers otherwise, and AWS as it is written; this is why, with the source.
    pub fn unlike_moto(mut self, why: &'static str) -> Self {
        self.unlike = Some(why);
        self
    }

    pub fn eventually(mut self) -> Self {
        self.eventually = true;
        self
    }
}

impl From<Ask> for Step {
    fn from(ask: Ask) -> Self {
        Self::Ask(ask)
    }
}

pub fn open(name: &'static str, path: &str) -> Step {
    Step::Open { name, ask: get(path) }
}

/// A watch that asks with a header.
pub fn open_as(name: &'static str, path: &str, accept: &str) -> Step {
    Step::Open { name, ask: get(path).header("accept", accept) }
}

pub fn events(name: &'static str, expected: Value) -> Step {
    Step::Events { name, expected }
}

/// Steps of anything that makes one.
#[macro_export]
macro_rules! steps {
    ($($step:expr),* $(,)?) => { vec![$($crate::script::Step::from($step)),*] };
}

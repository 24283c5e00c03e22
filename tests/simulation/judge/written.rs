//! What the records on Nodes say, and which of the events that were sent each entry of theirs is.
//! The facts of an interruption come from its message, and the time of its accept from the journal
//! of the embedded Kubernetes. What the record itself says is only compared with them.

use std::{collections::BTreeMap, rc::Rc};

use jiff::SignedDuration;
use serde_json::Value;
use sundown::{
    domain::Moment,
    sim::{
        aws::{ActionReport, Delivery},
        kube::Request,
    },
};

use super::{is_us, sent::Notice};

/// No event is taken to be later than this after its receipt.
const LATEST: SignedDuration = SignedDuration::from_secs(5);
/// How exactly AWS's clock can be measured: its answers give whole seconds.
const INEXACT: SignedDuration = SignedDuration::from_secs(2);

/// An entry of a record, as it is written. Its times are by AWS's clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    pub kind: String,
    /// Of a state change.
    pub state: Option<String>,
    pub event: String,
    pub time: Moment,
    pub accepted: Moment,
    pub hook: Option<(String, String)>,
    pub token: Option<String>,
    pub ends: Option<Moment>,
    pub is_stale: bool,
}

/// The entries of a record.
pub fn interruptions(record: &Value) -> impl Iterator<Item = Written> + use<> {
    let all = record["interruptions"].as_array().cloned().unwrap_or_default();
    all.into_iter().filter_map(|i| {
        let text = |key: &str| i[key].as_str().map(str::to_owned);
        let time = |key: &str| i[key].as_str().and_then(|t| t.parse().ok());
        Some(Written {
            kind: text("kind")?,
            state: text("state"),
            event: text("event").unwrap_or_default(),
            time: time("time")?,
            accepted: time("accepted")?,
            hook: text("group").zip(text("hook")),
            token: text("token"),
            ends: time("ends"),
            is_stale: i["stale"] == true,
        })
    })
}

/// An interruption that was accepted. All times are by the clock of the world.
#[derive(Debug, Clone)]
pub struct RecordedInterruption {
    pub kind: String,
    /// Of a state change.
    pub state: Option<String>,
    pub event: String,
    pub time: Moment,
    /// When its message was sent.
    pub sent: Moment,
    /// When the PATCH that wrote it into the record reached the API server.
    pub accepted: Moment,
    pub hook: Option<(String, String)>,
    pub token: Option<String>,
    pub ends: Option<Moment>,
    /// It was read late and waited for a proof.
    pub is_stale: bool,
    /// A person wrote it into the record.
    pub is_made_up: bool,
    /// The settings in the NotificationMetadata of its hook.
    pub settings: BTreeMap<String, String>,
}

impl RecordedInterruption {
    /// It says that nothing runs on the machine any more.
    pub fn is_over(&self) -> bool {
        !self.is_stale && matches!(self.state.as_deref(), Some("stopped" | "terminated"))
    }

    /// It is this action's.
    pub fn is_of(&self, action: &ActionReport) -> bool {
        let same_token = self.token.as_ref().is_none_or(|token| *token == action.token);
        let same_hook = self
            .hook
            .as_ref()
            .is_some_and(|(group, hook)| *group == action.group && *hook == action.hook);
        same_hook && same_token && self.accepted >= action.started
    }
}

/// One entry of a record that Sundown wrote.
pub struct Seen {
    /// When the PATCH had its effect.
    pub at: Moment,
    pub by: String,
    pub node: String,
    /// The instance of the Node.
    pub instance: String,
    /// The Node's record before did not have it.
    pub is_new: bool,
    pub written: Written,
    /// Which of the events it is; `None`: nobody had sent it by then.
    pub cause: Option<usize>,
    /// When the PATCH that first wrote it came in; `None` where it has no cause.
    pub accepted: Option<Moment>,
}

/// What a record that Sundown wrote says of itself.
pub struct Header {
    pub at: Moment,
    pub by: String,
    pub node: String,
    /// The instance of the Node.
    pub instance: String,
    /// The instance that an open record names.
    pub names: Option<String>,
    /// When it says that it was released, by the clock of the world, where the record before did
    /// not.
    pub released: Option<Moment>,
    /// When its PATCH came in.
    pub came_in: Moment,
}

/// Instance, event, hook and token.
type Key = (String, String, Option<(String, String)>, Option<String>);

/// An entry that came into a record that did not have it.
struct Appearance {
    came_in: Moment,
    /// The time of its accept that it says, by AWS's clock.
    says: Moment,
    /// The journal's time of its accept.
    accepted: Moment,
}

/// An entry of the last record of a Node.
struct Read {
    key: Key,
    written: Written,
    cause: Option<usize>,
    recorded: Option<Rc<RecordedInterruption>>,
}

/// Reads one page of a Node after the other, in the order in which they were written.
pub struct Reader<'a> {
    notices: &'a [Notice],
    /// By how much AWS's clock was ahead before the first message.
    ahead: SignedDuration,
    by_instance: BTreeMap<&'a str, Vec<usize>>,
    /// PATCHes of Nodes in the order in which they came in, by client and Node. One whose effect
    /// was found is left out.
    patches: BTreeMap<(&'a str, &'a str), Vec<&'a Request>>,
    /// What the last record of a Node held.
    last: BTreeMap<String, Vec<Read>>,
    appeared: BTreeMap<Key, Vec<Appearance>>,
    /// What people wrote into records. They may write the same hook twice.
    made_up: BTreeMap<Key, Vec<RecordedInterruption>>,
    pub seen: Vec<Seen>,
    pub headers: Vec<Header>,
    released: BTreeMap<String, Option<Moment>>,
}

/// A record as it was written on a Node.
pub struct Writing<'p> {
    pub at: Moment,
    pub by: &'p str,
    pub node: &'p str,
    pub instance: &'p str,
    pub record: Option<&'p Value>,
}

impl<'a> Reader<'a> {
    pub fn new(notices: &'a [Notice], requests: &'a [Request], ahead: SignedDuration) -> Self {
        let mut by_instance: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (i, notice) in notices.iter().enumerate() {
            by_instance.entry(notice.event.instance.as_str()).or_default().push(i);
        }
        let mut patches: BTreeMap<_, Vec<&Request>> = BTreeMap::new();
        for r in requests.iter().filter(|r| r.verb == "patch" && r.resource == "nodes") {
            patches.entry((r.client.as_str(), r.name.as_str())).or_default().push(r);
        }
        patches.values_mut().for_each(|all| all.sort_by_key(|r| r.at));
        Self {
            notices,
            ahead,
            by_instance,
            patches,
            last: BTreeMap::new(),
            appeared: BTreeMap::new(),
            made_up: BTreeMap::new(),
            seen: Vec::new(),
            headers: Vec::new(),
            released: BTreeMap::new(),
        }
    }

    /// The interruptions of the record, each with the facts of its message. What a person wrote
    /// into a record is taken as it is. What Sundown wrote and nobody had sent is left out.
    pub fn read(&mut self, page: &Writing<'_>) -> Vec<Rc<RecordedInterruption>> {
        let came_in = self.came_in(page);
        self.header(page, came_in);
        let last = self.last.remove(page.node).unwrap_or_default();
        let now: Vec<Read> = page
            .record
            .into_iter()
            .flat_map(interruptions)
            .map(|w| self.entry(w, &last, page, came_in))
            .collect();
        let recorded = now.iter().filter_map(|read| read.recorded.clone()).collect();
        self.last.insert(page.node.to_owned(), now);
        recorded
    }

    fn header(&mut self, page: &Writing<'_>, came_in: Moment) {
        let record = page.record.unwrap_or(&Value::Null);
        let ahead = self.ahead(page.at);
        let released = record["released"]["at"]
            .as_str()
            .and_then(|t| t.parse::<Moment>().ok())
            .map(|t| t - ahead);
        let before = self.released.insert(page.node.to_owned(), released).flatten();
        let is_open = page.record.is_some() && record["released"].is_null();
        let names = record["instance"].as_str().filter(|_| is_open && !page.instance.is_empty());
        if is_us(page.by) && page.record.is_some() {
            self.headers.push(Header {
                at: page.at,
                by: page.by.to_owned(),
                node: page.node.to_owned(),
                instance: page.instance.to_owned(),
                names: names.map(str::to_owned),
                released: released.filter(|_| before != released),
                came_in,
            });
        }
    }

    /// By how much AWS's clock is ahead.
    fn ahead(&self, at: Moment) -> SignedDuration {
        self.notices
            .iter()
            .rev()
            .find(|n| n.sent <= at)
            .or(self.notices.first())
            .map_or(self.ahead, |n| n.ahead)
    }

    fn entry(
        &mut self,
        written: Written,
        last: &[Read],
        page: &Writing<'_>,
        came_in: Moment,
    ) -> Read {
        let key: Key = (
            page.instance.to_owned(),
            written.event.clone(),
            written.hook.clone(),
            written.token.clone(),
        );
        // People may write the same hook twice: into one record, or into one after the other.
        let alike = last.iter().filter(|read| read.key == key);
        let known = alike.min_by_key(|read| {
            (read.written != written, read.written.accepted != written.accepted)
        });
        // After a boot, Sundown accepts a scheduled change or a request anew.
        let is_again = |known: &&Read| {
            ["scheduled-change", "request"].contains(&written.kind.as_str())
                && known.written.accepted != written.accepted
        };
        let known = known.filter(|known| !is_again(known));
        if let Some(same) = known.filter(|known| known.written == written) {
            return Read { key, written, cause: same.cause, recorded: same.recorded.clone() };
        }
        let cause = self.cause(&written, page);
        let recorded = match (known.and_then(|known| known.recorded.as_ref()), cause) {
            (_, None) if !is_us(page.by) => {
                let recorded = RecordedInterruption::by_hand(&written, self.ahead(page.at));
                self.made_up.entry(key.clone()).or_default().push(recorded.clone());
                Some(recorded)
            }
            (Some(recorded), _) => {
                Some(RecordedInterruption { is_stale: written.is_stale, ..(**recorded).clone() })
            }
            (None, Some(cause)) => {
                let accepted = self.accepted(&key, &written, cause, came_in);
                Some(RecordedInterruption::of(&self.notices[cause], &written, accepted))
            }
            // A record that was deleted is written back with what a person wrote into it.
            (None, None) => {
                let says = written.accepted - self.ahead(page.at);
                let off = |one: &&RecordedInterruption| one.accepted.duration_since(says).abs();
                self.made_up.get(&key).into_iter().flatten().min_by_key(off).cloned()
            }
        };
        if is_us(page.by) {
            self.seen.push(Seen {
                at: page.at,
                by: page.by.to_owned(),
                node: page.node.to_owned(),
                instance: page.instance.to_owned(),
                is_new: known.is_none(),
                written: written.clone(),
                cause,
                accepted: recorded.as_ref().map(|t| t.accepted),
            });
        }
        Read { key, written, cause, recorded: recorded.map(Rc::new) }
    }

    /// The event that an entry is, of those that had been sent by then: where several have its id,
    /// one that says all that it says.
    fn cause(&self, written: &Written, page: &Writing<'_>) -> Option<usize> {
        let of_instance = self.by_instance.get(page.instance).into_iter().flatten().copied();
        let sent = of_instance
            .filter(|i| self.notices[*i].sent <= page.at && self.notices[*i].may_be(written));
        sent.min_by_key(|i| (!self.notices[*i].differs(written).is_empty(), *i))
    }

    /// The journal's time of the accept. A record that was deleted and is written back keeps the
    /// time of its accept, so an entry that says the same as one before has the same time: what it
    /// says may be some tenths of a second off, and it may be written back in that time. For one
    /// that says another time, that time counts, of all at which the entry appeared.
    fn accepted(&mut self, key: &Key, written: &Written, cause: usize, came_in: Moment) -> Moment {
        let all = self.appeared.entry(key.clone()).or_default();
        let same = all.iter().find(|one| one.says == written.accepted).map(|one| one.accepted);
        let says = written.accepted - self.notices[cause].ahead;
        let off = |at: &Moment| at.duration_since(says).abs();
        let nearest = all.iter().map(|one| one.came_in).chain([came_in]).min_by_key(off);
        let accepted = same.or(nearest).unwrap_or(came_in);
        all.push(Appearance { came_in, says: written.accepted, accepted });
        accepted
    }

    /// When the PATCH came in that had its effect then: one that came in or was answered then. Of
    /// several (another one was held until then, or its answer was) it is the one whose time is
    /// nearest to the last accept or release that the page shows, or the first. Where there is
    /// none, its answer was late or lost, and it had its effect as it came in.
    fn came_in(&mut self, page: &Writing<'_>) -> Moment {
        let ahead = self.ahead(page.at);
        let is_of_page = |(key, _): &(&(&str, &str), _)| **key == (page.by, page.node);
        let Some((_, all)) = self.patches.iter_mut().find(is_of_page) else { return page.at };
        let says = page.record.and_then(last_time);
        let off = |r: &Request| says.map(|says| (r.at + ahead).duration_since(says).abs());
        // A PATCH whose answer could not be read had its effect as it came in, if it had one.
        let is_unread = |r: &Request| r.status == 0 && r.answered.is_none() && r.at == page.at;
        let is_of_then = |r: &Request| {
            let is_then = r.at == page.at || r.answered == Some(page.at);
            (r.status == 200 && is_then) || is_unread(r)
        };
        let effective = all.iter().enumerate().filter(|(_, r)| r.at <= page.at && is_of_then(r));
        let answered = effective.min_by_key(|(_, r)| off(r)).map(|(found, _)| found);
        match answered.or_else(|| all.iter().rposition(|r| r.at <= page.at)) {
            Some(found) => all.remove(found).at,
            None => page.at,
        }
    }
}

/// The last accept or release that a record shows.
fn last_time(record: &Value) -> Option<Moment> {
    let time = |value: &Value| value.as_str()?.parse::<Moment>().ok();
    let accepted = record["interruptions"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|i| time(&i["accepted"]));
    accepted.chain(time(&record["released"]["at"])).max()
}

impl RecordedInterruption {
    fn of(notice: &Notice, written: &Written, accepted: Moment) -> Self {
        let event = &notice.event;
        Self {
            kind: event.kind.name().to_owned(),
            state: event.state.clone(),
            event: event.id.clone(),
            time: notice.recorded_time(written) - notice.ahead,
            sent: notice.sent,
            accepted,
            hook: event.hook.clone(),
            token: event.token.clone(),
            ends: notice.ends(),
            is_stale: written.is_stale,
            is_made_up: false,
            settings: event.settings.clone(),
        }
    }

    fn by_hand(written: &Written, ahead: SignedDuration) -> Self {
        let Written { kind, state, event, hook, token, is_stale, .. } = written.clone();
        let (time, accepted, ends) =
            (written.time - ahead, written.accepted - ahead, written.ends.map(|ends| ends - ahead));
        Self {
            kind,
            state,
            event,
            time,
            sent: accepted,
            accepted,
            hook,
            token,
            ends,
            is_stale,
            is_made_up: true,
            settings: BTreeMap::new(),
        }
    }
}

impl Notice {
    /// The entry has its id; one without an id goes by kind and hook.
    fn may_be(&self, written: &Written) -> bool {
        let same_words =
            || self.event.kind.name() == written.kind && self.event.hook == written.hook;
        self.id() == written.event && (!written.event.is_empty() || same_words())
    }

    /// Longer ids are cut.
    fn id(&self) -> String {
        self.event.id.chars().take(128).collect()
    }

    /// The time that the entry must say, by AWS's clock: the message's, but not later than `LATEST`
    /// after a receipt.
    fn recorded_time(&self, written: &Written) -> Moment {
        let latest = |d: &Delivery| d.at + self.ahead + LATEST;
        let is_capped = |d: &Delivery| {
            self.aws_time() > latest(d) && written.time.duration_since(latest(d)).abs() <= INEXACT
        };
        if self.deliveries.iter().any(is_capped) { written.time } else { self.aws_time() }
    }

    /// What the entry says otherwise than the event, in words.
    pub fn differs(&self, written: &Written) -> Vec<String> {
        let event = &self.event;
        let millis = |t: Moment| t.as_millisecond();
        let hook = |hook: &Option<(String, String)>| {
            hook.as_ref().map(|(group, hook)| format!("{group}/{hook}"))
        };
        let text = |t: &Option<String>| t.clone().unwrap_or_default();
        let facts = [
            ("kind", written.kind.clone(), event.kind.name().to_owned()),
            (
                "time",
                millis(written.time).to_string(),
                millis(self.recorded_time(written)).to_string(),
            ),
            ("state", text(&written.state), text(&event.state)),
            (
                "ends",
                format!("{:?}", written.ends.map(millis)),
                format!("{:?}", event.ends.map(millis)),
            ),
            ("hook", text(&hook(&written.hook)), text(&hook(&event.hook))),
            ("token", text(&written.token), text(&event.token)),
        ];
        let differing = facts.into_iter().filter(|(_, says, is)| says != is);
        differing.map(|(field, says, is)| format!("{field} {says}, and the message {is}")).collect()
    }
}

//! What Sundown does about each kind of interruption (`--on`).

use std::{
    collections::BTreeMap,
    fmt::{self, Write as _},
    str::FromStr,
};

use super::Kind;

/// What Sundown does with a node because of an interruption. Of several interruptions of one node,
/// the strongest response applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Response {
    /// Nothing: the message is deleted. A lifecycle hook gets neither heartbeats nor a completion.
    Ignore,
    /// The node gets a taint with the effect `PreferNoSchedule`. Its pods stay.
    Prefer,
    /// The node is cordoned and gets a taint with the effect `NoSchedule`. Its pods stay.
    Cordon,
    /// The node is cordoned, and its pods are evicted.
    Drain,
}

impl Response {
    /// Every response, from the weakest to the strongest.
    pub const ALL: [Self; 4] = [Self::Ignore, Self::Prefer, Self::Cordon, Self::Drain];

    /// Its name in `--on` and in records.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ignore => "ignore",
            Self::Prefer => "prefer",
            Self::Cordon => "cordon",
            Self::Drain => "drain",
        }
    }

    /// The response with this name; `None` for any other text.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|response| response.as_str() == word)
    }

    /// The node is cordoned.
    #[must_use]
    pub fn cordons(self) -> bool {
        self >= Self::Cordon
    }

    /// The pods of the node are evicted.
    #[must_use]
    pub fn evicts(self) -> bool {
        self == Self::Drain
    }

    /// The effect of the taint on the node.
    #[must_use]
    pub const fn taint_effect(self) -> &'static str {
        match self {
            Self::Ignore | Self::Prefer => "PreferNoSchedule",
            Self::Cordon | Self::Drain => "NoSchedule",
        }
    }
}

/// A response to one kind of interruption, as `--on KIND=RESPONSE` gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KindResponse {
    /// The kind of interruption.
    pub kind: Kind,
    /// What Sundown does about it.
    pub response: Response,
}

impl FromStr for KindResponse {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some((kind, response)) = text.split_once('=') else {
            return Err("not KIND=RESPONSE, such as rebalance=prefer".to_owned());
        };
        let (kind, response) = (kind.trim(), response.trim());
        let names = |all: Vec<&str>| all.join(", ");
        if kind == Kind::Request.as_str() {
            return Err(
                "`request` has no response here: each request says itself how far to go, with \
                 stage=cordon or stage=drain in its annotation drain.sundown.dev/NAME"
                    .to_owned(),
            );
        }
        let kind = Responses::kinds().find(|known| known.as_str() == kind).ok_or_else(|| {
            let known = names(Responses::kinds().map(Kind::as_str).collect());
            format!("Sundown knows no kind `{kind}`; use one of {known}")
        })?;
        let response = Response::from_word(response).ok_or_else(|| {
            let known = names(Response::ALL.map(Response::as_str).to_vec());
            format!("`{response}` is not a response; use one of {known}")
        })?;
        let allowed = Responses::allowed(kind);
        if !allowed.contains(&response) {
            let allowed = names(allowed.iter().map(|response| response.as_str()).collect());
            let why = Responses::why_limited(kind);
            return Err(format!("{why}; use one of: {allowed}"));
        }
        Ok(Self { kind, response })
    }
}

impl fmt::Display for KindResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.kind.as_str(), self.response.as_str())
    }
}

/// The response to each kind of interruption.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Responses(BTreeMap<Kind, Response>);

impl Responses {
    /// The responses that are given, and the defaults for all other kinds. Errs with the second of
    /// two different responses to one kind.
    pub fn new(given: &[KindResponse]) -> Result<Self, KindResponse> {
        let mut chosen = BTreeMap::new();
        for one in given {
            let before = chosen.insert(one.kind, one.response);
            if before.is_some_and(|before| before != one.response) {
                return Err(*one);
            }
        }
        Ok(Self(chosen))
    }

    /// What Sundown does about an interruption of this kind.
    #[must_use]
    pub fn of(&self, kind: Kind) -> Response {
        self.0.get(&kind).copied().unwrap_or_else(|| Self::default_of(kind))
    }

    /// The kinds that `--on` can name. [`Kind::LaunchSuccessful`] is not among them: it only puts a
    /// Node back. Nor is [`Kind::Request`]: each request says itself how far to go.
    pub fn kinds() -> impl Iterator<Item = Kind> {
        Kind::ALL.into_iter().filter(|kind| !matches!(kind, Kind::LaunchSuccessful | Kind::Request))
    }

    /// The response without `--on`.
    #[must_use]
    pub const fn default_of(kind: Kind) -> Response {
        match kind {
            Kind::TerminateHook
            | Kind::RootVolume
            | Kind::Spot
            | Kind::SpotStop
            | Kind::SpotHibernate
            | Kind::CapacityReservation
            | Kind::CapacityBlock
            | Kind::StateChange
            // Of a scheduled change, its code decides first ([`super::ChangeAction`]).
            | Kind::ScheduledChange
            // For a launch hook, `drain` only means that Sundown does not ignore it.
            | Kind::LaunchHook
            | Kind::LaunchSuccessful
            | Kind::Request => Response::Drain,
            // A recommendation often comes for a whole pool, and often nothing follows.
            Kind::Rebalance => Response::Prefer,
            Kind::Impaired => Response::Ignore,
        }
    }

    /// The responses that this kind can have.
    #[must_use]
    pub const fn allowed(kind: Kind) -> &'static [Response] {
        match kind {
            Kind::LaunchHook => &[Response::Ignore],
            Kind::TerminateHook | Kind::RootVolume => {
                &[Response::Ignore, Response::Cordon, Response::Drain]
            }
            _ => &Response::ALL,
        }
    }

    const fn why_limited(kind: Kind) -> &'static str {
        match kind {
            Kind::LaunchHook => {
                "a launch hook is of a new instance, which Sundown neither cordons nor drains: \
                 without `--on launch-hook=ignore` it completes the hook when the node is ready"
            }
            Kind::TerminateHook | Kind::RootVolume => {
                "while a hook waits, no new pod may come to its node"
            }
            _ => "this response does not fit this kind",
        }
    }
}

/// The text of `docs/responses.md`: every kind with its responses.
#[must_use]
pub fn document() -> String {
    let mut page = String::from(
        "# Responses by kind of interruption\n\n\
         This page lists the kinds that `--on KIND=RESPONSE` can name, generated from the code. \
         Another page\nexplains [the responses](interruptions.md#choose-what-happens-for-a-kind) \
         and [the kinds](interruptions.md#by-kind).\n\n\
         | kind | without `--on` | allowed responses |\n| --- | --- | --- |\n",
    );
    for kind in Responses::kinds() {
        let default = match kind {
            Kind::LaunchHook => "completed when its node is ready".to_owned(),
            _ => format!("`{}`", Responses::default_of(kind).as_str()),
        };
        let allowed: Vec<String> =
            Responses::allowed(kind).iter().rev().map(|r| format!("`{}`", r.as_str())).collect();
        writeln!(page, "| `{}` | {default} | {} |", kind.as_str(), allowed.join(", ")).ok();
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_is_read_and_written_and_its_mistakes_are_named() {
        for (text, expected) in [
            ("spot=cordon", Ok("spot=cordon")),
            (" rebalance = prefer ", Ok("rebalance=prefer")),
            ("launch-hook=ignore", Ok("launch-hook=ignore")),
            ("spot", Err("not KIND=RESPONSE")),
            ("=", Err("no kind ``")),
            ("sopt=drain", Err("no kind `sopt`")),
            ("launch-successful=ignore", Err("no kind `launch-successful`")),
            ("request=cordon", Err("each request says itself how far to go, with stage=cordon")),
            (
                "spot=evict",
                Err("`evict` is not a response; use one of ignore, prefer, cordon, drain"),
            ),
            ("launch-hook=drain", Err("use one of: ignore")),
            ("scheduled-change=cordon", Ok("scheduled-change=cordon")),
        ] {
            let read = text.parse::<KindResponse>().map(|read| read.to_string());
            match (read, expected) {
                (Ok(read), Ok(expected)) => assert_eq!(read, expected, "{text}"),
                (Err(error), Err(part)) => assert!(error.contains(part), "{text}: {error}"),
                (read, expected) => panic!("{text}: {read:?}, not {expected:?}"),
            }
        }
    }

    #[test]
    fn the_default_of_each_kind_holds_unless_a_response_is_given() {
        let responses = Responses::new(&["spot=cordon".parse().unwrap()]).unwrap();
        let of = |kind| responses.of(kind).as_str();
        let expected = [
            (Kind::TerminateHook, "drain"),
            (Kind::RootVolume, "drain"),
            (Kind::Spot, "cordon"),
            (Kind::SpotStop, "drain"),
            (Kind::SpotHibernate, "drain"),
            (Kind::CapacityReservation, "drain"),
            (Kind::CapacityBlock, "drain"),
            (Kind::StateChange, "drain"),
            (Kind::Rebalance, "prefer"),
            (Kind::ScheduledChange, "drain"),
            (Kind::Impaired, "ignore"),
        ];
        assert_eq!(expected.map(|(kind, _)| (kind, of(kind))), expected);
    }

    #[test]
    fn two_different_responses_to_one_kind_are_refused_and_two_equal_ones_are_not() {
        let given = |all: &[&str]| {
            let all: Vec<KindResponse> = all.iter().map(|text| text.parse().unwrap()).collect();
            Responses::new(&all).map(|_| ()).map_err(|second| second.to_string())
        };
        assert_eq!(given(&["spot=cordon", "spot=drain"]), Err("spot=drain".to_owned()));
        assert_eq!(given(&["spot=cordon", "spot=cordon"]), Ok(()));
    }

    #[test]
    fn a_stronger_response_is_the_greater_one() {
        let ordered = ["ignore", "prefer", "cordon", "drain"].map(Response::from_word);
        assert!(ordered.is_sorted());
        let cordons = Response::ALL.map(Response::cordons);
        assert_eq!(cordons, [false, false, true, true]);
        assert_eq!(Response::ALL.map(Response::evicts), [false, false, false, true]);
    }
}

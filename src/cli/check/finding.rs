//! What a probe found, and how a report prints it.

use std::io::{self, Write};

use serde::Serialize;

use crate::{
    aws::{AwsError, Outcome},
    cli::paint::{Paint, Tone},
};

/// Whether a probed thing is as it should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Answer {
    /// It is as it should be.
    Yes,
    /// It is not as it should be.
    No,
    /// The probe could not find out.
    CannotTell,
}

/// What one probe found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Finding {
    /// The name of the probe; stable, scripts may match it.
    pub(super) point: &'static str,
    /// The probed object; empty if the probe has only one.
    pub(super) about: String,
    pub(super) answer: Answer,
    /// `true`: Sundown does not work without it. `false`: advice.
    pub(super) needed: bool,
    /// What the probe saw, in a sentence for people.
    pub(super) message: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) remedy: Option<String>,
}

impl Finding {
    fn new(
        point: &'static str,
        about: impl Into<String>,
        answer: Answer,
        message: impl Into<String>,
        remedy: Option<String>,
    ) -> Self {
        Self { point, about: about.into(), answer, needed: true, message: message.into(), remedy }
    }

    pub(super) fn yes(
        point: &'static str,
        about: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        Self::new(point, about, Answer::Yes, message, None)
    }

    pub(super) fn no(
        point: &'static str,
        about: impl Into<String>,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self::new(point, about, Answer::No, message, Some(remedy.into()))
    }

    pub(super) fn cannot_tell(
        point: &'static str,
        about: impl Into<String>,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self::new(point, about, Answer::CannotTell, message, Some(remedy.into()))
    }

    /// Turns the finding into advice: Sundown works without it.
    pub(super) fn advice(self) -> Self {
        Self { needed: false, ..self }
    }

    /// The order in the text: 0 as it should be, 1 not known, 2 advice, 3 missing.
    const fn weight(&self) -> u8 {
        match (self.answer, self.needed) {
            (Answer::Yes, _) => 0,
            (Answer::CannotTell, _) => 1,
            (Answer::No, false) => 2,
            (Answer::No, true) => 3,
        }
    }

    /// The finding of a probe whose call failed.
    pub(super) fn of_error(
        point: &'static str,
        about: impl Into<String>,
        error: &AwsError,
    ) -> Self {
        let (about, message, permission) =
            (about.into(), error.to_string(), error.api().permission());
        match error.outcome() {
            // The SDK found no credentials, or AWS does not know them: no policy helps.
            Outcome::Credentials => Self::no(
                point,
                about,
                message,
                "give the pod credentials: a role by EKS Pod Identity or for its service account, \
                 or an instance profile",
            ),
            Outcome::Denied
                if error.code().starts_with("Kms") || error.code().starts_with("KMS") =>
            {
                Self::no(
                    point,
                    about,
                    message,
                    "allow kms:Decrypt on the queue's key in the role's policy and in the key's \
                     own",
                )
            }
            Outcome::Denied => Self::no(
                point,
                about,
                message,
                format!(
                    "allow {permission} in the role's policy; a condition on a tag denies what \
                     lacks the tag"
                ),
            ),
            Outcome::Gone => {
                Self::no(point, about, message, "look at its name, its region and its account")
            }
            Outcome::Timeout | Outcome::Unreachable => Self::no(
                point,
                about,
                message,
                "look at the network: the points `host` and `credentials.direct`, VPC endpoints, network \
                 policies, security groups",
            ),
            Outcome::Ok | Outcome::Throttled | Outcome::Server | Outcome::Rejected => {
                Self::cannot_tell(point, about, message, "ask again in a minute")
            }
        }
    }

    /// The same for a call that needs the policy for look-ups. Sundown works without that policy.
    pub(super) fn of_look_up(
        point: &'static str,
        about: impl Into<String>,
        error: &AwsError,
    ) -> Self {
        let finding = Self::of_error(point, about, error).advice();
        if error.outcome() != Outcome::Denied {
            return Self { answer: Answer::CannotTell, ..finding };
        }
        let remedy = format!(
            "to know it, give the role the policy for look-ups ({}): `permissions = {{ check = \
             true }}` in the Terraform module",
            error.api().permission()
        );
        Self { answer: Answer::CannotTell, remedy: Some(remedy), ..finding }
    }
}

/// All findings.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    version: &'static str,
    findings: Vec<Finding>,
    summary: Summary,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Summary {
    yes: usize,
    no: usize,
    /// How many of `no` are only advice.
    advice: usize,
    cannot_tell: usize,
}

impl Report {
    pub(super) fn of(findings: Vec<Finding>) -> Self {
        let count = |holds: &dyn Fn(&Finding) -> bool| findings.iter().filter(|f| holds(f)).count();
        let summary = Summary {
            yes: count(&|f| f.answer == Answer::Yes),
            no: count(&|f| f.answer == Answer::No),
            advice: count(&|f| f.answer == Answer::No && !f.needed),
            cannot_tell: count(&|f| f.answer == Answer::CannotTell),
        };
        Self { version: env!("CARGO_PKG_VERSION"), findings, summary }
    }

    /// Whether no probe found that something necessary is missing.
    pub(super) fn is_good(&self) -> bool {
        self.summary.no == self.summary.advice
    }

    pub(super) fn write_json(&self, out: &mut impl Write) -> io::Result<()> {
        serde_json::to_writer_pretty(&mut *out, self)?;
        writeln!(out)
    }

    /// Prints the most important findings last, where a person looks first.
    pub(super) fn write_text(&self, out: &mut impl Write, paint: Paint) -> io::Result<()> {
        let mut findings: Vec<&Finding> = self.findings.iter().collect();
        findings.sort_by_key(|finding| finding.weight());
        for finding in findings {
            let (verdict, tone) = match finding.weight() {
                0 => ("yes", Tone::Good),
                1 => ("?", Tone::Faint),
                2 => ("no", Tone::Caution),
                _ => ("NO", Tone::Bad),
            };
            let verdict = paint.text(tone, &format!("{verdict:<4}"));
            let about = if finding.about.is_empty() {
                String::new()
            } else {
                format!("{}: ", finding.about)
            };
            writeln!(out, "{verdict} {:<20} {about}{}", finding.point, one_line(&finding.message))?;
            if let Some(remedy) = &finding.remedy {
                writeln!(out, "{:<25} -> {remedy}", "")?;
            }
        }
        let Summary { yes, no, advice, cannot_tell } = self.summary;
        writeln!(
            out,
            "\n{yes} yes, {} NO, {advice} no (advice: it works without), {cannot_tell} ? (cannot \
             tell)",
            no - advice
        )
    }
}

/// The AWS SDK explains missing credentials on several lines. A finding has one line.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
#[allow(clippy::indexing_slicing, reason = "what is not there fails the test")]
mod tests {
    use super::*;

    #[test]
    fn only_a_missing_necessity_makes_a_report_bad() {
        let yes = || Finding::yes("queue", "q", "it is there");
        let no = || Finding::no("queue.delete", "q", "denied", "allow it");
        let cannot_tell = || Finding::cannot_tell("rule", "r", "denied", "allow it");
        for (findings, good) in [
            (vec![yes()], true),
            (vec![yes(), cannot_tell()], true),
            (vec![yes(), no().advice()], true),
            (vec![yes(), no()], false),
            (vec![no().advice(), no()], false),
        ] {
            assert_eq!(Report::of(findings.clone()).is_good(), good, "{findings:?}");
        }
    }

    #[test]
    fn text_prints_missing_things_last_and_in_color_and_json_keeps_the_order_of_the_probes() {
        let missing = || Finding::no("queue.delete", "q", "denied", "allow it");
        let findings = vec![
            missing(),
            Finding::yes("queue", "q", "it is there"),
            missing().advice(),
            Finding::cannot_tell("rule", "r", "denied", "allow it"),
            Finding::yes("rules", "q", "all"),
        ];
        let report = Report::of(findings);
        let text = |paint| {
            let mut text = Vec::new();
            report.write_text(&mut text, paint).unwrap();
            String::from_utf8(text).unwrap()
        };
        let plain = text(Paint::new(false));
        let verdicts: Vec<_> = plain
            .lines()
            .filter(|l| !l.contains("->"))
            .filter_map(|l| l.split(' ').next())
            .collect();
        assert_eq!(verdicts, ["yes", "yes", "?", "no", "NO", "", "2"], "{plain}");
        let colored = text(Paint::new(true));
        assert!(
            colored.contains("\x1b[1;31mNO  \x1b[0m queue.delete")
                && colored.contains("\x1b[32myes \x1b[0m"),
            "{colored}"
        );
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(
            (&json["findings"][0]["answer"], &json["findings"][4]["point"]),
            (&"no".into(), &"rules".into())
        );
    }

    #[test]
    fn a_report_is_printed_as_text_and_as_json() {
        let report = Report::of(vec![
            Finding::yes("queue", "q", "it is there"),
            Finding::no("rights", "", "denied", "allow it").advice(),
        ]);
        let mut text = Vec::new();
        report.write_text(&mut text, Paint::new(false)).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(
            text.starts_with(
                "yes  queue                q: it is there\nno   rights               denied\n"
            ),
            "{text}"
        );
        assert!(
            text.contains("-> allow it\n")
                && text
                    .ends_with("1 yes, 0 NO, 1 no (advice: it works without), 0 ? (cannot tell)\n"),
            "{text}"
        );
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(
            json["summary"],
            serde_json::json!({ "yes": 1, "no": 1, "advice": 1, "cannotTell": 0 })
        );
        assert_eq!(
            (&json["findings"][0]["answer"], &json["findings"][1]["needed"]),
            (&"yes".into(), &false.into())
        );
        assert!(json["findings"][0].get("remedy").is_none());
    }
}

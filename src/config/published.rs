//! The settings that the leader publishes on its Lease for `sundown status`: those that affect
//! deadlines, and where it looks for instances.

use std::time::Duration;

use clap::{Args as _, Command, FromArgMatches as _, builder::Resettable};

use super::{
    Config, DrainConfig,
    args::DrainArgs,
    validate::drain,
    values::{duration_text, parse_duration},
};

/// The flag whose value has spaces. They are published as underscores.
const WINDOW: &str = "--scheduled-window=";
const SWEEP: &str = "--sweep-interval=";
const CLUSTER: &str = "--cluster-name=";
const REGION: &str = "--region=";

/// What a leader published besides the settings of its drains.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PublishedService {
    /// Whether it sweeps.
    pub sweep: PublishedSweep,
    /// `--cluster-name`. `None`: it has none, or its version does not publish it.
    pub cluster_name: Option<String>,
    /// The region of its EC2 and Auto Scaling. `None`: its version does not publish it.
    pub region: Option<String>,
}

/// Whether a leader sweeps (`--sweep-interval`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PublishedSweep {
    /// It looks for hooks and for instances that no event reports.
    On,
    /// `0s`: it does not.
    Off,
    /// Its version does not publish that.
    #[default]
    NotKnown,
}

impl Config {
    /// The settings that the leader publishes, as flags of `sundown run` on one line. `region`: that
    /// of its AWS clients. No value has a space in it.
    #[must_use]
    pub fn published(&self, region: Option<&str>) -> String {
        let interval = duration_text(self.ours.sweep_interval.unwrap_or_default());
        let cluster = self.ours.cluster_name.as_ref();
        let cluster = cluster.map_or_else(String::new, |name| format!(" {CLUSTER}{name}"));
        let region = region.map_or_else(String::new, |region| format!(" {REGION}{region}"));
        format!("{} {SWEEP}{interval}{cluster}{region}", self.drain.published())
    }
}

impl PublishedService {
    /// Parses what a leader published.
    #[must_use]
    pub fn read(text: &str) -> Self {
        let given = |flag: &str| text.split_whitespace().find_map(|word| word.strip_prefix(flag));
        let sweep = match given(SWEEP).map(parse_duration) {
            Some(Ok(interval)) if interval.is_zero() => PublishedSweep::Off,
            Some(Ok(_)) => PublishedSweep::On,
            Some(Err(_)) | None => PublishedSweep::NotKnown,
        };
        let text_of = |flag| given(flag).filter(|value| !value.is_empty()).map(str::to_owned);
        Self { sweep, cluster_name: text_of(CLUSTER), region: text_of(REGION) }
    }
}

impl DrainConfig {
    /// The settings for deadlines and forced deletes, as flags of `sundown run` on one line.
    #[must_use]
    pub fn published(&self) -> String {
        let given = |flag: &str, value: Option<Duration>| {
            value.map(|value| format!("{flag}={} ", duration_text(value))).unwrap_or_default()
        };
        let evict_after = self.evict_after.given().map(|one| format!("--evict-after={one} "));
        let evict_after = evict_after.collect::<Vec<_>>().concat();
        let window = self.changes.window.map(|window| window.to_string().replace(' ', "_"));
        let window = window.map_or_else(String::new, |window| format!(" {WINDOW}{window}"));
        let switches = [("--out-of-service-taint ", self.gone_nodes.taint)];
        let switches = switches.into_iter().chain([
            ("--delete-node ", self.gone_nodes.delete),
            ("--requests-may-force ", self.requests_may_force),
        ]);
        let switches: String =
            switches.filter_map(|(flag, is_set)| is_set.then_some(flag)).collect();
        let daemon_sets = self.drained_daemon_sets.iter();
        let daemon_sets = daemon_sets.map(|name| format!("--drain-daemonset={name} "));
        let daemon_sets = daemon_sets.collect::<Vec<_>>().concat();
        let honored = self.honored.iter().map(|key| format!("--honor={key} "));
        let honored = honored.collect::<Vec<_>>().concat();
        // Readers only learn that there are rules.
        let rules = if self.rules_file.is_some() { "--rules-file=given " } else { "" };
        format!(
            "{}{}{evict_after}{switches}{daemon_sets}{honored}{rules}--pod-order={} --deadline-margin={} --spot-deadline-margin={} --force-after={} \
             --complete-delay={} --min-drain-time={} --rebalance-ttl={} --scheduled-lead={}{window}",
            given("--drain-timeout", self.timeout),
            given("--max-drain-timeout", self.max_timeout),
            self.pod_order,
            duration_text(self.deadline_margin),
            duration_text(self.spot_deadline_margin),
            self.force_after,
            duration_text(self.complete_delay),
            duration_text(self.min_time),
            duration_text(self.rebalance_ttl),
            duration_text(self.changes.lead)
        )
    }

    /// Parses what a leader published; empty text means the defaults. Ignores flags that this
    /// version does not know. `None` if a value is invalid.
    #[must_use]
    pub fn from_published(text: &str) -> Option<Self> {
        let command = DrainArgs::augment_args(Command::new("published").no_binary_name(true));
        let command = command.mut_args(|arg| arg.env(Resettable::Reset));
        let is_known = |word: &&str| {
            let name = word.strip_prefix("--").and_then(|flag| flag.split('=').next());
            command.get_arguments().any(|arg| arg.get_long().is_some() && arg.get_long() == name)
        };
        let words = text.split_whitespace().filter(is_known);
        let words = words.map(|word| match word.strip_prefix(WINDOW) {
            Some(window) => format!("{WINDOW}{}", window.replace('_', " ")),
            None => word.to_owned(),
        });
        let matches = command.clone().try_get_matches_from(words).ok()?;
        drain(&DrainArgs::from_arg_matches(&matches).ok()?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::RunArgs;

    #[test]
    fn what_is_published_is_read_as_it_was() {
        for flags in [
            "",
            "--drain-timeout=30m --force-after=never",
            "--deadline-margin=20s --spot-deadline-margin=15s --force-after=0.25 \
             --min-drain-time=0s --rebalance-ttl=20m",
            "--force-after=deadline --complete-delay=20s",
            "--drain-timeout=30m --max-drain-timeout=4h",
            "--evict-after=terminate-hook=replacement-ready --evict-after=rebalance=10m",
            "--scheduled-lead=2h --scheduled-window=Sat_02:00-06:00_UTC",
            "--delete-node",
            "--requests-may-force",
            "--out-of-service-taint --delete-node",
            "--pod-order=priority:0,1000",
            "--drain-daemonset=logging/fluent-bit --drain-daemonset=kube-system/shipper",
            "--honor=cluster.x-k8s.io/drain --honor=karpenter.sh/do-not-disrupt",
            "--rules-file=given",
        ] {
            let config = DrainConfig::from_published(flags).unwrap();
            let read = DrainConfig::from_published(&config.published()).unwrap();
            let facts = |c: &DrainConfig| {
                (
                    (c.timeout, c.max_timeout, c.deadline_margin, c.spot_deadline_margin),
                    (c.force_after, c.complete_delay, c.min_time, c.changes, c.gone_nodes),
                    (c.pod_order.clone(), c.drained_daemon_sets.clone(), c.honored.clone()),
                )
            };
            assert_eq!(facts(&read), facts(&config), "{flags}");
            for word in flags.split_whitespace() {
                assert!(
                    config.published().contains(word),
                    "{word} is not in {}",
                    config.published()
                );
            }
        }
    }

    #[test]
    fn a_leader_publishes_whether_it_sweeps_and_which_groups_are_its_own() {
        let of = |flags: &[&str], region: Option<&str>| {
            let queue = "--queue-url=https://sqs.eu-west-1.amazonaws.com/123456789012/sundown";
            let flags = [queue].into_iter().chain(flags.iter().copied()).map(str::to_owned);
            let config = RunArgs::from_flags(flags).unwrap().config(&|_| None).unwrap();
            let text = config.published(region);
            assert_eq!(
                DrainConfig::from_published(&text).map(|drain| drain.published()),
                Some(config.drain.published()),
                "the settings of drains are read as before: {text}"
            );
            PublishedService::read(&text)
        };
        let (on, off) = (PublishedSweep::On, PublishedSweep::Off);
        assert_eq!(
            of(&["--cluster-name=shop"], Some("eu-west-1")),
            PublishedService {
                sweep: on,
                cluster_name: Some("shop".to_owned()),
                region: Some("eu-west-1".to_owned())
            }
        );
        assert_eq!(
            of(&["--sweep-interval=0s"], None),
            PublishedService { sweep: off, ..PublishedService::default() }
        );
        let older = DrainConfig::from_published("").unwrap().published();
        for unknown in [older.as_str(), "", "--sweep-interval=often --cluster-name="] {
            assert_eq!(PublishedService::read(unknown), PublishedService::default(), "{unknown}");
        }
    }

    #[test]
    fn flags_of_a_newer_version_are_passed_over_and_a_bad_value_is_not_guessed() {
        let newer =
            DrainConfig::from_published("--drain-timeout=20m --from-the-future=1 stray").unwrap();
        assert_eq!(
            newer.published(),
            DrainConfig::from_published("--drain-timeout=20m").unwrap().published()
        );
        for bad in ["--drain-timeout=1s", "--force-after=sometimes"] {
            assert!(DrainConfig::from_published(bad).is_none(), "{bad}");
        }
    }
}

//! `sundown check`: asks AWS, Kubernetes and the network for everything that a run needs, and
//! changes nothing.
//!
//! Each probe answers yes, no or unknown. A failed probe does not stop the others. This file,
//! `ask_cluster` and `ask_groups` ask; the other files of this folder judge the answers.

mod ask_cluster;
mod ask_groups;
mod cluster;
mod finding;
mod groups;
mod hooks;
mod impaired;
mod lease;
mod network;
mod queue;
mod results;

use std::{collections::BTreeMap, process::ExitCode, sync::Arc};

use clap::{Args, ValueEnum};

use self::{
    ask_groups::AskGroups,
    finding::{Answer, Finding, Report},
};
use super::{paint::Paint, people::block_on, words::count};
use crate::{
    aws::{self, Advice, AwsError, ByteLimit, Clients, Hosts, Outcome, Proxy, Queue, Receipt},
    config::{Config, ConfigError, RunArgs},
    domain::{InstanceId, InstanceStatus, Kind, Response, seconds},
    observe::webhook::Secret,
    runtime::{Clock, Random},
};

/// An instance that does not exist. Asking for it shows whether the role may ask.
const NOBODY: &str = "i-00000000000000000";

/// The flags of `sundown check`: those of `sundown run`, and these.
#[derive(Debug, Clone, Args)]
pub(super) struct CheckArgs {
    #[command(flatten)]
    run: RunArgs,
    /// What is printed
    #[arg(short, long, value_enum, default_value_t = Output::Text, help_heading = "Checking")]
    output: Output,
    /// Also receive from each queue, once. The cost: a message that is there is not seen by the
    /// service for a moment, and counts one receive more towards the dead-letter queue
    #[arg(long, help_heading = "Checking")]
    receive: bool,
    /// The leader's `/readyz`, where it cannot be found by its Lease and its pod
    #[arg(long, value_name = "URL", help_heading = "Checking")]
    readyz: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    /// A line for each point, with a remedy under it.
    Text,
    /// All of it as JSON.
    Json,
}

/// Runs all checks. Exit code 0: no probe found that something necessary is missing; 1: one did; 2:
/// a setting is wrong.
pub(super) fn main(args: &CheckArgs) -> anyhow::Result<ExitCode> {
    let config = args.run.clone().config(&|name| std::env::var(name).ok())?;
    let report = block_on(check(args, config))?;
    let mut out = std::io::stdout().lock();
    match args.output {
        Output::Text => report.write_text(&mut out, Paint::of_stdout())?,
        Output::Json => report.write_json(&mut out)?,
    }
    Ok(if report.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn check(args: &CheckArgs, config: Config) -> anyhow::Result<Report> {
    let (hosts, proxy) = (Hosts::default(), Proxy::from_env());
    let options = aws::Options {
        region: config.aws.region.clone(),
        endpoint_url: config.aws.endpoint_url.clone(),
    };
    let base = aws::load_watched(&options, &hosts).await?;
    if base.region().is_none() {
        return Err(ConfigError::no_region().into());
    }
    let clients = Clients::from_config(&base, Clock::system(), Arc::new(()));
    let random = Random::from_entropy();
    let check = Check { args, config, clients, random, found: Vec::new(), rules: Vec::new() };
    Ok(Report::of(check.run(&hosts, &proxy).await))
}

/// A check in progress.
struct Check<'a> {
    args: &'a CheckArgs,
    config: Config,
    clients: Clients,
    random: Random,
    found: Vec<Finding>,
    /// The rules of the queues. They are judged after the groups, whose hooks need some of them.
    rules: Vec<queue::KnownRules>,
}

impl Check<'_> {
    async fn run(mut self, hosts: &Hosts, proxy: &Proxy) -> Vec<Finding> {
        let given = std::env::var("AWS_CONTAINER_CREDENTIALS_FULL_URI").ok();
        self.found.push(network::judge_proxy(proxy, given.as_deref()));
        let has_credentials = self.identity().await;
        if has_credentials {
            for url in self.config.queue.urls.clone() {
                let queue = self.clients.queue(&url.url);
                self.queue(&queue).await;
            }
            self.dead_letters().await;
            self.instances().await;
            self.scheduled_events().await;
            self.failing_checks().await;
        }
        let client = self.reach_cluster().await;
        if has_credentials {
            let ask = AskGroups::new(&self.config, &self.clients, &self.random);
            let answers = ask.all(client.as_ref()).await;
            self.found.extend(answers.found);
            let responses = &self.config.drain.responses;
            let launch_hook = &answers.launch_hook;
            let coverage = |known| queue::coverage(known, responses, launch_hook);
            self.found.extend(self.rules.iter().map(coverage));
        }
        self.cluster(client).await;
        for origin in hosts.all() {
            self.found.push(network::look_up(&origin, proxy).await);
        }
        self.sinks(proxy).await;
        let has_answered =
            self.found.iter().any(|f| f.point == "credentials" && f.answer == Answer::Yes);
        self.found.push(network::judge_clock(has_answered.then(|| self.clients.clock().skew())));
        self.found
    }

    /// Looks up the configured sinks. Nothing is sent to them, because it would reach people.
    async fn sinks(&mut self, proxy: &Proxy) {
        if let Some(webhook) = &self.config.webhook {
            let own = webhook.proxy.as_ref().map(Secret::expose);
            self.found
                .push(network::look_up_sink("the webhook", webhook.url.expose(), own, proxy).await);
        }
        if let Some(traces) = &self.config.service.traces {
            self.found.push(
                network::look_up_sink("the collector of traces", &traces.endpoint, None, proxy)
                    .await,
            );
        }
    }

    /// Whose the credentials are. `false`: AWS accepts none, so every other call of AWS would fail
    /// too.
    async fn identity(&mut self) -> bool {
        const POINT: &str = "credentials";
        let region = self.clients.region().unwrap_or_default().to_owned();
        let (finding, has_any) = match self.clients.identity().await {
            Ok(identity) => (
                Finding::yes(
                    POINT,
                    "",
                    format!("{} of account {}, region {region}", identity.arn, identity.account),
                ),
                true,
            ),
            Err(error) if is_without_credentials(&error) => {
                let finding = Finding::of_error(POINT, "", &error);
                let message = format!(
                    "{}; queues, instances, groups and hooks were not asked about",
                    finding.message
                );
                (Finding { message, ..finding }, false)
            }
            Err(error) => (Finding::of_error(POINT, "", &error), true),
        };
        self.found.push(finding);
        has_any
    }

    async fn queue(&mut self, queue: &Queue) {
        let name = queue.name().to_owned();
        let attributes = match queue.all_attributes().await {
            Ok(attributes) => attributes,
            Err(error) => {
                self.found.push(Finding::of_error("queue", &name, &error));
                // If the queue does not exist or cannot be reached, the other calls would show
                // nothing new.
                if is_away(&error) || error.advice() == Advice::Gone {
                    return;
                }
                BTreeMap::new()
            }
        };
        if !attributes.is_empty() {
            let count = |name: &str| attributes.get(name).cloned().unwrap_or_default();
            let messages = super::words::count(
                count("ApproximateNumberOfMessages").parse().unwrap_or(0),
                "message",
            );
            let message =
                format!("{messages}, {} in flight", count("ApproximateNumberOfMessagesNotVisible"));
            self.found.push(Finding::yes("queue", &name, message));
            self.found.extend(queue::judge(&name, &attributes));
            self.redrive(queue, &attributes).await;
        }
        let bogus = [Receipt::bogus()];
        let answer = queue.delete_batch(&bogus).await;
        self.found.push(queue::bogus("queue.delete", &name, "sqs:DeleteMessage", &answer));
        let answer =
            queue.change_visibility_batch(&bogus.map(|receipt| (receipt, seconds(0)))).await;
        self.found.push(queue::bogus(
            "queue.visibility",
            &name,
            "sqs:ChangeMessageVisibility",
            &answer,
        ));
        if self.args.receive {
            // A visibility timeout of 0 makes the messages visible again at once.
            let answer = queue.receive(1, seconds(0), seconds(0), &ByteLimit::default()).await;
            self.found.push(match answer {
                Ok(messages) => {
                    let message = format!(
                        "allowed ({} received and returned to the queue)",
                        count(messages.len(), "message")
                    );
                    Finding::yes("queue.receive", &name, message)
                }
                Err(error) => Finding::of_error("queue.receive", &name, &error),
            });
        }
        if !attributes.is_empty() {
            self.rules(&name, &attributes).await;
        }
    }

    async fn redrive(&mut self, queue: &Queue, attributes: &BTreeMap<String, String>) {
        let target = queue::dead_letters(attributes);
        let url = target.as_ref().and_then(|t| queue::url_beside(queue.url(), &t.arn));
        let dead = match url {
            Some(url) => Some(self.clients.queue(&url).all_attributes().await),
            None => None,
        };
        self.found.push(queue::redrive(
            queue.name(),
            attributes,
            target.as_ref(),
            dead.as_ref().map(Result::as_ref),
        ));
    }

    /// The queues of `--dlq-url`.
    async fn dead_letters(&mut self) {
        const POINT: &str = "dlq";
        for url in self.config.queue.dead.clone() {
            let queue = self.clients.queue(&url.url);
            self.found.push(match queue.attributes().await {
                Ok(attributes) => Finding::yes(
                    POINT,
                    queue.name(),
                    count(usize::try_from(attributes.visible).unwrap_or(usize::MAX), "message"),
                ),
                // Only advice: drains do not need it.
                Err(error) => Finding::of_error(POINT, queue.name(), &error).advice(),
            });
        }
    }

    /// The rules that the queue's policy names.
    async fn rules(&mut self, name: &str, attributes: &BTreeMap<String, String>) {
        let senders = queue::senders(attributes);
        let arn = attributes.get("QueueArn").cloned().unwrap_or_default();
        let (mut known, mut all_known) = (Vec::new(), !senders.rules.is_empty());
        for rule in &senders.rules {
            if rule.contains(['*', '?', '/']) {
                let message = format!(
                    "the queue's policy names its rules by the pattern {rule}, or on another bus"
                );
                self.found.push(
                    Finding::cannot_tell(
                        "rule",
                        rule,
                        message,
                        "name each rule in aws:SourceArn to have them looked at",
                    )
                    .advice(),
                );
                all_known = false;
                continue;
            }
            match self.clients.event_bridge().rule(rule).await {
                Ok(facts) => {
                    self.found.extend(queue::rule(&arn, &facts));
                    known.push(facts);
                }
                Err(error) => {
                    all_known = false;
                    self.found.push(Finding::of_look_up("rule", rule, &error));
                    if is_away(&error)
                        || matches!(error.outcome(), Outcome::Denied | Outcome::Credentials)
                    {
                        break;
                    }
                }
            }
        }
        if all_known {
            let queue = name.to_owned();
            self.rules.push(queue::KnownRules { queue, arn, rules: known });
        }
    }

    async fn instances(&mut self) {
        const POINT: &str = "instances";
        let Ok(nobody) = NOBODY.parse::<InstanceId>() else { return };
        self.found.push(match self.clients.ec2().describe_instances(&[nobody]).await {
            Ok(_) => Finding::yes(POINT, "", "EC2 may be asked about instances"),
            Err(error) => Finding::of_error(POINT, "", &error),
        });
    }

    async fn scheduled_events(&mut self) {
        const POINT: &str = "instances.events";
        let is_ignored = self.config.drain.responses.of(Kind::ScheduledChange) == Response::Ignore;
        if self.config.drain.scheduled_events.is_none() || is_ignored || self.config.dry_run {
            return;
        }
        let now = self.clients.ec2().instances_with_events().await;
        self.found.push(match now {
            Ok(all) => {
                let open = |status: &&InstanceStatus| status.events.iter().any(|e| !e.is_over());
                let count = all.iter().filter(open).count();
                let text = format!("EC2 has scheduled events for {count} instances of the account");
                Finding::yes(POINT, "", text)
            }
            Err(error) => Finding::of_error(POINT, "", &error).advice(),
        });
    }

    /// Whether failed status checks can be seen, if `--on impaired` asks for that.
    async fn failing_checks(&mut self) {
        if self.config.drain.impaired.is_none() {
            return;
        }
        let answer = self.clients.ec2().impaired_instances().await;
        let answer = answer.as_ref().map(Vec::len);
        self.found.push(impaired::judge_statuses(answer));
    }
}

/// The SDK found no credentials, or AWS does not know them.
fn is_without_credentials(error: &AwsError) -> bool {
    error.outcome() == Outcome::Credentials
}

/// AWS could not be reached, so the next call would fail too.
fn is_away(error: &AwsError) -> bool {
    matches!(error.outcome(), Outcome::Unreachable | Outcome::Timeout)
}

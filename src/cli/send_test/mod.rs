//! `sundown send-test`: sends one test event, through EventBridge or straight to the queue. The
//! service reports what it would do about it.

mod event;
mod witness;

use std::{process::ExitCode, time::Duration};

use anyhow::Context as _;
use clap::{Args, ValueEnum};

pub(super) use self::event::NoSuchEvent;
use self::{
    event::{About, ChangedState, Kind, Place, RETIREMENT, detail, parse_code, resources, whole},
    witness::EventWatch,
};
use super::people::{advised, block_on, connect, print_line, uuid};
use crate::{
    aws::{Clients, PutEvent},
    config::{AwsArgs, ConfigError, KubeArgs, QueueUrl, duration_text, parse_duration},
    domain::{GroupName, InstanceId, ReservationId, Transition},
    interruption::TEST_SOURCE,
    runtime::{Clock, Random},
};

/// The tag in which Auto Scaling names the group of an instance.
const GROUP_TAG: &str = "aws:autoscaling:groupName";
/// The account in the event if STS cannot be asked for the real one.
const NO_ACCOUNT: &str = "000000000000";

/// The flags of `sundown send-test`.
#[derive(Debug, Clone, Args)]
pub(super) struct SendTestArgs {
    /// The instance that it is about
    #[arg(value_name = "INSTANCE")]
    instance: InstanceId,
    /// Kind of the event
    #[arg(long, value_enum, default_value_t = Kind::Spot)]
    kind: Kind,
    /// Which way it goes: through EventBridge, whose rules must match the source `sundown.test`
    /// (`enable_test_events` in the Terraform module), or straight to the queue, whose policy must
    /// let you
    #[arg(long, value_enum, default_value_t = Way::Events)]
    to: Way,
    /// URL of the queue, with --to queue
    #[arg(long, env = "SUNDOWN_QUEUE_URL", value_name = "URL", value_delimiter = ',')]
    queue_url: Vec<QueueUrl>,
    /// The Auto Scaling group in the event; else that of the instance
    #[arg(long, value_name = "NAME")]
    group: Option<String>,
    /// The lifecycle hook in the event; else the group's hook of the right transition whose name
    /// starts with `sundown`, or its first hook of that transition
    #[arg(long, value_name = "NAME")]
    hook: Option<String>,
    /// Origin in the event, only for `terminate-hook`, `root-volume`, `launch-hook` and
    /// `launch-successful`; else the usual one of the kind
    #[arg(long, value_enum, value_name = "PLACE")]
    origin: Option<Place>,
    /// Destination in the event, for the same kinds; else the usual one of the kind. `--kind
    /// terminate-hook --destination WarmPool` is about an instance that goes into the warm pool
    #[arg(long, value_enum, value_name = "PLACE")]
    destination: Option<Place>,
    /// The state of the instance in a `state-change`: `stopping` without it
    #[arg(long, value_enum, value_name = "STATE")]
    state: Option<ChangedState>,
    /// The code of AWS Health (`eventTypeCode`) in a `scheduled-change`: without it,
    /// `AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED`
    #[arg(long, value_name = "CODE", value_parser = parse_code)]
    code: Option<String>,
    /// The Capacity Block of `--kind capacity-block`; else that of the instance. The test is about
    /// all instances of the block
    #[arg(long, value_name = "ID")]
    reservation: Option<ReservationId>,
    /// Ask the service to act on it. It does so only while it runs with --accept-real-tests;
    /// otherwise it only reports what it would do
    #[arg(long)]
    real: bool,
    /// Print the event and send nothing
    #[arg(long)]
    print: bool,
    /// Wait at most this long until the service reports the test in an Event of the node; exit code
    /// 3 if it has not by then. Needs the right to list Events in Kubernetes
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, conflicts_with = "print")]
    wait: Option<Duration>,
    #[command(flatten)]
    aws: AwsArgs,
    #[command(flatten)]
    kube: KubeArgs,
}

/// Exit code: the test was sent, and the service has not reported it within `--wait`.
const NOT_REPORTED: u8 = 3;
const NOT_SENT: &str = "nothing was sent";
/// Where the documentation has the IAM policy for people who send tests.
const POLICY: &str = "docs/commands.md, \"Who may send tests\", has the policy";

/// Which way an event goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Way {
    /// Through EventBridge and its rules.
    Events,
    /// Straight to the queue.
    Queue,
}

/// Sends the test. Exit code 0: sent, and reported if `--wait` is given; 1: not sent; 3: sent, but
/// not reported in time.
pub(super) fn main(args: &SendTestArgs) -> anyhow::Result<ExitCode> {
    block_on(send(args))
}

async fn send(args: &SendTestArgs) -> anyhow::Result<ExitCode> {
    let queue = args.queue_url.first();
    if args.to == Way::Queue && queue.is_none() && !args.print {
        return Err(ConfigError::no_queue().into());
    }
    let moved = args.kind.resolve_move(args.origin, args.destination)?;
    args.kind.check_state_and_code(args.state, args.code.as_deref())?;
    let clients = connect(&args.aws, queue.and_then(|q| q.region.as_deref())).await?;
    let watch = match args.wait {
        Some(most) => Some((EventWatch::begin(&args.kube, args.real).await?, most)),
        None => None,
    };
    let group = if args.kind.has_group() { Some(group(args, &clients).await?) } else { None };
    let hook = match (&group, args.kind.transition()) {
        (Some(group), Some(of)) => Some(hook(args, &clients, group, of).await?),
        _ => None,
    };
    let reservation =
        if args.kind.names_block() { Some(reservation(args, &clients).await?) } else { None };
    // The account is only a field of the event. The test can be sent without it.
    let account = clients.identity().await.map_or_else(|_| NO_ACCOUNT.to_owned(), |i| i.account);
    let random = Random::from_entropy();
    let (token, id) = (uuid(&random), uuid(&random));
    let about = About {
        kind: args.kind,
        instance: &args.instance,
        group: group.as_deref(),
        hook: hook.as_deref(),
        moved,
        reservation: reservation.as_ref(),
        state: args.state.unwrap_or_default(),
        code: args.code.as_deref().unwrap_or(RETIREMENT),
        region: clients.region().unwrap_or_default(),
        account: &account,
        now: Clock::system().now(),
        token: &token,
        real: args.real,
    };
    if args.print {
        print_line(&serde_json::to_string_pretty(&whole(&about, &id))?);
        return Ok(ExitCode::SUCCESS);
    }
    let id = if let (Way::Queue, Some(queue)) = (args.to, queue) {
        let sent = clients.queue(&queue.url).send(&whole(&about, &id).to_string()).await;
        sent.map_err(|error| advised(error, "the queue's policy must list you among its senders"))
            .context(NOT_SENT)?;
        print_line(&format!("Test event {id} is on queue {}.", queue.name));
        id
    } else {
        let (detail, resources) = (detail(&about), resources(&about));
        let event = PutEvent {
            source: TEST_SOURCE,
            detail_type: args.kind.detail_type(),
            detail: &detail,
            resources: &resources,
        };
        let sent = clients.event_bridge().put_event(&event).await;
        let id = sent.map_err(|error| advised(error, POLICY)).context(NOT_SENT)?;
        print_line(&format!(
            "Test event {id} is on the default bus. It comes only through rules that match the \
             source {TEST_SOURCE}."
        ));
        id
    };
    if let Some((watch, most)) = watch {
        return Ok(print_outcome(watch.wait(&id, &args.instance, most).await, most));
    }
    print_line(&format!(
        "Within seconds the leader reports what it would do: in its log (`Test event`), and in an \
         Event of the node: kubectl get events -A --field-selector reason=TestReceived ({})",
        args.instance
    ));
    Ok(ExitCode::SUCCESS)
}

/// Prints the result of the wait, and returns the exit code.
fn print_outcome(reported: Result<Option<String>, String>, most: Duration) -> ExitCode {
    let text = match reported {
        Ok(Some(message)) => {
            print_line(&format!("Sundown reports: {message}"));
            return ExitCode::SUCCESS;
        }
        Ok(None) => "no Event reports it".to_owned(),
        Err(why) => format!("Events cannot be listed ({why})"),
    };
    print_line(&format!(
        "It was sent, and after {} {text}. See whether a replica leads (kubectl get lease), \
         whether rules bring it (`sundown check`, points `rule`), and what the leader logs (`Test \
         event`): a test of an instance without a Node is reported only there.",
        duration_text(most)
    ));
    ExitCode::from(NOT_REPORTED)
}

/// The hook in the flags. Else, of the group's hooks with this transition, the first whose name
/// starts with `sundown`, or the first.
async fn hook(
    args: &SendTestArgs,
    clients: &Clients,
    group: &str,
    transition: Transition,
) -> anyhow::Result<String> {
    if let Some(hook) = &args.hook {
        return Ok(hook.clone());
    }
    let hooks = clients.autoscaling().hooks(&GroupName::from(group)).await;
    let hooks = hooks
        .map_err(|error| advised(error, POLICY))
        .context("its hooks cannot be asked for: name one with --hook")?;
    let of_kind: Vec<_> = hooks
        .into_iter()
        .filter(|h| h.transition == transition)
        .map(|h| h.hook.to_string())
        .collect();
    let ours = of_kind.iter().find(|name| name.starts_with("sundown")).or_else(|| of_kind.first());
    ours.cloned().with_context(|| {
        format!(
            "group {group} has no {} hook: name one with --hook, or make it with `sundown enroll`",
            transition.word()
        )
    })
}

/// The Capacity Block in the flags, or else that of the instance.
async fn reservation(args: &SendTestArgs, clients: &Clients) -> anyhow::Result<ReservationId> {
    if let Some(reservation) = &args.reservation {
        return Ok(reservation.clone());
    }
    let name_it = "name its Capacity Block with --reservation";
    let found = clients.ec2().reservation_of(&args.instance).await;
    let found = found.map_err(|error| advised(error, POLICY)).context(name_it)?;
    found.with_context(|| format!("{} runs in no Capacity Block; {name_it}", args.instance))
}

/// The Auto Scaling group in the flags, or else that of the instance.
async fn group(args: &SendTestArgs, clients: &Clients) -> anyhow::Result<String> {
    if let Some(group) = &args.group {
        return Ok(group.clone());
    }
    let name_it = "name its group with --group";
    let found = clients.ec2().describe_instances(std::slice::from_ref(&args.instance)).await;
    let found = found.map_err(|error| advised(error, POLICY)).context(name_it)?;
    let facts = found.into_iter().next().with_context(|| {
        format!("there is no instance {} in the region; {name_it}", args.instance)
    })?;
    facts
        .tags
        .get(GROUP_TAG)
        .cloned()
        .with_context(|| format!("{} is in no Auto Scaling group; {name_it}", args.instance))
}

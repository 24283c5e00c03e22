//! `sundown run`: the service, against AWS and a Kubernetes API server.

use std::{io::Write as _, path::PathBuf, process::ExitCode, sync::Arc, time::Duration};

use anyhow::Context as _;
use clap::ArgMatches;
use futures::future::OptionFuture;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::{
    aws, cluster,
    config::{
        Config, ConfigError, RunArgs, ServiceConfig, WithoutEffect, print_config,
        unknown_variables, without_effect,
    },
    controller::{self, Board, Parts, Sinks, TrialLog},
    domain::seconds,
    observe::{
        Endpoints, Loops, Metrics, Readiness, logs, traces,
        webhook::{Notifier, NotifierParts},
    },
    runtime::{Clock, Random, Spawner},
};

/// The most ended drains that are remembered.
const DRAINS_KEPT: usize = 100;
/// How long notifications and traces may take after everything else has ended.
const FLUSH_LIMIT: Duration = seconds(2);

pub(super) fn main(args: &RunArgs, matches: Option<&ArgMatches>) -> anyhow::Result<ExitCode> {
    let print = args.print_config;
    let environment = |name: &str| std::env::var(name).ok();
    let config = args.clone().config(&environment)?;
    let unknown =
        unknown_variables(std::env::vars_os().filter_map(|(name, _)| name.into_string().ok()));
    if let (true, Some(matches)) = (print, matches) {
        let mut out = std::io::stdout().lock();
        write!(out, "{}", print_config(matches, args, &environment))?;
        for variable in unknown {
            writeln!(out, "# {variable}: no such setting, ignored")?;
        }
        for WithoutEffect { flag, why } in without_effect(&config) {
            writeln!(out, "# {flag} has no effect: {why}")?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    logs::init(&config.service.log_level, config.service.log_format)?;
    for variable in unknown {
        warn!(
            variable,
            "No setting has this variable: it is ignored. `sundown run --print-config` lists \
             those that there are."
        );
    }
    for WithoutEffect { flag, why } in without_effect(&config) {
        warn!(flag, why, "A flag has no effect in this configuration.");
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    runtime.block_on(serve(Arc::new(config)))?;
    // Tasks that still run now have nothing left to report.
    runtime.shutdown_timeout(Duration::from_millis(200));
    Ok(ExitCode::SUCCESS)
}

async fn serve(config: Arc<Config>) -> anyhow::Result<()> {
    let (clock, random, spawner) = (Clock::system(), Random::from_entropy(), Spawner::new());
    let shutdown = CancellationToken::new();
    on_signals(shutdown.clone(), &spawner)?;
    let region = config.aws.region.clone();
    let aws =
        aws::load(&aws::Options { region, endpoint_url: config.aws.endpoint_url.clone() }).await?;
    if aws.region().is_none() {
        // Without a region no call can be signed. One error now is better than one with every call.
        return Err(ConfigError::no_region().into());
    }
    let options = cluster::ConnectOptions {
        kubeconfig: config.kube.kubeconfig.clone(),
        context: config.kube.context.clone(),
    };
    let kube = cluster::connect(&options).await.context("no Kubernetes cluster is configured")?;
    let metrics = Arc::new(Metrics::new(&controller::label_values()));
    if config.trial.is_some() {
        controller::check_trial_queues(&config.queue, &aws, clock, Arc::new(())).await?;
    }
    let sinks = sinks(&config, &random, &spawner, &metrics)?;
    let (notifier, tracer) = (sinks.notifier.clone(), sinks.tracer.clone());
    // The listener starts before the service. `/readyz` fails until every part of the service has
    // reported.
    let (loops, readiness) = (Loops::new(clock), Readiness::awaiting(&controller::AWAITED));
    let endpoints = Endpoints {
        metrics: Arc::clone(&metrics),
        loops: loops.clone(),
        readiness: readiness.clone(),
    };
    serve_endpoints(&endpoints, &config.service, &spawner).await?;
    let parts = Parts {
        config,
        kube,
        aws,
        clock,
        random,
        spawner: spawner.clone(),
        metrics,
        loops,
        readiness,
        board: Board::of_the_last(DRAINS_KEPT),
        sinks,
        shutdown,
    };
    controller::serve(parts).await;
    let notices: OptionFuture<_> =
        notifier.as_ref().map(|notifier| notifier.flush(FLUSH_LIMIT)).into();
    let traces: OptionFuture<_> = tracer.map(end_traces).into();
    futures::join!(notices, traces);
    info!("Stopped.");
    tokio::time::timeout(seconds(1), spawner.finished(Duration::from_millis(200))).await.ok();
    Ok(())
}

/// Sends the traces that are queued.
async fn end_traces(tracer: Arc<dyn traces::TraceSink>) {
    // The thread gets less time than it is waited for, so that it can log what it could not send.
    let limit = FLUSH_LIMIT.saturating_sub(Duration::from_millis(200));
    let ended = tokio::task::spawn_blocking(move || tracer.shutdown(limit));
    tokio::time::timeout(FLUSH_LIMIT, ended).await.ok();
}

async fn serve_endpoints(
    endpoints: &Endpoints,
    config: &ServiceConfig,
    spawner: &Spawner,
) -> anyhow::Result<()> {
    let taken = |address, pages, flag| {
        format!(
            "cannot listen on {address} for {pages}; choose another address with {flag}, or \
             switch it off with `{flag} off`"
        )
    };
    let until = CancellationToken::new();
    if let Some(address) = config.probes {
        let bound = endpoints.serve_probes(address, spawner, until.clone()).await;
        let bound =
            bound.with_context(|| taken(address, "/livez and /readyz", "--probe-listen"))?;
        info!(address = %bound, "Serving /livez and /readyz.");
    }
    if let Some(address) = config.metrics {
        let bound = endpoints.serve_metrics(address, spawner, until).await;
        let bound = bound.with_context(|| taken(address, "/metrics", "--metrics-listen"))?;
        info!(address = %bound, "Serving /metrics.");
    }
    Ok(())
}

/// Opens the log of a trial, and sets up the notifier and the tracer.
fn sinks(
    config: &Config,
    random: &Random,
    spawner: &Spawner,
    metrics: &Arc<Metrics>,
) -> anyhow::Result<Sinks> {
    let open = |path: &PathBuf| {
        let context = || {
            format!(
                "cannot write the trial's log to {}; give a file that can be written with \
                 --trial-log, or - for standard output",
                path.display()
            )
        };
        TrialLog::open(path).with_context(context)
    };
    let trial = config.trial.as_ref().map(open).transpose()?;
    // A dry run drains nothing, so it has nothing to notify of.
    let settings = config.webhook.clone().filter(|_| !config.dry_run);
    let start = |settings| {
        Notifier::start(NotifierParts {
            settings,
            cluster: config.ours.cluster_name.clone(),
            transport: None,
            random: random.clone(),
            spawner: spawner.clone(),
            metrics: Arc::clone(metrics),
        })
    };
    Ok(Sinks {
        trial,
        notifier: settings.map(start).transpose()?,
        tracer: tracer(config, random, metrics)?,
    })
}

#[cfg(feature = "otlp")]
fn tracer(
    config: &Config,
    random: &Random,
    metrics: &Arc<Metrics>,
) -> anyhow::Result<Option<Arc<dyn traces::TraceSink>>> {
    let Some(settings) = config.service.traces.clone().filter(|_| !config.dry_run) else {
        return Ok(None);
    };
    let pod = config.election.pod.as_ref().map(|pod| pod.name.clone());
    let parts = traces::ExporterParts {
        settings,
        cluster: config.ours.cluster_name.clone(),
        instance: pod.unwrap_or_else(|| format!("{:012x}", random.below(1 << 48))),
        metrics: Arc::clone(metrics),
    };
    Ok(Some(Arc::new(traces::start(parts)?)))
}

/// A build without `otlp` refuses a configuration with traces, so there is no tracer.
#[cfg(not(feature = "otlp"))]
#[allow(clippy::unnecessary_wraps, reason = "as the other")]
fn tracer(
    _: &Config,
    _: &Random,
    _: &Arc<Metrics>,
) -> anyhow::Result<Option<Arc<dyn traces::TraceSink>>> {
    Ok(None)
}

/// The first SIGTERM or SIGINT shuts the service down gracefully, a second one ends the process at
/// once.
fn on_signals(shutdown: CancellationToken, spawner: &Spawner) -> anyhow::Result<()> {
    let mut term = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    let mut int = signal(SignalKind::interrupt()).context("cannot listen for SIGINT")?;
    // The task lives as long as the process.
    drop(spawner.spawn(async move {
        for turn in 0.. {
            tokio::select! {
                biased;
                _ = term.recv() => {}
                _ = int.recv() => {}
            }
            if turn > 0 {
                warn!("A second signal: exiting at once.");
                std::process::exit(130);
            }
            shutdown.cancel();
        }
    }));
    Ok(())
}

//! The bare client: makes the requests that the service makes, as many at once, and decides
//! nothing. What it takes is the baseline of a figure.
//!
//! It is a process of its own (`figures bare`) with a runtime like the service's, so that it shares
//! neither threads nor connections with the embedded servers. The job comes as one line of JSON on
//! standard input; the client opens its connections, prints `ready`, waits for another line, and
//! prints what it took.

mod budgets;
mod messages;
mod requests;

use std::{
    fmt::Debug,
    io::{BufRead, BufReader, Write},
    path::PathBuf,
    process::{Child, ChildStdin, ChildStdout, ExitCode, Stdio},
    time::Instant,
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{process::bound, stage::block_on, system::cpu_seconds};
pub use budgets::{Answer, Budgets, frees, workload_of};
pub use messages::Messages;
pub use requests::{Pages, Plain, Requests, Successor};

/// Node PATCHes that the service has under way at once: three quarters of its 64 requests to the
/// API server.
pub const PATCHES: usize = 48;
/// Evictions that the service has under way at once (`--max-evictions`).
pub const EVICTIONS: usize = 32;
/// Receives that the service has under way at once, and as many deletes.
pub const RECEIVES: usize = 16;

/// What the client is to do.
#[derive(Debug, Serialize, Deserialize)]
pub enum Job {
    Requests(Requests),
    Pages(Pages),
    Successor(Successor),
    Messages(Messages),
    Budgets(Budgets),
}

/// What a job took.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Took {
    pub seconds: f64,
    /// Seconds of CPU, of all threads.
    pub cpu: f64,
}

/// The process as the benchmark sees it; dropped, it is killed.
pub struct Bare {
    child: Child,
    input: ChildStdin,
    output: Option<BufReader<ChildStdout>>,
}

impl Bare {
    /// Starts the client and waits until its connections are open.
    pub async fn start(job: Job) -> Self {
        let this = std::env::current_exe().unwrap();
        let mut command = bound(&this);
        let mut child =
            command.arg("bare").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (mut input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let job = serde_json::to_string(&job).unwrap();
        // Written beside the reading: a long job does not fit into the pipe.
        let input = tokio::task::spawn_blocking(move || {
            writeln!(input, "{job}").unwrap();
            input
        });
        let mut bare =
            Self { input: input.await.unwrap(), child, output: Some(BufReader::new(output)) };
        assert_eq!(bare.line().await.trim(), "ready");
        bare
    }

    /// Lets the client begin; its job goes on until the client is dropped.
    pub fn begin(&mut self) {
        writeln!(self.input, "go").unwrap();
    }

    /// Lets the client do its job.
    pub async fn run(mut self) -> Took {
        self.begin();
        parsed(&self.line().await)
    }

    async fn line(&mut self) -> String {
        let mut output = self.output.take().unwrap();
        let (output, line) = tokio::task::spawn_blocking(move || {
            let mut line = String::new();
            output.read_line(&mut line).unwrap();
            (output, line)
        })
        .await
        .unwrap();
        self.output = Some(output);
        assert!(!line.is_empty(), "the bare client has ended: {:?}", self.child.wait());
        line
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn parsed<T: DeserializeOwned + Debug>(line: &str) -> T {
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
}

/// The process itself.
pub fn main() -> ExitCode {
    let mut lines = std::io::stdin().lines();
    let mut line = || lines.next().expect("the benchmark has ended").unwrap();
    let job: Job = parsed(&line());
    block_on(async move {
        let work = job.prepare().await;
        println!("ready");
        line();
        let (begun, cpu) = (Instant::now(), cpu_seconds(std::process::id()));
        // On a thread of the runtime, as the service's tasks are.
        tokio::spawn(work).await.unwrap();
        let took = Took {
            seconds: begun.elapsed().as_secs_f64(),
            cpu: cpu_seconds(std::process::id()) - cpu,
        };
        println!("{}", serde_json::to_string(&took).unwrap());
    });
    ExitCode::SUCCESS
}

/// What is left to do when all connections are open.
type Work = futures::future::BoxFuture<'static, ()>;

impl Job {
    async fn prepare(self) -> Work {
        match self {
            Self::Requests(job) => job.prepare().await,
            Self::Pages(job) => job.prepare().await,
            Self::Successor(job) => job.prepare().await,
            Self::Messages(job) => job.prepare().await,
            Self::Budgets(job) => job.prepare().await,
        }
    }
}

/// A client of whoever this kubeconfig names, that does nothing by itself.
async fn client(kubeconfig: &PathBuf) -> kube::Client {
    let file = kube::config::Kubeconfig::read_from(kubeconfig).unwrap();
    let mut config =
        kube::Config::from_custom_kubeconfig(file, &kube::config::KubeConfigOptions::default())
            .await
            .unwrap();
    config.default_retry = false;
    kube::Client::try_from(config).unwrap()
}

//! A process of the binary that dies with the test.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{
        Once,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// How long anything may take that is not measured itself. On an idle machine all of it is a matter
/// of seconds, or of a minute.
pub const LIMIT: Duration = Duration::from_mins(4);

/// Where the built binary is: `SUNDOWN_BINARY` (tests/run sets it to the released one), else
/// where cargo built it for tests, else beside the benchmark.
pub fn binary() -> PathBuf {
    if let Some(path) = std::env::var_os("SUNDOWN_BINARY") {
        return path.into();
    }
    let beside = || std::env::current_exe().unwrap().with_file_name("sundown");
    option_env!("CARGO_BIN_EXE_sundown").map_or_else(beside, PathBuf::from)
}

/// A command that is killed when this process ends, however that comes about; where util-linux is
/// there.
pub fn bound(program: &Path) -> Command {
    let setpriv = Path::new("/usr/bin/setpriv");
    if !setpriv.exists() {
        return Command::new(program);
    }
    let mut command = Command::new(setpriv);
    command.args(["--pdeathsig", "KILL"]).arg(program);
    command
}

/// The binary with nothing of this environment but where to find programs, and with what the image
/// sets.
pub fn sundown(folder: &Path) -> Command {
    let mut command = bound(&binary());
    command
        .env_clear()
        .env("MALLOC_MMAP_THRESHOLD_", "131072")
        .env("HOME", folder)
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .stdin(Stdio::null());
    command
}

/// A folder that goes with the test.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        static SWEEP: Once = Once::new();
        let name =
            format!("sundown-test-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        SWEEP.call_once(sweep);
        let path = std::env::temp_dir().join(name);
        // Of a process that had our number and was killed.
        drop(fs::remove_dir_all(&path));
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

/// Removes the folders of processes that were killed: a cluster's takes a hundred megabytes.
fn sweep() {
    for entry in fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let process = name
            .strip_prefix("sundown-test-")
            .and_then(|rest| rest.split_once('-'))
            .map(|(process, _)| process);
        if process.is_some_and(|p| {
            Path::new("/proc/self").exists() && !Path::new("/proc").join(p).exists()
        }) {
            drop(fs::remove_dir_all(entry.path()));
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

/// What a command printed, and its exit code.
pub struct CommandOutput {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

/// Runs a command that is to end by itself.
pub async fn run(folder: &Path, command: &mut Command) -> CommandOutput {
    let mut process = Process::start("command", folder, command);
    let status = process.ended().await;
    CommandOutput {
        code: status.code(),
        out: fs::read_to_string(&process.out).unwrap(),
        err: process.log(),
    }
}

/// A process; dropped, it is killed.
pub struct Process {
    child: Child,
    name: String,
    out: PathBuf,
    err: PathBuf,
}

impl Process {
    /// Starts it; what it prints goes to files in `folder`.
    pub fn start(name: &str, folder: &Path, command: &mut Command) -> Self {
        let (out, err) = (folder.join(format!("{name}.out")), folder.join(format!("{name}.err")));
        let spawned =
            command.stdout(File::create(&out).unwrap()).stderr(File::create(&err).unwrap()).spawn();
        let child = spawned
            .unwrap_or_else(|error| panic!("{name} cannot be started ({command:?}): {error}"));
        Self { child, name: name.to_owned(), out, err }
    }

    /// Its process id.
    #[allow(dead_code, reason = "what only benchmarks need of it")]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// What it has logged so far.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.err).unwrap_or_default()).into_owned()
    }

    /// What it has printed so far.
    #[allow(dead_code, reason = "what only some tests need of it")]
    pub fn printed(&self) -> String {
        fs::read_to_string(&self.out).unwrap()
    }

    /// The end of what it has logged, and how it has ended if it has.
    pub fn last_lines(&mut self) -> String {
        let log = self.log() + &fs::read_to_string(&self.out).unwrap_or_default();
        let lines: Vec<_> = log.lines().collect();
        let ended = self
            .child
            .try_wait()
            .ok()
            .flatten()
            .map(|status| format!("\n({} ended: {status})", self.name))
            .unwrap_or_default();
        lines[lines.len().saturating_sub(40)..].join("\n") + &ended
    }

    /// Log lines with this text in them.
    pub fn lines(&self, text: &str) -> Vec<String> {
        self.log().lines().filter(|line| line.contains(text)).map(str::to_owned).collect()
    }

    /// Waits until it has logged this.
    pub async fn logged(&mut self, text: &str) -> String {
        let end = Instant::now() + LIMIT;
        loop {
            if let Some(line) = self.lines(text).pop() {
                return line;
            }
            assert!(self.is_alive(), "{} has ended before it logged «{text}»", self.name);
            assert!(Instant::now() < end, "{} has not logged «{text}»", self.name);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    pub fn is_alive(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Waits for its end.
    pub async fn ended(&mut self) -> ExitStatus {
        let end = Instant::now() + LIMIT;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < end, "{} does not end", self.name);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Sends it a signal: `TERM`, `INT`, `KILL`.
    pub fn signal(&self, name: &str) {
        // The shell's own `kill`: the standard library only knows SIGKILL.
        let sent = Command::new("sh")
            .args(["-c", &format!("kill -{name} {}", self.child.id())])
            .status()
            .unwrap();
        assert!(sent.success(), "SIG{name} cannot be sent to {}", self.name);
    }

    /// The address that serves this path, from its log.
    pub async fn address_of(&mut self, path: &str) -> String {
        let serves = if path.starts_with("/metrics") {
            "Serving /metrics."
        } else {
            "Serving /livez and /readyz."
        };
        let line = self.logged(serves).await;
        let line: serde_json::Value = serde_json::from_str(&line).unwrap();
        line["address"].as_str().unwrap().to_owned()
    }

    /// Asks one of its HTTP endpoints: status and text.
    pub async fn get(&mut self, path: &str) -> (u16, String) {
        let address = self.address_of(path).await;
        let end = Instant::now() + LIMIT;
        loop {
            // On a machine without a moment to spare the listener takes a request that comes in
            // slowly for one that never comes, and hangs up.
            match get(&address, path).await {
                Ok(answer) => return answer,
                Err(error) => assert!(
                    self.is_alive() && Instant::now() < end,
                    "{} does not answer on {address}: {error}",
                    self.name
                ),
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Waits until an answer of an HTTP endpoint is as it should be, and returns its text.
    pub async fn answers(
        &mut self,
        path: &str,
        what: &str,
        holds: impl Fn(u16, &str) -> bool,
    ) -> String {
        let end = Instant::now() + LIMIT;
        loop {
            let (status, text) = self.get(path).await;
            if holds(status, &text) {
                return text;
            }
            assert!(
                Instant::now() < end,
                "{} never reports on {path} that {what}; last: {status}\n{text}",
                self.name
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Waits until it is ready to work.
    pub async fn ready(&mut self) {
        self.answers("/readyz", "it is ready", |status, _| status == 200).await;
    }

    /// A metric's value: its name without `sundown_`, labels as OpenMetrics writes them.
    pub async fn metric(&mut self, name: &str) -> f64 {
        let (_, text) = self.get("/metrics").await;
        value(&text, name).unwrap_or_else(|| panic!("no metric {name} in\n{text}"))
    }

    /// Waits until a metric has this value at least.
    pub async fn counts(&mut self, name: &str, least: f64) {
        self.answers("/metrics", &format!("{name} is {least}"), |_, text| {
            value(text, name).is_some_and(|v| v >= least)
        })
        .await;
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
        if std::thread::panicking() {
            let lines = self.last_lines();
            eprintln!("--- the last that {} logged:\n{lines}", self.name);
        }
    }
}

fn value(text: &str, name: &str) -> Option<f64> {
    let start = format!("sundown_{name} ");
    text.lines().find_map(|line| line.strip_prefix(&start)?.parse().ok())
}

async fn get(address: &str, path: &str) -> io::Result<(u16, String)> {
    let mut stream = TcpStream::connect(address).await?;
    stream
        .write_all(
            format!("GET {path} HTTP/1.1\r\nhost: sundown\r\nconnection: close\r\n\r\n").as_bytes(),
        )
        .await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
    let status = head
        .split(' ')
        .nth(1)
        .and_then(|code| code.parse().ok())
        .ok_or_else(|| io::Error::other(answer.clone()))?;
    Ok((status, body.to_owned()))
}

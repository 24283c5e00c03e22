//! A Kubernetes control plane of its own for one test: etcd, API server, controllers and scheduler
//! as they are released, and kwok for nodes.
//!
//! Everything lies in a folder of its own on ports of its own, so that several stand side by side,
//! and goes with the value, also in a panic.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    net::TcpListener,
    path::{Path, PathBuf},
    process::Command,
    sync::Mutex,
    time::{Duration, Instant},
};

use tokio::sync::{Semaphore, SemaphorePermit};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, SanType};
use serde_json::{Value, json};

use crate::process::{Folder, Process, bound};

/// How long it may take from nothing to ready. Three seconds are usual.
const LIMIT: Duration = Duration::from_mins(4);
/// Started on these ports, somebody else may have had them by then.
const TRIES: usize = 3;

/// Who may do what: the first is of `system:masters`, Sundown has what
/// `deploy/manifests/base/rbac.yaml` gives its service account.
pub const ADMIN: &str = "admin-token";
pub const SUNDOWN: &str = "sundown-token";
/// How many tokens there are by which the audit log tells replicas apart.
const REPLICAS: usize = 5;

/// The same user as [`SUNDOWN`] with a uid of its own in the audit log: `sundown-N`.
pub fn replica_token(n: usize) -> String {
    assert!(n < REPLICAS, "there are tokens for {REPLICAS} replicas");
    format!("{SUNDOWN}-{n}")
}

/// A running control plane.
pub struct Cluster {
    /// They go before the folder that they write to.
    processes: BTreeMap<&'static str, Process>,
    pub folder: Folder,
    tools: PathBuf,
    port: u16,
    etcd: [u16; 2],
    ca: Vec<u8>,
    /// Flags of the API server and the controller manager beyond those that every test needs.
    flags: [Vec<String>; 2],
    /// Goes last.
    place: Option<SemaphorePermit<'static>>,
}

/// Why it does not come up.
enum Down {
    /// One of its programs has ended: somebody else may have had its port.
    Ended(String),
    /// It takes too long.
    Late(String),
}
use Down::{Ended, Late};

/// Flags of a cluster beyond those that every test needs.
#[derive(Default)]
pub struct Flags<'a> {
    pub api_server: &'a [&'a str],
    pub controllers: &'a [&'a str],
}

/// The folder of the programs that `tests/control-plane/build` prints. `None`: they are not built.
pub fn tools() -> Option<PathBuf> {
    let setting = std::env::var_os("SUNDOWN_CONTROL_PLANE")?;
    assert!(
        setting != "required",
        "SUNDOWN_CONTROL_PLANE=required: run tests/control-plane/build and give the folder that \
         it prints"
    );
    let folder = PathBuf::from(setting);
    assert!(
        folder.join("complete").exists(),
        "SUNDOWN_CONTROL_PLANE={} holds no control plane: run tests/control-plane/build",
        folder.display()
    );
    for program in [
        "etcd",
        "kube-apiserver",
        "kube-controller-manager",
        "kube-scheduler",
        "kwok",
        "kubectl",
        "helm",
        "helm4",
    ] {
        let there = folder.join(program).exists();
        assert!(
            there,
            "{program} is missing in {}: remove that folder and run tests/control-plane/build",
            folder.display()
        );
    }
    Some(folder)
}

/// As many clusters at once: each has six processes and up to 1 GB, or 1.6 GB as tests/run has them
/// (two hundred drains).
static PLACES: Semaphore = Semaphore::const_new(3);

/// A port that nobody has, and that was given to nobody here before: who got one may not listen on
/// it yet.
fn free_port() -> u16 {
    static GIVEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());
    loop {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        if GIVEN.lock().unwrap().insert(port) {
            return port;
        }
    }
}

impl Cluster {
    /// Starts one and waits until it is ready.
    pub async fn start(tools: PathBuf, flags: &Flags<'_>) -> Self {
        let place = PLACES.acquire().await.unwrap();
        let mut cluster = Self::started(tools, flags).await;
        cluster.place = Some(place);
        cluster
    }

    async fn started(tools: PathBuf, flags: &Flags<'_>) -> Self {
        for left in (0..TRIES).rev() {
            let folder = Folder::new();
            let ca = certificates(folder.path());
            let etcd = [free_port(), free_port()];
            let flags = [flags.api_server, flags.controllers]
                .map(|of| of.iter().map(|&flag| flag.to_owned()).collect());
            let mut cluster = Self {
                processes: BTreeMap::new(),
                folder,
                tools: tools.clone(),
                port: free_port(),
                etcd,
                ca,
                flags,
                place: None,
            };
            cluster.write_settings();
            cluster.start_etcd();
            cluster.start_api_server();
            let mut up = cluster.ready().await;
            if up.is_ok() {
                up = cluster.start_the_rest().await;
            }
            match up {
                Ok(()) => return cluster,
                // Time that is over is not a port that was taken.
                Err(Late(why)) => {
                    panic!("the control plane of {} does not come up: {why}", tools.display())
                }
                Err(Ended(why)) if left == 0 => {
                    panic!("the control plane of {} does not come up: {why}", tools.display())
                }
                Err(Ended(why)) => eprintln!(
                    "the control plane does not come up, trying again on other ports: {why}"
                ),
            }
        }
        unreachable!("the last try panics");
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The process id of one of its programs.
    #[allow(dead_code, reason = "what only benchmarks need of it")]
    pub fn process(&self, name: &str) -> u32 {
        self.processes[name].id()
    }

    /// Where its programs are, `kubectl` among them.
    pub fn tools(&self) -> &Path {
        &self.tools
    }

    /// The URL of the API server.
    pub fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.port)
    }

    /// The kubeconfig of whoever has this token.
    pub fn kubeconfig(&self, token: &str) -> PathBuf {
        self.path(&format!("{token}.kubeconfig"))
    }

    /// A client with this token that does nothing by itself.
    pub fn client(&self, token: &str) -> kube::Client {
        let mut config = kube::Config::new(self.url().parse().unwrap());
        config.root_cert = Some(vec![self.ca.clone()]);
        config.auth_info.token = Some(token.to_owned().into());
        config.default_retry = false;
        kube::Client::try_from(config).unwrap()
    }

    fn write_settings(&self) {
        let replicas = (0..REPLICAS).map(|n| (replica_token(n), format!("sundown-{n}")));
        let accounts: Vec<_> =
            [(SUNDOWN.to_owned(), "sundown".to_owned())].into_iter().chain(replicas).collect();
        let groups = "\"system:serviceaccounts,system:serviceaccounts:sundown\"";
        let line = |(token, uid): &(String, String)| {
            format!("{token},system:serviceaccount:sundown:sundown,{uid},{groups}\n")
        };
        let tokens = format!("{ADMIN},admin,admin,\"system:masters\"\n")
            + &accounts.iter().map(line).collect::<String>();
        fs::write(self.path("tokens.csv"), tokens).unwrap();
        for token in [ADMIN].into_iter().chain(accounts.iter().map(|(token, _)| token.as_str())) {
            let config = json!({
                "apiVersion": "v1", "kind": "Config", "current-context": "test",
                "clusters": [{
                    "name": "test",
                    "cluster": {
                        "server": self.url(), "certificate-authority": self.path("ca.pem")
                    }
                }],
                "users": [{ "name": "user", "user": { "token": token } }],
                "contexts": [{ "name": "test", "context": { "cluster": "test", "user": "user" } }],
            });
            fs::write(self.kubeconfig(token), config.to_string()).unwrap();
        }
        // Every call with its verb and its answer; with bodies only what the disruption controller
        // says, and Leases, whose holder is to be known.
        let budgets = json!({
            "level": "RequestResponse",
            "resources": [{ "group": "policy", "resources": ["poddisruptionbudgets/status"] }]
        });
        let leases = json!({
            "level": "Request", "namespaces": ["sundown"],
            "resources": [{ "group": "coordination.k8s.io", "resources": ["leases"] }]
        });
        let policy = json!({
            "apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"],
            "rules": [budgets, leases, { "level": "Metadata" }],
        });
        fs::write(self.path("audit-policy.json"), policy.to_string()).unwrap();
        fs::write(self.path("stages.yaml"), include_str!("stages.yaml")).unwrap();
    }

    fn run(&mut self, name: &'static str, args: &[String]) {
        let program = self.tools.join(name);
        let mut command = bound(&program);
        command.args(args).env_clear().env("HOME", self.folder.path());
        // How much garbage may lie: tests/run sets it; benches/ measures with what is usual.
        if let Some(gogc) = std::env::var_os("SUNDOWN_TEST_GOGC") {
            command.env("GOGC", gogc);
        }
        self.processes.insert(name, Process::start(name, self.folder.path(), &mut command));
    }

    /// Starts etcd; again after it was killed, with what it had.
    pub fn start_etcd(&mut self) {
        let [client, peer] = self.etcd.map(|port| format!("http://127.0.0.1:{port}"));
        self.run(
            "etcd",
            &[
                format!("--data-dir={}", self.path("etcd").display()),
                format!("--listen-client-urls={client}"),
                format!("--advertise-client-urls={client}"),
                format!("--listen-peer-urls={peer}"),
                format!("--initial-advertise-peer-urls={peer}"),
                format!("--initial-cluster=default={peer}"),
                "--unsafe-no-fsync".to_owned(),
            ],
        );
    }

    /// Starts the API server; again after it was killed.
    pub fn start_api_server(&mut self) {
        let file = |name: &str| self.path(name).display().to_string();
        let args = [
            format!("--etcd-servers=http://127.0.0.1:{}", self.etcd[0]),
            format!("--secure-port={}", self.port),
            "--bind-address=127.0.0.1".to_owned(),
            format!("--tls-cert-file={}", file("server.pem")),
            format!("--tls-private-key-file={}", file("server.key")),
            format!("--service-account-key-file={}", file("server.pem")),
            format!("--service-account-signing-key-file={}", file("server.key")),
            "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
            format!("--token-auth-file={}", file("tokens.csv")),
            "--authorization-mode=RBAC".to_owned(),
            "--disable-admission-plugins=ServiceAccount".to_owned(),
            "--service-cluster-ip-range=10.0.0.0/16".to_owned(),
            format!("--audit-policy-file={}", file("audit-policy.json")),
            format!("--audit-log-path={}", file("audit.log")),
            // In one file.
            "--audit-log-maxsize=100000".to_owned(),
        ];
        self.run("kube-apiserver", &[&args[..], &self.flags[0]].concat());
    }

    async fn ready(&mut self) -> Result<(), Down> {
        let (client, end) = (self.client(ADMIN), Instant::now() + LIMIT);
        loop {
            let request = http::Request::get("/readyz").body(Vec::new()).unwrap();
            let answer =
                tokio::time::timeout(Duration::from_secs(5), client.request_text(request)).await;
            if matches!(&answer, Ok(Ok(text)) if text == "ok") {
                return Ok(());
            }
            self.all_live()?;
            if Instant::now() > end {
                let lines = self.processes.get_mut("kube-apiserver").unwrap().last_lines();
                let answer = answer.map(|a| a.map_err(|e| e.to_string()));
                return Err(Late(format!(
                    "the API server is not ready after {LIMIT:?} ({answer:?}); its last \
                     lines:\n{lines}"
                )));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    async fn up_again(&mut self) {
        if let Err(Ended(why) | Late(why)) = self.ready().await {
            panic!("the API server does not come up again: {why}");
        }
    }

    fn all_live(&mut self) -> Result<(), Down> {
        for (name, process) in &mut self.processes {
            if !process.is_alive() {
                return Err(Ended(format!(
                    "{name} has ended; its last lines:\n{}",
                    process.last_lines()
                )));
            }
        }
        Ok(())
    }

    /// Starts what works on the API server, and waits until it listens.
    async fn start_the_rest(&mut self) -> Result<(), Down> {
        let kubeconfig = format!("--kubeconfig={}", self.kubeconfig(ADMIN).display());
        // Of system:masters: the plain user of the controller manager may not write the status of
        // disruption budgets. Its own limit of 20 requests a second would slow the whole world.
        let quick = ["--kube-api-qps=500".to_owned(), "--kube-api-burst=1000".to_owned()];
        let ports = [("kube-controller-manager", free_port()), ("kube-scheduler", free_port())];
        let [manager, scheduler] = ports.map(|(_, port)| {
            ["--bind-address=127.0.0.1".to_owned(), format!("--secure-port={port}")]
        });
        let no_election = "--leader-elect=false".to_owned();
        let of = |more: &[String]| {
            [&[kubeconfig.clone(), no_election.clone()], &quick[..], more].concat()
        };
        let controllers = [&of(&manager)[..], &self.flags[1]].concat();
        self.run("kube-controller-manager", &controllers);
        self.run("kube-scheduler", &of(&scheduler));
        self.start_kwok();
        let end = Instant::now() + LIMIT;
        for (name, _) in ports {
            // By its own words: on its port somebody else may answer who was quicker to take it.
            while !self.processes[name].log().contains("Serving securely on") {
                self.all_live()?;
                if Instant::now() > end {
                    let lines = self.processes.get_mut(name).unwrap().last_lines();
                    return Err(Late(format!(
                        "{name} does not listen after {LIMIT:?}; its last lines:\n{lines}"
                    )));
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
        self.all_live()
    }

    /// Starts kwok; again, with nothing in mind of what it was about to do.
    pub fn start_kwok(&mut self) {
        self.processes.remove("kwok");
        let kwok = [
            format!("--kubeconfig={}", self.kubeconfig(ADMIN).display()),
            format!("--config={}", self.path("stages.yaml").display()),
            "--manage-all-nodes=false".to_owned(),
            "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake".to_owned(),
            "--node-lease-duration-seconds=40".to_owned(),
            "--server-address=".to_owned(),
        ];
        self.run("kwok", &kwok);
    }

    /// Kills the API server. (Told to stop it would keep its port for as long as watches drain.)
    pub fn kill_api_server(&mut self) {
        self.processes.remove("kube-apiserver");
    }

    /// Kills the controllers: from now on nobody writes what they would.
    #[allow(dead_code, reason = "what only tests/contract needs of it")]
    pub fn kill_controllers(&mut self) {
        self.processes.remove("kube-controller-manager");
    }

    /// etcd forgets everything but what is now.
    #[allow(dead_code, reason = "what only tests/contract needs of it")]
    pub async fn compact(&self) {
        let client = kube::Client::try_from(kube::Config::new(
            format!("http://127.0.0.1:{}", self.etcd[0]).parse().unwrap(),
        ))
        .unwrap();
        // Its API as JSON; 64-bit numbers are texts.
        let ask = |path: &str, body: Value| {
            http::Request::post(path).body(serde_json::to_vec(&body).unwrap()).unwrap()
        };
        let status: Value = client.request(ask("/v3/maintenance/status", json!({}))).await.unwrap();
        let revision = &status["header"]["revision"];
        client
            .request::<Value>(ask(
                "/v3/kv/compaction",
                json!({ "revision": revision, "physical": true }),
            ))
            .await
            .unwrap();
    }

    /// Starts the API server on another port, where only who has this client finds it: one of
    /// several, which others cannot reach.
    pub async fn start_api_server_elsewhere(&mut self) -> kube::Client {
        let home = std::mem::replace(&mut self.port, free_port());
        self.start_api_server();
        self.up_again().await;
        let client = self.client(ADMIN);
        self.port = home;
        client
    }

    /// Starts the API server again, and waits until it is ready.
    pub async fn restart_api_server(&mut self) {
        self.start_api_server();
        self.up_again().await;
    }

    /// `kubectl` with everything allowed, to its end; what it printed.
    pub async fn kubectl(&self, args: &[&str]) -> String {
        let mut command = Command::new(self.tools.join("kubectl"));
        command
            .arg("--kubeconfig")
            .arg(self.kubeconfig(ADMIN))
            .args(args)
            .env("HOME", self.folder.path());
        let output = crate::process::run(self.folder.path(), &mut command).await;
        assert_eq!(output.code, Some(0), "kubectl {args:?}: {}", output.err);
        output.out
    }
}

/// A CA, and the API server's certificate for 127.0.0.1, which signs service account tokens too.
/// The CA as DER.
fn certificates(folder: &Path) -> Vec<u8> {
    let ca_key = KeyPair::generate().unwrap();
    let mut ca = CertificateParams::new(Vec::<String>::new()).unwrap();
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    ca.distinguished_name.push(DnType::CommonName, "sundown-test-ca");
    let ca_certificate = ca.self_signed(&ca_key).unwrap();
    let key = KeyPair::generate().unwrap();
    let mut server = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    server.subject_alt_names.push(SanType::IpAddress("127.0.0.1".parse().unwrap()));
    server.distinguished_name.push(DnType::CommonName, "kube-apiserver");
    let server = server.signed_by(&key, &Issuer::new(ca, ca_key)).unwrap();
    fs::write(folder.join("ca.pem"), ca_certificate.pem()).unwrap();
    fs::write(folder.join("server.pem"), server.pem()).unwrap();
    fs::write(folder.join("server.key"), key.serialize_pem()).unwrap();
    ca_certificate.der().to_vec()
}

//! An account at moto, and what works with it: our commands, our clients, and boto3.

use std::{fs, path::PathBuf, process::Command, sync::Arc};

use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_credential_types::{Credentials, provider::SharedCredentialsProvider};
use aws_smithy_async::{
    rt::sleep::{SharedAsyncSleep, TokioSleep},
    time::SystemTimeSource,
};
use serde_json::Value;
use sundown::{
    aws::Clients,
    runtime::{Clock, Spawner},
    sim::{
        http::{Server, loopback},
        kube::{EmbeddedKube, NodeSpec, Options},
    },
};

use crate::{
    process::{CommandOutput, Folder, Process, run, sundown},
    python::{command, interpreter, moto},
};

/// An account at moto as `people.py` makes it, and a cluster in which its first instance is a node.
pub struct Account {
    python: PathBuf,
    pub folder: Folder,
    pub url: String,
    made: Value,
    kubeconfig: PathBuf,
    tasks: Spawner,
    _kube: (EmbeddedKube, Server),
    _moto: Process,
}

impl Account {
    pub async fn new() -> Option<Self> {
        let python = interpreter()?;
        let (folder, tasks) = (Folder::new(), Spawner::new());
        let (url, moto) = moto(&python, &folder).await;
        fs::write(folder.path().join("people.py"), include_str!("people.py")).unwrap();
        let kube = EmbeddedKube::start(Options::default(), Clock::system(), 1, &tasks);
        let server = kube.serve(loopback().await.unwrap(), &tasks).unwrap();
        let kubeconfig = folder.path().join("kubeconfig");
        fs::write(&kubeconfig, EmbeddedKube::kubeconfig(server.address())).unwrap();
        let mut account = Self {
            python,
            folder,
            url,
            made: Value::Null,
            kubeconfig,
            tasks,
            _kube: (kube.clone(), server),
            _moto: moto,
        };
        account.made = account.boto3(&["make"]).await;
        kube.add_node(
            &NodeSpec::named("ip-10-0-0-1.eu-west-1.compute.internal").instance(account.instance()),
        );
        Some(account)
    }

    /// What `people.py` prints for these words.
    pub async fn boto3(&self, words: &[&str]) -> Value {
        let mut command = command(&self.python, &self.folder);
        command
            .env("AWS_ENDPOINT_URL", &self.url)
            .arg(self.folder.path().join("people.py"))
            .args(words);
        let output = run(self.folder.path(), &mut command).await;
        assert_eq!(output.code, Some(0), "{words:?}: {}{}", output.out, output.err);
        serde_json::from_str(&output.out).unwrap()
    }

    /// What boto3 is answered to these calls (`SERVICE.OPERATION`), one after the other.
    pub async fn calls(&self, calls: &[(&str, Value)]) -> Vec<Value> {
        let calls = serde_json::to_string(calls).unwrap();
        let answers = self.boto3(&["calls", &calls]).await;
        answers.as_array().unwrap().clone()
    }

    /// The first instance of the group.
    pub fn instance(&self) -> &str {
        self.made["instances"][0].as_str().unwrap()
    }

    pub fn queue(&self) -> &str {
        self.made["queue"].as_str().unwrap()
    }

    /// One of our commands, with everything but the endpoint.
    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = sundown(self.folder.path());
        command.args(words).envs([
            ("SUNDOWN_QUEUE_URL", self.queue()),
            ("SUNDOWN_DLQ_URL", self.made["dead"].as_str().unwrap()),
            ("SUNDOWN_CLUSTER_NAME", "shop"),
            ("SUNDOWN_KUBECONFIG", self.kubeconfig.to_str().unwrap()),
            ("SUNDOWN_REGION", "eu-west-1"),
            ("AWS_ACCESS_KEY_ID", "AKIAPYTHON"),
            ("AWS_SECRET_ACCESS_KEY", "not-a-secret"),
            ("AWS_EC2_METADATA_DISABLED", "true"),
        ]);
        command
    }

    pub async fn tool(&self, words: &[&str]) -> CommandOutput {
        run(self.folder.path(), self.command(words).env("SUNDOWN_AWS_ENDPOINT_URL", &self.url))
            .await
    }

    /// What `sundown check` finds with these flags.
    pub async fn findings(&self, flags: &[&str]) -> Vec<Value> {
        let output = self.tool(&[&["check", "--receive", "-o", "json"][..], flags].concat()).await;
        let report: Value = serde_json::from_str(&output.out)
            .unwrap_or_else(|e| panic!("{e}: {}{}", output.out, output.err));
        report["findings"].as_array().unwrap().clone()
    }

    pub fn clients(&self) -> Clients {
        own_clients(&self.url)
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        self.tasks.kill();
    }
}

/// The clients of `sundown run` at this endpoint; nothing of this environment counts.
pub fn own_clients(url: &str) -> Clients {
    let credentials = Credentials::new("AKIAPYTHON", "not-a-secret", None, None, "contract");
    let base = SdkConfig::builder()
        .behavior_version(BehaviorVersion::v2026_01_12())
        .region(Region::new("eu-west-1"))
        .credentials_provider(SharedCredentialsProvider::new(credentials))
        .sleep_impl(SharedAsyncSleep::new(TokioSleep::new()))
        .time_source(SystemTimeSource::new())
        .endpoint_url(url)
        .http_client(aws_smithy_http_client::Builder::new().build_http())
        .build();
    Clients::from_config(&base, Clock::system(), Arc::new(()))
}

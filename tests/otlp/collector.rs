//! A collector: listens, decodes what is posted, and answers as it was told to.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use opentelemetry_proto::tonic::{
    collector::trace::v1::ExportTraceServiceRequest,
    common::v1::{KeyValue, any_value},
};
use prost::Message as _;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
};

/// What was posted.
#[derive(Debug, Clone)]
pub struct Request {
    pub path: String,
    pub headers: BTreeMap<String, String>,
    pub traces: ExportTraceServiceRequest,
}

/// A collector on loopback, for as long as the test's runtime lives.
pub struct Collector {
    pub url: String,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Collector {
    /// One that gives these answers in turn, the last of them for ever; with none it never answers.
    pub async fn start(statuses: &[u16]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::<Mutex<Vec<Request>>>::default();
        let (taken, statuses) = (Arc::clone(&requests), statuses.to_vec());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&taken), statuses.clone()));
            }
        });
        Self { url, requests }
    }

    pub fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }
}

async fn serve(stream: TcpStream, taken: Arc<Mutex<Vec<Request>>>, statuses: Vec<u16>) {
    let mut stream = BufReader::new(stream);
    while let Some(request) = read(&mut stream).await {
        let turn = {
            let mut all = taken.lock().unwrap();
            all.push(request);
            all.len() - 1
        };
        let Some(status) = statuses.get(turn).or(statuses.last()) else {
            return std::future::pending().await;
        };
        let answer = format!(
            "HTTP/1.1 {status} As told\r\ncontent-type: application/x-protobuf\r\ncontent-length: \
             0\r\n\r\n"
        );
        if stream.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
    }
}

async fn read(stream: &mut BufReader<TcpStream>) -> Option<Request> {
    let mut line = String::new();
    if stream.read_line(&mut line).await.ok()? == 0 {
        return None;
    }
    let path = line.split(' ').nth(1)?.to_owned();
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await.ok()?;
        let Some((name, value)) = line.trim().split_once(": ") else { break };
        headers.insert(name.to_ascii_lowercase(), value.to_owned());
    }
    let mut body = vec![0; headers.get("content-length")?.parse().ok()?];
    stream.read_exact(&mut body).await.ok()?;
    Some(Request {
        path,
        headers,
        traces: ExportTraceServiceRequest::decode(body.as_slice())
            .expect("it is a message of OTLP"),
    })
}

/// What stands for a name, as words; empty where it is not there.
pub fn text(attributes: &[KeyValue], name: &str) -> String {
    let value =
        attributes.iter().find(|a| a.key == name).and_then(|a| a.value.as_ref()?.value.as_ref());
    match value {
        Some(any_value::Value::StringValue(text)) => text.clone(),
        Some(any_value::Value::IntValue(number)) => number.to_string(),
        Some(any_value::Value::BoolValue(flag)) => flag.to_string(),
        _ => String::new(),
    }
}

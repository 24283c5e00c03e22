//! A collector: listens, decodes what is posted, and answers as it was told to.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use opentelemetry_proto::tonic::{
    collector::trace::v1::{
        ExportTracePartialSuccess, ExportTraceServiceRequest, ExportTraceServiceResponse,
    },
    common::v1::{KeyValue, any_value},
    trace::v1::Span,
};
use prost::Message as _;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpSocket, TcpStream},
};

/// What was posted.
#[derive(Debug, Clone)]
pub struct Request {
    pub path: String,
    pub headers: BTreeMap<String, String>,
    pub traces: ExportTraceServiceRequest,
}

/// A collector's answer: its status, and how many spans it says that it rejected.
#[derive(Debug, Clone, Copy)]
pub struct Answer(pub u16, pub i64);

/// A collector on loopback, for as long as the test's runtime lives.
pub struct Collector {
    pub url: String,
    requests: Arc<Mutex<Vec<Request>>>,
}

/// A collector that refuses connections until it starts.
pub struct Away {
    pub url: String,
    socket: TcpSocket,
}

impl Away {
    pub fn new() -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        Self { url: format!("http://{}", socket.local_addr().unwrap()), socket }
    }

    /// Starts it: it takes everything from now on.
    pub fn start(self) -> Collector {
        Collector::at(self.socket.listen(64).unwrap(), vec![Answer(200, 0)])
    }
}

impl Collector {
    /// One that gives these answers in turn, the last of them for ever; with none it never answers.
    pub async fn start(statuses: &[u16]) -> Self {
        let answers: Vec<_> = statuses.iter().map(|status| Answer(*status, 0)).collect();
        Self::answering(&answers).await
    }

    /// The same with answers that have more than a status.
    pub async fn answering(answers: &[Answer]) -> Self {
        Self::at(TcpListener::bind("127.0.0.1:0").await.unwrap(), answers.to_vec())
    }

    fn at(listener: TcpListener, answers: Vec<Answer>) -> Self {
        let url = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::<Mutex<Vec<Request>>>::default();
        let taken = Arc::clone(&requests);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&taken), answers.clone()));
            }
        });
        Self { url, requests }
    }

    pub fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }

    /// All spans that were posted, in order.
    pub fn spans(&self) -> Vec<Span> {
        self.requests()
            .into_iter()
            .flat_map(|request| request.traces.resource_spans)
            .flat_map(|resource| resource.scope_spans)
            .flat_map(|scope| scope.spans)
            .collect()
    }
}

async fn serve(stream: TcpStream, taken: Arc<Mutex<Vec<Request>>>, answers: Vec<Answer>) {
    let mut stream = BufReader::new(stream);
    while let Some(request) = read(&mut stream).await {
        let turn = {
            let mut all = taken.lock().unwrap();
            all.push(request);
            all.len() - 1
        };
        let Some(Answer(status, rejected)) = answers.get(turn).or(answers.last()) else {
            return std::future::pending().await;
        };
        let partial_success = (*rejected > 0).then(|| ExportTracePartialSuccess {
            rejected_spans: *rejected,
            error_message: "As told".to_owned(),
        });
        let body = ExportTraceServiceResponse { partial_success }.encode_to_vec();
        let head = format!(
            "HTTP/1.1 {status} As told\r\ncontent-type: application/x-protobuf\r\ncontent-length: \
             {}\r\n\r\n",
            body.len()
        );
        if stream.write_all(&[head.as_bytes(), &body].concat()).await.is_err() {
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

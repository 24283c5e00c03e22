//! SQS in its JSON protocol: the embedded AWS, and moto.

mod cases;

use futures::StreamExt;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use serde_json::{Value, json};
use sundown::{
    runtime::{Clock, Spawner},
    sim::{
        aws::{EmbeddedAws, Settings},
        http::loopback,
    },
};

use crate::{
    play::{Answer, Player, Server, chosen, judge},
    process::Folder,
    python::{interpreter, moto},
    script::{Ask, post},
};

/// One action of SQS.
pub fn call(action: &'static str, body: Value) -> Ask {
    let signature = "AWS4-HMAC-SHA256 Credential=AKIATEST/20260101/eu-west-1/sqs/aws4_request, \
        SignedHeaders=host, Signature=none";
    post(action, body)
        .header("content-type", "application/x-amz-json-1.0")
        .header("authorization", signature)
        .gives(200, json!({}))
}

struct Endpoint {
    url: String,
    stand_in: bool,
}

impl Server for Endpoint {
    async fn ask(
        &self,
        method: Method,
        action: &str,
        headers: &[(&'static str, String)],
        body: Vec<u8>,
    ) -> Answer {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}/", self.url))
            .header("x-amz-target", format!("AmazonSQS.{action}"));
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        let client = Client::builder(TokioExecutor::new()).build_http::<Full<bytes::Bytes>>();
        let answer = client
            .request(request.body(Full::from(body)).unwrap())
            .await
            .unwrap_or_else(|e| panic!("{action} is not answered: {e}"));
        let (head, body) = answer.into_parts();
        let body = body.into_data_stream().map(|part| part.unwrap()).boxed();
        Answer { code: head.status.as_u16(), headers: head.headers, body }
    }

    fn known(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    fn is_stand_in(&self) -> bool {
        self.stand_in
    }
}

async fn play(endpoint: &Endpoint, name: &str) {
    let played = chosen(cases::cases()).into_iter().map(|case| async move {
        (case.name, Player::new(endpoint, case.name).play(&case.steps).await)
    });
    judge(name, futures::future::join_all(played).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_embedded_sqs_answers_as_it_is_written() {
    let spawner = Spawner::new();
    let aws = EmbeddedAws::start(Clock::system(), Settings::default(), &spawner);
    let server = aws.serve(loopback().await.unwrap(), &spawner).unwrap();
    play(&Endpoint { url: server.url(), stand_in: false }, "the embedded AWS").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn moto_answers_as_it_is_written() {
    let Some(python) = interpreter() else { return };
    let folder = Folder::new();
    let (url, _moto) = moto(&python, &folder).await;
    play(&Endpoint { url, stand_in: true }, "moto").await;
}

//! Notifications over real connections: HTTPS by a certificate authority of one's own, a proxy, a
//! server that is not well at first.

use std::{
    fs,
    sync::{Arc, Mutex},
};

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use sundown::sim::{aws::SpotAction, kube::Workload};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, copy_bidirectional},
    net::{TcpListener, TcpStream},
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{ServerConfig, pki_types::PrivateKeyDer},
};

use crate::{
    process::{Folder, run},
    stage::Stage,
};

/// What a server was asked: the first line, the headers in lower case, the body.
#[derive(Debug, Clone)]
struct Asked {
    line: String,
    head: String,
    body: String,
}

/// A server on loopback that answers with these statuses, the last one again and again.
#[derive(Clone)]
struct Server {
    port: u16,
    asked: Arc<Mutex<Vec<Asked>>>,
    statuses: Arc<Mutex<Vec<u16>>>,
}

impl Server {
    /// `tls`: it speaks HTTPS.
    async fn start(statuses: &[u16], tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = Self {
            port: listener.local_addr().unwrap().port(),
            asked: Arc::default(),
            statuses: Arc::new(Mutex::new(statuses.to_vec())),
        };
        let task = server.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (server, tls) = (task.clone(), tls.clone());
                tokio::spawn(async move {
                    match tls {
                        Some(tls) => {
                            if let Ok(stream) = tls.accept(stream).await {
                                server.serve(stream).await;
                            }
                        }
                        None => server.serve(stream).await,
                    }
                });
            }
        });
        server
    }

    async fn serve(&self, mut stream: impl AsyncRead + AsyncWrite + Unpin) {
        let Some(asked) = read(&mut stream).await else { return };
        if let Some(target) = asked.line.strip_prefix("CONNECT ") {
            // A proxy: it hears of nothing but the name.
            let port = target.split([':', ' ']).nth(1).unwrap().to_owned();
            self.asked.lock().unwrap().push(asked);
            let mut onward = TcpStream::connect(format!("127.0.0.1:{port}")).await.unwrap();
            stream.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await.unwrap();
            copy_bidirectional(&mut stream, &mut onward).await.ok();
            return;
        }
        self.asked.lock().unwrap().push(asked);
        let status = {
            let mut statuses = self.statuses.lock().unwrap();
            if statuses.len() > 1 { statuses.remove(0) } else { statuses[0] }
        };
        let answer = format!(
            "HTTP/1.1 {status} x\r\ncontent-length: 2\r\nretry-after: 1\r\nconnection: \
             close\r\n\r\nok"
        );
        stream.write_all(answer.as_bytes()).await.ok();
        stream.shutdown().await.ok();
    }

    fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

/// Reads a request to its end.
async fn read(stream: &mut (impl AsyncRead + Unpin)) -> Option<Asked> {
    let (mut bytes, mut chunk) = (Vec::new(), [0; 4096]);
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let lower = head.to_lowercase();
            let length = lower
                .split("content-length: ")
                .nth(1)
                .map_or(0, |rest| rest.split("\r\n").next().unwrap().trim().parse().unwrap());
            if body.len() >= length {
                return Some(Asked {
                    line: head.lines().next()?.to_owned(),
                    head: lower,
                    body: body.to_owned(),
                });
            }
        }
        let read = stream.read(&mut chunk).await.ok().filter(|n| *n > 0)?;
        bytes.extend(&chunk[..read]);
    }
}

/// A certificate authority in `ca.pem` of the folder, and a server's certificate by it.
pub fn authority(folder: &Folder) -> TlsAcceptor {
    let ca_key = KeyPair::generate().unwrap();
    let mut ca = CertificateParams::new(Vec::<String>::new()).unwrap();
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    fs::write(folder.path().join("ca.pem"), ca.self_signed(&ca_key).unwrap().pem()).unwrap();
    let issuer = Issuer::new(ca, ca_key);
    let key = KeyPair::generate().unwrap();
    let names = ["localhost", "chat.example", "aws.example"].map(str::to_owned).to_vec();
    let certificate = CertificateParams::new(names).unwrap().signed_by(&key, &issuer).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![certificate.der().clone()],
            PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
        )
        .unwrap();
    TlsAcceptor::from(Arc::new(config))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_a_drain_is_reported_over_https_with_headers_of_a_secret_and_tried_again() {
    let stage = Stage::new(60).await;
    let instances = stage.spot_group(3);
    stage.world.kube.add_deployment(&Workload::new("shop", "web", 6));
    stage.pods_run(6).await;
    let server = Server::start(&[503, 200], Some(authority(&stage.folder))).await;
    let headers = stage.folder.path().join("headers");
    fs::write(&headers, "Authorization: Bearer s3cr3t\n").unwrap();
    let template = r#"{"text":"{{ outcome }} {{ node }} {{ type }}"}"#;
    let flags =
        ["--webhook-template", template, "--webhook-headers-file", headers.to_str().unwrap()];
    let mut command = stage.command(&flags);
    // The URL of a webhook is a secret: it comes by its variable, and is in no log.
    command.env("SUNDOWN_WEBHOOK_URL", format!("https://localhost:{}/services/T0K3N", server.port));
    command.env("SSL_CERT_FILE", stage.folder.path().join("ca.pem"));
    let mut sundown = crate::process::Process::start("sundown", stage.folder.path(), &mut command);
    sundown.ready().await;
    sundown.counts("leader", 1.0).await;
    let node = stage.node_of(&instances[0]);
    stage.world.aws.spot_interruption(&instances[0], SpotAction::Terminate);
    sundown.counts("webhooks_total{result=\"sent\"}", 1.0).await;
    // Once more when it was refused; on a slow machine also when an answer, or a connection, was
    // long in coming.
    let asked = server.asked();
    assert!((2..=3).contains(&asked.len()), "{asked:?}");
    for one in &asked {
        assert_eq!(one.line, "POST /services/T0K3N HTTP/1.1");
        for header in [
            "authorization: bearer s3cr3t",
            "content-type: application/json",
            "user-agent: sundown/",
        ] {
            assert!(one.head.contains(header), "{header} is not in {}", one.head);
        }
        assert_eq!(one.body, format!(r#"{{"text":"empty {node} m6i.xlarge"}}"#));
    }
    assert!(sundown.metric("webhooks_total{result=\"retried\"}").await >= 1.0);
    sundown.signal("TERM");
    assert_eq!(sundown.ended().await.code(), Some(0));
    assert!(
        !sundown.log().contains("T0K3N") && !sundown.log().contains("s3cr3t"),
        "secrets are in no log"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_is_asked_for_the_name_and_sees_nothing_of_what_is_sent() {
    let stage = Stage::new(61).await;
    let instances = stage.spot_group(2);
    let server = Server::start(&[200], Some(authority(&stage.folder))).await;
    let proxy = Server::start(&[200], None).await;
    let (url, through) = (
        format!("https://chat.example:{}/hook", server.port),
        format!("http://user:pass%20word@127.0.0.1:{}", proxy.port),
    );
    let mut command = stage.command(&[
        "--webhook-url",
        &url,
        "--webhook-proxy",
        &through,
        "--webhook-on",
        "accepted",
    ]);
    command.env("SSL_CERT_FILE", stage.folder.path().join("ca.pem"));
    let mut sundown = crate::process::Process::start("sundown", stage.folder.path(), &mut command);
    sundown.ready().await;
    sundown.counts("leader", 1.0).await;
    stage.world.aws.spot_interruption(&instances[0], SpotAction::Terminate);
    sundown.counts("webhooks_total{result=\"sent\"}", 1.0).await;
    let (asked, requests) = (proxy.asked(), server.asked());
    assert!(
        asked[0].line.starts_with(&format!("CONNECT chat.example:{}", server.port)),
        "{asked:?}"
    );
    // user:pass word
    assert!(
        asked[0].head.contains(&"proxy-authorization: Basic dXNlcjpwYXNzIHdvcmQ=".to_lowercase()),
        "{asked:?}"
    );
    // Once more where the answer was long in coming.
    assert!((1..=2).contains(&requests.len()), "{requests:?}");
    assert!(
        requests[0].body.contains("is cordoned and drained")
            && !requests[0].head.contains("proxy-authorization"),
        "{requests:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_sent_to_a_server_with_an_untrusted_certificate_and_drains_go_on() {
    let stage = Stage::new(62).await;
    let instances = stage.spot_group(2);
    let server = Server::start(&[200], Some(authority(&stage.folder))).await;
    let flags = ["--webhook-url", &format!("https://localhost:{}/", server.port)];
    let mut sundown = stage.leader("sundown", &flags).await;
    stage.world.aws.spot_interruption(&instances[0], SpotAction::Terminate);
    sundown.counts("webhooks_total{result=\"retried\"}", 1.0).await;
    sundown.counts("drains_total{end=\"empty\"}", 1.0).await;
    assert!(server.asked().is_empty(), "{:?}", server.asked());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_notification_that_cannot_be_sent_so_is_refused_at_the_start_with_code_2_and_no_secret() {
    let stage = Stage::new(63).await;
    let (url, missing) = ("https://chat.example/T0K3N", stage.folder.path().join("missing"));
    let missing = missing.to_str().unwrap();
    let template = stage.folder.path().join("template");
    fs::write(&template, "{{ node }} is gone").unwrap();
    let template = template.to_str().unwrap();
    for (flags, words) in [
        (
            &["--webhook-url", "T0K3N"][..],
            "--webhook-url (SUNDOWN_WEBHOOK_URL) is `(not shown)`: not an http(s) URL",
        ),
        (
            &["--webhook-template", "x"],
            "--webhook-url (SUNDOWN_WEBHOOK_URL) is not given: there is no URL to send to",
        ),
        (
            &["--webhook-url", url, "--webhook-template", r#"{"text":"{{ nod }}"}"#],
            r#"is `{"text":"{{ nod }}"}`: at /text: it uses `nod`, which does not exist; use on"#,
        ),
        (
            &["--webhook-url", url, "--webhook-template-file", template],
            "it is not JSON (key must be a string at line 1 column 2); write {\"text\":\"{{ node }}",
        ),
        (
            &["--webhook-url", url, "--webhook-template", "x", "--webhook-template-file", "y"],
            "give one of the two",
        ),
        (&["--webhook-url", url, "--webhook-template-file", missing], "cannot be read"),
        (&["--webhook-url", url, "--webhook-headers-file", missing], "cannot be read"),
        (&["--webhook-url", url, "--webhook-proxy", "proxy:3128"], "--webhook-proxy"),
        (&["--webhook-url", url, "--webhook-on", "begun"], "use accepted, ended, or both"),
    ] {
        let output = run(stage.folder.path(), &mut stage.command(flags)).await;
        assert_eq!(output.code, Some(2), "{flags:?}: {}", output.err);
        assert!(
            output.err.contains(words) && !output.err.contains("T0K3N"),
            "{flags:?}: {}",
            output.err
        );
    }
    let printed =
        run(stage.folder.path(), &mut stage.command(&["--webhook-url", url, "--print-config"]))
            .await;
    assert!(
        printed.out.contains("--webhook-url (not shown)") && !printed.out.contains("T0K3N"),
        "{}",
        printed.out
    );
}

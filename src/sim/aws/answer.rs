//! From an HTTP request to its answer: which service, which action, which faults, and the record in
//! the journal.

use std::fmt;

use bytes::Bytes;
use http::{HeaderMap, Response, header};

use super::{
    EmbeddedAws, autoscaling, ec2, event_bridge,
    events::http_date,
    faults::{Fault, Plan},
    journal::{Call, Outcome},
    sqs, sts,
    xml::{Form, Xml},
};
use crate::sim::{Disturbance, tripwire::Way};

/// The services there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Service {
    Sqs,
    AutoScaling,
    Ec2,
    Sts,
    Events,
}

/// A request that has been understood as far as which action of which service it is.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) service: Service,
    pub(super) action: String,
    /// The access key; empty when unsigned.
    pub(super) by: String,
    /// The server that the request went to, unless it is Amazon's: `http://127.0.0.1:40123`.
    pub(super) server: Option<String>,
    /// Of a Query request.
    pub(super) form: Form,
    /// Of a JSON request.
    pub(super) json: Bytes,
}

/// An error as the services give it. For SQS `code` is the name of the shape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ApiError {
    pub(super) status: u16,
    pub(super) code: &'static str,
    pub(super) message: String,
}

/// The connection ends without an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cut;

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("connection reset by the embedded AWS")
    }
}

impl std::error::Error for Cut {}

impl ApiError {
    pub(super) fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self { status: 400, code, message: message.into() }
    }

    pub(super) fn status(mut self, status: u16) -> Self {
        self.status = status;
        self
    }

    pub(super) fn validation(message: impl Into<String>) -> Self {
        Self::new("ValidationError", message)
    }
}

impl Service {
    const fn prefix(self) -> &'static str {
        match self {
            Self::Sqs => "sqs",
            Self::AutoScaling => "autoscaling",
            Self::Ec2 => "ec2",
            Self::Sts => "sts",
            Self::Events => "events",
        }
    }

    const fn content_type(self) -> &'static str {
        match self {
            Self::Sqs => "application/x-amz-json-1.0",
            Self::Events => "application/x-amz-json-1.1",
            Self::AutoScaling | Self::Sts => "text/xml",
            Self::Ec2 => "text/xml;charset=UTF-8",
        }
    }
}

impl Asked {
    /// SQS and EventBridge are known by their target header, the others by the version in their
    /// form.
    fn read(headers: &HeaderMap, body: Bytes) -> Result<Self, ApiError> {
        let by = signer(headers);
        let server = server(headers);
        let target = headers.get("x-amz-target").and_then(|v| v.to_str().ok());
        if let Some(action) = target.and_then(|t| t.strip_prefix("AmazonSQS.")) {
            return Ok(Self {
                service: Service::Sqs,
                action: action.to_owned(),
                by,
                server,
                form: Form::default(),
                json: body,
            });
        }
        if let Some(action) = target.and_then(|t| t.strip_prefix("AWSEvents.")) {
            return Ok(Self {
                service: Service::Events,
                action: action.to_owned(),
                by,
                server,
                form: Form::default(),
                json: body,
            });
        }
        let form = Form::read(&body);
        let service = match form.get("Version") {
            Some("2011-01-01") => Service::AutoScaling,
            Some("2016-11-15") => Service::Ec2,
            Some("2011-06-15") => Service::Sts,
            _ => {
                return Err(ApiError::new("InvalidAction", "The embedded AWS has no such service"));
            }
        };
        let action = form.get("Action").unwrap_or_default().to_owned();
        Ok(Self { service, action, by, server, form, json: Bytes::new() })
    }

    fn object(&self) -> String {
        match self.service {
            Service::Sqs => sqs::object(&self.json),
            Service::AutoScaling => autoscaling::object(&self.form),
            Service::Ec2 => ec2::object(&self.form),
            Service::Sts => String::new(),
            Service::Events => event_bridge::object(&self.json),
        }
    }
}

/// Queue URLs name the server that was asked, so that a client that follows them comes back to it.
fn server(headers: &HeaderMap) -> Option<String> {
    let host = headers.get(header::HOST)?.to_str().ok()?;
    (!host.ends_with(".amazonaws.com")).then(|| format!("http://{host}"))
}

/// The access key id in `Authorization: AWS4-HMAC-SHA256 Credential=<key>/<date>/…`.
fn signer(headers: &HeaderMap) -> String {
    let authorization =
        headers.get(header::AUTHORIZATION).and_then(|v| v.to_str().ok()).unwrap_or_default();
    let credential = authorization.split_once("Credential=").map(|(_, rest)| rest);
    credential.and_then(|c| c.split('/').next()).unwrap_or_default().to_owned()
}

impl EmbeddedAws {
    /// Answers one request; never holds the lock while it waits.
    pub(super) async fn answer(
        &self,
        headers: &HeaderMap,
        body: Bytes,
    ) -> Result<Response<Bytes>, Cut> {
        let asked = match Asked::read(headers, body) {
            Ok(asked) => asked,
            Err(error) => return Ok(self.error(Service::AutoScaling, &error)),
        };
        let api = format!("{}:{}", asked.service.prefix(), asked.action);
        let object = asked.object();
        let tripwire = self.shared.with(|state, _| state.tripwire.clone());
        let way = self.shared.with(|_, now| tripwire.pass(&asked.by, now, || api.clone()));
        if way == Way::Dead {
            return std::future::pending().await;
        }
        let plan = self.shared.with(|state, now| {
            state.faults.plan(now, &api, &object, asked.form.get("LifecycleActionToken").is_some())
        });
        if plan != Plan::default() {
            self.disturbed(&asked.by, &api, &object, plan);
        }
        if !plan.delay.is_zero() {
            tokio::time::sleep(plan.delay).await;
        }
        let note = |outcome| self.note(&api, &object, &asked.by, outcome);
        let is_cut_off = || self.shared.with(|state, _| state.is_cut_off(&asked.by));
        let cut_off = Plan { fault: Some(Fault::Hang), ..Plan::default() };
        if is_cut_off() {
            self.disturbed(&asked.by, &api, &object, cut_off);
            note(Outcome::LostBefore);
            return std::future::pending().await;
        }
        match plan.fault {
            None | Some(Fault::Latency(_)) => {}
            Some(Fault::Hang) => {
                note(Outcome::LostBefore);
                return std::future::pending().await;
            }
            Some(Fault::Cut) => {
                note(Outcome::LostBefore);
                return Err(Cut);
            }
            Some(Fault::HangAfterEffect) => {
                self.lose_answer(&asked, note).await;
                return std::future::pending().await;
            }
            Some(Fault::CutAfterEffect) => {
                self.lose_answer(&asked, note).await;
                return Err(Cut);
            }
            Some(Fault::Garbage) => {
                note(Outcome::LostBefore);
                return Ok(self.respond(
                    asked.service,
                    200,
                    None,
                    "\u{0}<<{{ no answer of any protocol".to_owned(),
                ));
            }
            Some(fault) => {
                let error = injected(asked.service, fault);
                note(Outcome::Error(error.code.to_owned()));
                return Ok(self.error(asked.service, &error));
            }
        }
        let answer = self.perform(&asked).await;
        if way == Way::Last {
            tripwire.spring();
        }
        if way == Way::Last || is_cut_off() {
            self.disturbed(&asked.by, &api, &object, cut_off);
            note(Outcome::LostAfter);
            return std::future::pending().await;
        }
        match answer {
            Ok(body) => {
                note(Outcome::Ok);
                Ok(self.respond(asked.service, 200, None, body))
            }
            Err(error) => {
                note(Outcome::Error(error.code.to_owned()));
                Ok(self.error(asked.service, &error))
            }
        }
    }

    async fn lose_answer(&self, asked: &Asked, note: impl FnOnce(Outcome)) {
        self.perform(asked).await.ok();
        note(Outcome::LostAfter);
    }

    async fn perform(&self, asked: &Asked) -> Result<String, ApiError> {
        match asked.service {
            Service::Sqs => sqs::handle(self, asked).await,
            Service::AutoScaling => {
                self.shared.with(|state, now| autoscaling::handle(state, now, asked))
            }
            Service::Ec2 => self.shared.with(|state, now| ec2::handle(state, now, asked)),
            Service::Sts => self.shared.with(|state, _| sts::handle(state, asked)),
            Service::Events => {
                self.shared.with(|state, now| event_bridge::handle(state, now, asked))
            }
        }
    }

    fn disturbed(&self, by: &str, what: &str, object: &str, plan: Plan) {
        let hangs = matches!(plan.fault, Some(Fault::Hang | Fault::HangAfterEffect));
        let [by, what, object] = [by, what, object].map(str::to_owned);
        self.shared.with(|state, at| {
            let until = (!hangs).then(|| at.plus(plan.delay));
            state.journal.disturbance(Disturbance {
                at,
                until,
                by,
                what,
                object,
                is_silent: false,
            });
        });
    }

    fn note(&self, api: &str, object: &str, by: &str, outcome: Outcome) {
        self.shared.with(|state, at| {
            state.journal.call(Call {
                at,
                api: api.to_owned(),
                object: object.to_owned(),
                by: by.to_owned(),
                outcome,
            });
        });
    }

    fn error(&self, service: Service, error: &ApiError) -> Response<Bytes> {
        let kind = if error.status < 500 { "Sender" } else { "Receiver" };
        if service == Service::Sqs {
            let (body, query_error) = sqs::error_body(error, kind);
            return self.respond(service, error.status, Some(query_error), body);
        }
        if service == Service::Events {
            let body =
                serde_json::json!({ "__type": error.code, "message": error.message }).to_string();
            return self.respond(service, error.status, None, body);
        }
        let id = self.shared.with(|state, _| state.uuid());
        let fields = |xml: &mut Xml| {
            xml.text("Code", error.code);
            xml.text("Message", &error.message);
        };
        let body = match service {
            Service::Ec2 => Xml::plain("Response", |xml| {
                xml.element("Errors", |xml| xml.element("Error", fields));
                xml.text("RequestID", &id);
            }),
            _ => Xml::document(
                "ErrorResponse",
                if service == Service::Sts { sts::NAMESPACE } else { autoscaling::NAMESPACE },
                |xml| {
                    xml.element("Error", |xml| {
                        xml.text("Type", kind);
                        fields(xml);
                    });
                    xml.text("RequestId", &id);
                },
            ),
        };
        self.respond(service, error.status, None, body)
    }

    fn respond(
        &self,
        service: Service,
        status: u16,
        query_error: Option<String>,
        body: String,
    ) -> Response<Bytes> {
        let (id, date) =
            self.shared.with(|state, now| (state.uuid(), http_date(state.aws_time(now))));
        let length = body.len();
        let mut response = Response::new(Bytes::from(body));
        *response.status_mut() =
            http::StatusCode::from_u16(status).unwrap_or(http::StatusCode::INTERNAL_SERVER_ERROR);
        let headers = response.headers_mut();
        headers
            .insert(header::CONTENT_TYPE, header::HeaderValue::from_static(service.content_type()));
        headers.insert(header::CONTENT_LENGTH, length.into());
        for (name, value) in [
            ("x-amzn-requestid", Some(id)),
            ("date", Some(date)),
            ("x-amzn-query-error", query_error),
        ] {
            if let Some(value) = value.and_then(|v| header::HeaderValue::from_str(&v).ok()) {
                headers.insert(name, value);
            }
        }
        response
    }
}

/// The error that a service returns for an injected fault, with that service's code and text.
fn injected(service: Service, fault: Fault) -> ApiError {
    use Service::{AutoScaling, Ec2, Events, Sqs, Sts};
    match (fault, service) {
        (Fault::Throttle, Sqs) => {
            ApiError::new("RequestThrottled", "The request was denied due to request throttling.")
        }
        (Fault::Throttle, Ec2) => {
            ApiError::new("RequestLimitExceeded", "Request limit exceeded.").status(503)
        }
        (Fault::Throttle, AutoScaling | Sts) => ApiError::new("Throttling", "Rate exceeded"),
        (Fault::Throttle, Events) => ApiError::new("ThrottlingException", "Rate exceeded"),
        (Fault::Unavailable, Ec2) => {
            ApiError::new("Unavailable", "The service is unavailable. Please try again shortly.")
                .status(503)
        }
        (Fault::Unavailable, _) => {
            ApiError::new("ServiceUnavailable", "Service is unable to handle request.").status(503)
        }
        (Fault::AccessDenied, Ec2) => ApiError::new(
            "UnauthorizedOperation",
            "You are not authorized to perform this operation.",
        )
        .status(403),
        (Fault::AccessDenied, Sqs | Events) => ApiError::new(
            "AccessDeniedException",
            "User is not authorized to perform this action on this resource.",
        ),
        (Fault::AccessDenied, _) => ApiError::new(
            "AccessDenied",
            "User is not authorized to perform this action on this resource.",
        )
        .status(403),
        (Fault::ExpiredToken, Ec2) => ApiError::new("RequestExpired", "Request has expired."),
        (Fault::ExpiredToken, Sqs | Events) => ApiError::new(
            "ExpiredTokenException",
            "The security token included in the request is expired",
        ),
        (Fault::ExpiredToken, _) => {
            ApiError::new("ExpiredToken", "The security token included in the request is expired")
                .status(403)
        }
        (Fault::QueueMissing, _) => sqs::no_such_queue(),
        (Fault::Invalid(message) | Fault::InvalidToken(message), _) => {
            ApiError::validation(message)
        }
        (Fault::ResourceContention, _) => ApiError::new(
            "ResourceContention",
            "You already have a pending update to an Amazon EC2 Auto Scaling resource.",
        )
        .status(500),
        (_, Sqs | Ec2) => {
            ApiError::new("InternalError", "An internal error has occurred").status(500)
        }
        (_, Events) => {
            ApiError::new("InternalException", "An internal error has occurred").status(500)
        }
        (_, AutoScaling | Sts) => {
            ApiError::new("InternalFailure", "An internal error has occurred").status(500)
        }
    }
}

//! The calls to EventBridge that operator commands make.
//!
//! They are three small signed JSON requests. They need less code than a crate with all operations
//! would add to the binary.

use std::{fmt, time::Duration};

use aws_config::SdkConfig;
use aws_credential_types::provider::ProvideCredentials as _;
use aws_sigv4::{
    http_request::{SignableBody, SignableRequest, SigningSettings, sign},
    sign::v4,
};
use aws_smithy_runtime::client::orchestrator::operation::Operation;
use aws_smithy_runtime_api::{
    box_error::BoxError,
    client::{
        orchestrator::{HttpRequest, HttpResponse, OrchestratorError},
        result::SdkError,
    },
};
use aws_smithy_types::{
    body::SdkBody,
    error::metadata::{ErrorMetadata, ProvideErrorMetadata},
};
use aws_types::service_config::ServiceConfigKey;
use serde_json::{Value, json};

use super::{Api, AwsError, call::Caller, region::partition};

/// The time limit of a call.
const LIMIT: Duration = Duration::from_secs(11);
/// How many pages of an answer are read.
const PAGES: usize = 20;

/// EventBridge in one region.
#[derive(Debug, Clone)]
pub struct EventBridge {
    base: SdkConfig,
    caller: Caller,
}

/// A rule, from DescribeRule and ListTargetsByRule.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RuleFacts {
    /// `Name`.
    pub name: String,
    /// `ENABLED`, `DISABLED`, …
    pub state: String,
    /// `EventPattern`, the JSON text; empty for a schedule.
    pub pattern: String,
    /// `Targets`, of all pages.
    pub targets: Vec<TargetFacts>,
}

/// A target of a rule.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TargetFacts {
    /// The ARN of the queue, topic, … to which it sends events.
    pub arn: String,
    /// The ARN of its dead-letter queue; `None`: it has none.
    pub dead_letters: Option<String>,
    /// `MaximumRetryAttempts` of its retry policy; `None`: AWS's default.
    pub attempts: Option<u64>,
    /// Whether it changes the event (`Input`, `InputPath` or `InputTransformer`).
    pub transforms: bool,
}

/// An event for the default bus.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PutEvent<'a> {
    /// `source`. Only AWS may use a source that begins with `aws.`.
    pub source: &'a str,
    /// `detail-type`.
    pub detail_type: &'a str,
    /// `detail`.
    pub detail: &'a Value,
    /// `resources`.
    pub resources: &'a [String],
}

/// An error answer of EventBridge.
#[derive(Debug)]
struct Refused(ErrorMetadata);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.message().unwrap_or("EventBridge refused the request"))
    }
}

impl std::error::Error for Refused {}

impl ProvideErrorMetadata for Refused {
    fn meta(&self) -> &ErrorMetadata {
        &self.0
    }
}

/// A request with its signature. Its `Debug` text contains neither.
struct Signed(http::Request<String>);

impl fmt::Debug for Signed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Signed")
    }
}

impl EventBridge {
    pub(super) fn new(base: SdkConfig, caller: Caller) -> Self {
        Self { base, caller }
    }

    /// PutEvents of one event; returns its id.
    ///
    /// EventBridge answers a call with status 200 even if its events failed. Here, the error of the
    /// event is the error of the call.
    pub async fn put_event(&self, event: &PutEvent<'_>) -> Result<String, AwsError> {
        let entry = json!({
            "Source": event.source, "DetailType": event.detail_type,
            "Detail": event.detail.to_string(), "Resources": event.resources
        });
        let answer =
            self.call(Api::PutEvents, event.detail_type, &json!({ "Entries": [entry] })).await?;
        let entry = answer.pointer("/Entries/0").cloned().unwrap_or_default();
        match (text(&entry, "EventId"), text(&entry, "ErrorCode"), text(&entry, "ErrorMessage")) {
            (id, code, _) if code.is_empty() && !id.is_empty() => Ok(id),
            (_, code, message) => {
                Err(AwsError::refused(Api::PutEvents, event.detail_type, &code, &message))
            }
        }
    }

    /// DescribeRule and ListTargetsByRule of a rule on the default bus.
    pub async fn rule(&self, name: &str) -> Result<RuleFacts, AwsError> {
        let described = self.call(Api::DescribeRule, name, &json!({ "Name": name })).await?;
        let (mut targets, mut page) = (Vec::new(), Value::Null);
        for _ in 0..PAGES {
            let mut input = json!({ "Rule": name });
            if let (Some(input), Value::String(token)) = (input.as_object_mut(), &page) {
                input.insert("NextToken".to_owned(), token.clone().into());
            }
            let answer = self.call(Api::ListTargetsByRule, name, &input).await?;
            targets.extend(
                answer.get("Targets").and_then(Value::as_array).into_iter().flatten().map(target),
            );
            page = answer.get("NextToken").cloned().unwrap_or_default();
            if !page.is_string() {
                return Ok(RuleFacts {
                    name: name.to_owned(),
                    state: text(&described, "State"),
                    pattern: text(&described, "EventPattern"),
                    targets,
                });
            }
        }
        Err(AwsError::endless(Api::ListTargetsByRule, name))
    }

    async fn call(&self, api: Api, object: &str, input: &Value) -> Result<Value, AwsError> {
        self.caller.call(api, object, LIMIT, self.exchange(api, input.to_string())).await
    }

    async fn exchange(
        &self,
        api: Api,
        body: String,
    ) -> Result<Value, SdkError<Refused, HttpResponse>> {
        let endpoint =
            self.endpoint().ok_or_else(|| SdkError::construction_failure("no region is known"))?;
        let signed =
            self.signed(api, &endpoint, body).await.map_err(SdkError::construction_failure)?;
        let mut operation = Operation::builder()
            .service_name("EventBridge")
            .operation_name(api.as_str())
            .endpoint_url(&endpoint)
            .no_auth()
            .no_retry();
        if let Some(client) = self.base.http_client() {
            operation = operation.http_client(client);
        }
        if let Some(time) = self.base.time_source() {
            operation = operation.time_source(time);
        }
        if let Some(sleep) = self.base.sleep_impl() {
            operation = operation.sleep_impl(sleep);
        }
        if let Some(timeouts) = self.base.timeout_config() {
            operation = operation.timeout_config(timeouts.clone());
        }
        let operation = operation
            .serializer(|signed: Signed| {
                HttpRequest::try_from(signed.0.map(SdkBody::from)).map_err(Into::into)
            })
            .deserializer(read);
        operation.build().invoke(signed).await
    }

    fn endpoint(&self) -> Option<String> {
        if let Some(url) = self.configured() {
            return Some(url.trim_end_matches('/').to_owned());
        }
        let region = self.base.region()?.as_ref();
        Some(endpoint(
            region,
            self.base.use_fips().unwrap_or_default(),
            self.base.use_dual_stack().unwrap_or_default(),
        ))
    }

    /// The endpoint from the configuration, in the order of the SDK's own clients: the one that the
    /// program sets, else `AWS_ENDPOINT_URL_EVENTBRIDGE` (or the profile's services), else the one
    /// for all services.
    fn configured(&self) -> Option<String> {
        let for_all = || self.base.endpoint_url().map(str::to_owned);
        if self.base.get_origin("endpoint_url").is_client_config() {
            return for_all();
        }
        let key = ServiceConfigKey::builder()
            .service_id("EventBridge")
            .env("AWS_ENDPOINT_URL")
            .profile("endpoint_url")
            .build()
            .ok();
        key.and_then(|key| self.base.service_config()?.load_config(key)).or_else(for_all)
    }

    async fn signed(&self, api: Api, endpoint: &str, body: String) -> Result<Signed, BoxError> {
        let provider = self.base.credentials_provider().ok_or("there are no credentials")?;
        let identity = provider.provide_credentials().await?.into();
        let time = self.base.time_source().map(|t| t.now()).ok_or("there is no clock")?;
        let region = self.base.region().map(ToString::to_string).unwrap_or_default();
        let parameters = v4::SigningParams::builder()
            .identity(&identity)
            .region(&region)
            .name("events")
            .time(time)
            .settings(SigningSettings::default())
            .build()?
            .into();
        let target = format!("AWSEvents.{}", api.as_str());
        let headers =
            [("content-type", "application/x-amz-json-1.1"), ("x-amz-target", target.as_str())];
        let url = format!("{endpoint}/");
        let signable = SignableRequest::new(
            "POST",
            &url,
            headers.into_iter(),
            SignableBody::Bytes(body.as_bytes()),
        )?;
        let (instructions, _) = sign(signable, &parameters)?.into_parts();
        let mut request = http::Request::post(&url);
        for (name, value) in headers {
            request = request.header(name, value);
        }
        let mut request = request.body(body)?;
        instructions.apply_to_request_http1x(&mut request);
        Ok(Signed(request))
    }
}

/// The endpoint of EventBridge in a region (AWS General Reference, "Amazon EventBridge endpoints").
/// The ordinary endpoints of GovCloud are FIPS endpoints, without `fips` in their names.
fn endpoint(region: &str, fips: bool, dual_stack: bool) -> String {
    let partition = partition(region);
    let service = if fips && !region.starts_with("us-gov-") { "events-fips" } else { "events" };
    let zone = if dual_stack { partition.dual_stack } else { partition.zone };
    format!("https://{service}.{region}.{zone}")
}

fn read(response: &HttpResponse) -> Result<Value, OrchestratorError<Refused>> {
    let body = response.body().bytes().unwrap_or_default();
    let answer = serde_json::from_slice::<Value>(body);
    if response.status().is_success() {
        return answer.map_err(|error| OrchestratorError::response(error.into()));
    }
    let answer = answer.unwrap_or_default();
    // `com.amazonaws.events#ResourceNotFoundException`
    let kind = text(&answer, "__type");
    let code = kind.rsplit('#').next().unwrap_or_default();
    let message = [text(&answer, "message"), text(&answer, "Message")].concat();
    Err(OrchestratorError::operation(Refused(
        ErrorMetadata::builder().code(code).message(message).build(),
    )))
}

fn text(value: &Value, field: &str) -> String {
    value.get(field).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn target(described: &Value) -> TargetFacts {
    let dead_letters =
        described.pointer("/DeadLetterConfig/Arn").and_then(Value::as_str).map(str::to_owned);
    let attempts = described.pointer("/RetryPolicy/MaximumRetryAttempts").and_then(Value::as_u64);
    let transforms = ["Input", "InputPath", "InputTransformer"]
        .iter()
        .any(|field| described.get(*field).is_some());
    TargetFacts { arn: text(described, "Arn"), dead_letters, attempts, transforms }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_region_has_its_endpoint() {
        for (region, fips, dual_stack, host) in [
            ("eu-west-1", false, false, "events.eu-west-1.amazonaws.com"),
            ("us-east-1", true, false, "events-fips.us-east-1.amazonaws.com"),
            ("us-gov-west-1", false, false, "events.us-gov-west-1.amazonaws.com"),
            ("us-gov-west-1", true, false, "events.us-gov-west-1.amazonaws.com"),
            ("cn-north-1", false, false, "events.cn-north-1.amazonaws.com.cn"),
            ("cn-northwest-1", false, true, "events.cn-northwest-1.api.amazonwebservices.com.cn"),
            ("eu-west-1", false, true, "events.eu-west-1.api.aws"),
            ("eusc-de-east-1", false, false, "events.eusc-de-east-1.amazonaws.eu"),
            ("us-iso-east-1", false, false, "events.us-iso-east-1.c2s.ic.gov"),
        ] {
            assert_eq!(
                endpoint(region, fips, dual_stack),
                format!("https://{host}"),
                "{region} {fips} {dual_stack}"
            );
        }
    }
}

//! Reads answers of the API server that are errors.

use std::time::Duration;

use http::{HeaderMap, Response, header};
use http_body_util::{BodyExt, Limited};
use kube::{client::Body, core::Status};

use crate::{
    cluster::{ClusterError, Target, error::answer_of},
    domain::ApiAnswer,
};

/// How many bytes of the body of an error answer are read.
const ERROR_BODY: usize = 64 * 1024;

/// Returns an answer with 2xx, and makes an error of any other. The header `Retry-After` is read
/// here because kube's own conversion loses it, and an API server that sheds load sends the time
/// only there (apiserver `util/flowcontrol`, with a text/plain body).
pub(super) async fn check(
    target: Target,
    object: &str,
    response: Response<Body>,
) -> Result<Response<Body>, ClusterError> {
    if response.status().is_success() {
        return Ok(response);
    }
    let code = response.status().as_u16();
    let header = retry_after(response.headers());
    let body = Limited::new(response.into_body(), ERROR_BODY)
        .collect()
        .await
        .map(http_body_util::Collected::to_bytes)
        .unwrap_or_default();
    Err(ClusterError::new(target.action(), object, read_error(code, header, &body)))
}

fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds: u64 = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    (seconds > 0).then(|| Duration::from_secs(seconds.min(3600)))
}

/// Reads an error answer: its Status object, or the first 500 characters of its text.
fn read_error(code: u16, header: Option<Duration>, body: &[u8]) -> ApiAnswer {
    if let Ok(status) = serde_json::from_slice::<Status>(body) {
        // The code of the HTTP answer counts, because a Status may lack a code.
        return ApiAnswer { code, ..answer_of(&status, header) };
    }
    let message = String::from_utf8_lossy(body).trim().chars().take(500).collect();
    ApiAnswer { code, message, retry_after: header, ..ApiAnswer::default() }
}

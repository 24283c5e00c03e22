//! Limits the memory of received messages. The answer to a receive is read from the connection only
//! when there is room for it, and takes that room until its last body is dropped. One answer may
//! have ten messages of 1 MiB.

use std::{
    fmt,
    ops::Deref,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, ready},
};

use aws_smithy_runtime_api::{
    box_error::BoxError,
    client::{
        interceptors::{
            Intercept, context::BeforeDeserializationInterceptorContextMut, dyn_dispatch_hint,
        },
        runtime_components::RuntimeComponents,
    },
};
use aws_smithy_types::{body::SdkBody, config_bag::ConfigBag};
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::PollSemaphore;

/// How many bytes of received messages may be in memory at once, over all queues. An answer counts
/// twice, because while it is parsed it is there as received and as bodies. An answer that is too
/// large for this limit is read when no other is in memory.
const LIMIT: u32 = 16 * 1024 * 1024;

/// Counts the bytes of received messages in memory, and limits them.
#[derive(Debug, Clone)]
pub struct ByteLimit(Arc<Semaphore>);

impl Default for ByteLimit {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(LIMIT as usize)))
    }
}

impl ByteLimit {
    /// How many bytes of messages are in memory or about to be read.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        (LIMIT as usize).saturating_sub(self.0.available_permits())
    }

    /// How many answers with `bytes` bytes of bodies fit at once; at least one.
    #[must_use]
    pub fn answers_of(bytes: usize) -> usize {
        (LIMIT as usize / bytes.saturating_mul(2).max(1)).max(1)
    }

    /// A gate that makes one answer wait until it fits, and the share that holds its bytes from
    /// then on.
    pub(super) fn gate(&self) -> (Gate, Share) {
        let share = Share::default();
        (Gate { limit: self.clone(), share: share.clone() }, share)
    }
}

/// The bytes that one answer takes; empty until it is read.
#[derive(Debug, Clone, Default)]
pub(super) struct Share(Arc<Mutex<Option<OwnedSemaphorePermit>>>);

impl Share {
    fn put(&self, permit: OwnedSemaphorePermit) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(permit);
    }

    /// Makes a body, with its part of the bytes. The bytes of the answer that belong to no body are
    /// freed when the share is dropped.
    pub(super) fn body(&self, text: String) -> Body {
        let mut share = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = share.as_mut().and_then(|all| all.split(text.len().min(all.num_permits())));
        Body { text, _bytes: bytes }
    }
}

/// The body of a message, as the sender wrote it: not trusted. Its bytes count as in memory until
/// it is dropped.
pub struct Body {
    text: String,
    _bytes: Option<OwnedSemaphorePermit>,
}

impl Body {
    /// Drops the text, so that its bytes no longer count as in memory.
    pub fn clear(&mut self) {
        *self = Self { text: String::new(), _bytes: None };
    }
}

impl Deref for Body {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

/// Shows only the length, because bodies are long and contain tokens.
impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Body({} bytes)", self.text.len())
    }
}

/// Makes an answer wait for room before its body is read.
#[derive(Debug)]
pub(super) struct Gate {
    limit: ByteLimit,
    share: Share,
}

#[dyn_dispatch_hint]
impl Intercept for Gate {
    fn name(&self) -> &'static str {
        "ReceiveGate"
    }

    fn modify_before_deserialization(
        &self,
        context: &mut BeforeDeserializationInterceptorContextMut<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let response = context.response_mut();
        let length = response
            .body()
            .content_length()
            .or_else(|| response.headers().get("content-length")?.parse().ok());
        // Without a length, the answer may be of any size, so it takes the whole limit.
        let needed = length
            .map_or(LIMIT, |n| u32::try_from(n.saturating_mul(2)).unwrap_or(LIMIT).clamp(1, LIMIT));
        let inner = std::mem::replace(response.body_mut(), SdkBody::taken());
        let waiting = Some((PollSemaphore::new(Arc::clone(&self.limit.0)), needed));
        *response.body_mut() =
            SdkBody::from_body_1_x(GatedBody { inner, waiting, share: self.share.clone() });
        Ok(())
    }
}

/// A body that is read when there is room for it. Until then its bytes stay in the connection, and
/// flow control stops the sender.
struct GatedBody {
    inner: SdkBody,
    waiting: Option<(PollSemaphore, u32)>,
    share: Share,
}

impl hyper::body::Body for GatedBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Some((limit, needed)) = &mut self.waiting {
            let permit = ready!(limit.poll_acquire_many(cx, *needed));
            self.waiting = None;
            if let Some(permit) = permit {
                self.share.put(permit);
            }
        }
        Pin::new(&mut self.inner).poll_frame(cx)
    }

    fn size_hint(&self) -> SizeHint {
        hyper::body::Body::size_hint(&self.inner)
    }
}

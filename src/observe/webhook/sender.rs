//! The task that sends.

use std::{
    collections::{BTreeSet, VecDeque},
    path::Path,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{
    sync::{Semaphore, mpsc},
    time::Instant,
};
use tokio_util::task::AbortOnDropHandle;
use tracing::{debug, warn};

use super::{
    Http, Notice, On, Post, Settings, Template, TemplateSource, Transport, Unusable,
    http::Answer,
    notice::{REGION, TYPE, ZONE},
};
use crate::{
    domain::seconds,
    observe::{Metrics, WebhookResult},
    runtime::{Backoff, Random, Spawner},
};

/// So many messages wait at most; what comes on top is dropped and counted.
const WAITING: usize = 1000;
/// So many are under way at once.
const IN_FLIGHT: usize = 4;
/// How long one try may take.
const TRY: Duration = seconds(5);
/// How long a message is tried at most…
const PATIENCE: Duration = seconds(60);
/// …and how often.
const TRIES: u32 = 5;
/// The shortest pause between two tries, whatever a server asks for.
const SHORTEST_PAUSE: Duration = Duration::from_millis(250);
/// The longest pause that a server may ask for.
const LONGEST_PAUSE: Duration = seconds(30);
/// So many messages are remembered as sent.
const REMEMBERED: usize = 10_000;

/// Sends messages. Clones send through the same task, which ends with the last of them.
#[derive(Clone)]
pub struct Notifier(Arc<Inner>);

struct Inner {
    notices: mpsc::Sender<Notice>,
    /// How many are neither sent nor given up.
    pending: Arc<AtomicUsize>,
    on: BTreeSet<On>,
    template: Arc<Template>,
    told: Mutex<Told>,
    metrics: Arc<Metrics>,
    _task: AbortOnDropHandle<()>,
}

/// What was told already, the oldest first.
#[derive(Default)]
struct Told {
    keys: BTreeSet<String>,
    order: VecDeque<String>,
}

impl Told {
    /// False when it was told before.
    fn is_new(&mut self, key: String) -> bool {
        if !self.keys.insert(key.clone()) {
            return false;
        }
        self.order.push_back(key);
        if self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.keys.remove(&oldest);
        }
        true
    }
}

/// What a notifier works with.
pub struct NotifierParts {
    /// How messages are sent.
    pub settings: Settings,
    /// `--cluster-name`.
    pub cluster: Option<String>,
    /// What carries them; `None`: HTTP.
    pub transport: Option<Arc<dyn Transport>>,
    /// Randomness.
    pub random: Random,
    /// Starts tasks.
    pub spawner: Spawner,
    /// Where they are counted.
    pub metrics: Arc<Metrics>,
}

impl std::fmt::Debug for Notifier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Notifier").field("on", &self.0.on).finish_non_exhaustive()
    }
}

impl Notifier {
    /// Reads template and headers, and starts the task. Errs when messages could never be sent this
    /// way.
    pub fn start(parts: NotifierParts) -> Result<Self, Unusable> {
        let NotifierParts { settings, cluster, transport, random, spawner, metrics } = parts;
        let text = match &settings.template {
            TemplateSource::Text(text) => text.clone(),
            TemplateSource::File(path) => std::fs::read_to_string(path).map_err(|source| {
                Unusable::TemplateFile { path: path.display().to_string(), source }
            })?,
        };
        let template = Arc::new(Template::new(&text)?);
        headers(settings.headers.as_deref(), content_type(&template))?;
        let transport: Arc<dyn Transport> = match transport {
            Some(transport) => transport,
            None => Arc::new(Http::new(settings.proxy.as_ref()).map_err(Unusable::Proxy)?),
        };
        let (notices, inbox) = mpsc::channel(WAITING);
        let pending = Arc::<AtomicUsize>::default();
        let on = settings.on.clone();
        let sender = Sender {
            settings,
            cluster,
            transport,
            random,
            template: Arc::clone(&template),
            metrics: Arc::clone(&metrics),
        };
        let task = spawner.spawn_scoped(work(
            Arc::new(sender),
            inbox,
            Arc::clone(&pending),
            spawner.clone(),
        ));
        Ok(Self(Arc::new(Inner {
            notices,
            pending,
            on,
            template,
            told: Mutex::default(),
            metrics,
            _task: task,
        })))
    }

    /// Somebody is told of this.
    #[must_use]
    pub fn wants(&self, on: On) -> bool {
        self.0.on.contains(&on)
    }

    /// The template names this: who builds a notice need not look for what nobody reads.
    #[must_use]
    pub fn names(&self, name: &str) -> bool {
        self.0.template.names(name)
    }

    /// The labels of nodes that have to be known.
    pub fn labels(&self) -> impl Iterator<Item = &str> {
        let template = &self.0.template;
        let named = [("zone", ZONE), ("region", REGION), ("type", TYPE)]
            .into_iter()
            .filter(move |(name, _)| template.names(name))
            .map(|(_, key)| key);
        template.labels().chain(named)
    }

    /// Has a notice sent, once. Never waits.
    pub fn tell(&self, notice: Notice) {
        if !notice.on.is_some_and(|on| self.wants(on)) {
            return;
        }
        let is_new =
            self.0.told.lock().unwrap_or_else(PoisonError::into_inner).is_new(notice.key());
        if !is_new {
            return;
        }
        self.0.pending.fetch_add(1, Ordering::Relaxed);
        if self.0.notices.try_send(notice).is_err() {
            self.0.pending.fetch_sub(1, Ordering::Relaxed);
            self.0.metrics.webhook(WebhookResult::Dropped);
            warn!(
                "A notification is dropped: {WAITING} wait to be sent. See whether the webhook \
                 answers."
            );
        }
    }

    /// Waits until all that was told is sent or given up, for this long at most.
    pub async fn flush(&self, most: Duration) {
        let everything = async {
            while self.0.pending.load(Ordering::Relaxed) > 0 {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(most, everything).await.ok();
    }
}

struct Sender {
    settings: Settings,
    cluster: Option<String>,
    transport: Arc<dyn Transport>,
    random: Random,
    template: Arc<Template>,
    metrics: Arc<Metrics>,
}

/// Sends what comes in, a few at a time: one that hangs does not hold up the others.
async fn work(
    sender: Arc<Sender>,
    mut inbox: mpsc::Receiver<Notice>,
    pending: Arc<AtomicUsize>,
    spawner: Spawner,
) {
    let places = Arc::new(Semaphore::new(IN_FLIGHT));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let Some(notice) = inbox.recv().await else { return };
        let (sender, pending) = (Arc::clone(&sender), Arc::clone(&pending));
        drop(spawner.spawn(async move {
            sender.send(&notice).await;
            pending.fetch_sub(1, Ordering::Relaxed);
            drop(place);
        }));
    }
}

impl Sender {
    async fn send(&self, notice: &Notice) {
        let begun = Instant::now();
        let body = self.template.render(&notice.facts(self.cluster.as_deref()));
        let mut backoff = Backoff::new(seconds(2), seconds(16));
        for attempt in 1_u32.. {
            let (why, pause) = match self.once(&body).await {
                Ok(Answer { status: 200..=299, .. }) => {
                    self.metrics.webhook(WebhookResult::Sent);
                    debug!(node = notice.node, "A notification is sent.");
                    return;
                }
                Ok(Answer { status, retry_after }) if is_passing(status) => {
                    (format!("it answers {status}"), retry_after)
                }
                Ok(Answer { status, .. }) => {
                    return self.give_up(
                        notice,
                        &format!("it answers {status}, which no second try changes"),
                    );
                }
                Err(why) => (why, None),
            };
            let pause = pause
                .unwrap_or_else(|| backoff.pause(&self.random))
                .clamp(SHORTEST_PAUSE, LONGEST_PAUSE);
            if attempt >= TRIES || begun.elapsed() + pause >= PATIENCE {
                return self.give_up(notice, &why);
            }
            self.metrics.webhook(WebhookResult::Retried);
            debug!(node = notice.node, why, "A notification is not sent yet.");
            tokio::time::sleep(pause).await;
        }
    }

    async fn once(&self, body: &str) -> Result<Answer, String> {
        // A few lines of a file in memory, where a Secret is mounted.
        let headers = headers(self.settings.headers.as_deref(), content_type(&self.template))
            .map_err(|e| e.to_string())?;
        let post = Post { url: self.settings.url.clone(), headers, body: body.to_owned() };
        tokio::time::timeout(TRY, self.transport.post(&post))
            .await
            .map_err(|_| format!("no answer within {} s", TRY.as_secs()))?
    }

    fn give_up(&self, notice: &Notice, why: &str) {
        self.metrics.webhook(WebhookResult::Failed);
        warn!(
            node = notice.node,
            on = notice.on.map_or("", On::as_str),
            why,
            "A notification could not be sent; it is given up. Drains go on."
        );
    }
}

/// What a second try may change.
const fn is_passing(status: u16) -> bool {
    matches!(status, 408 | 425 | 429 | 500..=599)
}

fn content_type(template: &Template) -> &'static str {
    if template.is_json() { "application/json" } else { "text/plain; charset=utf-8" }
}

/// The headers of every message: ours, and those of the file, which win.
pub(in crate::observe) fn headers(
    file: Option<&Path>,
    kind: &'static str,
) -> Result<http::HeaderMap, Unusable> {
    let mut all = http::HeaderMap::new();
    all.insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static(kind));
    all.insert(
        http::header::USER_AGENT,
        http::HeaderValue::from_static(concat!("sundown/", env!("CARGO_PKG_VERSION"))),
    );
    let Some(path) = file else { return Ok(all) };
    let bad = |why: String| Unusable::Headers { path: path.display().to_string(), why };
    let text = std::fs::read_to_string(path).map_err(|e| bad(format!("cannot be read ({e})")))?;
    for (number, line) in (1..)
        .zip(text.lines())
        .filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'))
    {
        let (name, value) =
            line.split_once(':').ok_or_else(|| bad(format!("line {number} has no colon")))?;
        let name: http::HeaderName = name
            .trim()
            .parse()
            .map_err(|_| bad(format!("line {number} begins with no name of a header")))?;
        let mut value: http::HeaderValue = value
            .trim()
            .parse()
            .map_err(|_| bad(format!("the value in line {number} holds what no header may")))?;
        value.set_sensitive(true);
        all.insert(name, value);
    }
    Ok(all)
}

//! The task that sends notifications.

use std::{
    collections::{BTreeSet, VecDeque},
    fs::File,
    io::{ErrorKind, Read},
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
    Http, Notice, On, Post, Settings, Template, TemplateSource, Transport, UnusableSettings,
    http::Answer,
    notice::{REGION, TYPE, ZONE},
    template::LARGEST_TEMPLATE,
};
use crate::{
    domain::seconds,
    observe::{Metrics, WebhookResult},
    runtime::{Backoff, Random, Spawner},
};

/// How many notifications may wait to be sent; more are dropped and counted.
const WAITING: usize = 1000;
/// How many notifications are sent at the same time.
const IN_FLIGHT: usize = 4;
/// The content type of a notification, unless the file with headers names another one.
const CONTENT_TYPE: &str = "application/json";
/// How long one attempt may take.
const TRY: Duration = seconds(5);
/// For how long a notification is retried at most, counted from its first attempt.
const RETRY_FOR: Duration = seconds(60);
/// How many attempts a notification gets at most.
const TRIES: u32 = 5;
/// The shortest pause between two attempts, even if the server asks for a shorter one.
const SHORTEST_PAUSE: Duration = Duration::from_millis(250);
/// The longest pause between two attempts, even if the server asks for a longer one.
const LONGEST_PAUSE: Duration = seconds(30);
/// How many keys of notifications are remembered, so that none is sent twice.
const REMEMBERED: usize = 10_000;

/// Sends notifications. All clones use one task, which ends when the last clone is dropped.
#[derive(Clone)]
pub struct Notifier(Arc<Inner>);

struct Inner {
    notices: mpsc::Sender<Notice>,
    /// How many notifications are neither sent nor given up yet.
    pending: Arc<AtomicUsize>,
    on: BTreeSet<On>,
    template: Arc<Template>,
    seen: Mutex<SeenKeys>,
    metrics: Arc<Metrics>,
    _task: AbortOnDropHandle<()>,
}

/// The keys of the notifications that were queued already.
#[derive(Default)]
struct SeenKeys {
    keys: BTreeSet<String>,
    /// The same keys, the oldest first.
    order: VecDeque<String>,
}

impl SeenKeys {
    /// Remembers a key. `false`: it was there already.
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

/// What [`Notifier::start`] needs.
pub struct NotifierParts {
    /// The flags for notifications.
    pub settings: Settings,
    /// `--cluster-name`: the value of `{{ cluster }}` in a template.
    pub cluster: Option<String>,
    /// Sends the requests; a fake in tests. `None`: HTTP.
    pub transport: Option<Arc<dyn Transport>>,
    /// Spreads the pauses between attempts.
    pub random: Random,
    /// Starts the task that sends, and one task for each notification.
    pub spawner: Spawner,
    /// Counts the results (`sundown_webhooks_total`).
    pub metrics: Arc<Metrics>,
}

impl std::fmt::Debug for Notifier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Notifier").field("on", &self.0.on).finish_non_exhaustive()
    }
}

impl Notifier {
    /// Reads the template and the headers, and starts the task. Errs when they cannot be read or
    /// used, or when the proxy is not a URL.
    pub fn start(parts: NotifierParts) -> Result<Self, UnusableSettings> {
        let NotifierParts { settings, cluster, transport, random, spawner, metrics } = parts;
        let template = Arc::new(template(&settings)?);
        headers(settings.headers.as_deref(), CONTENT_TYPE)?;
        let transport: Arc<dyn Transport> = match transport {
            Some(transport) => transport,
            None => Arc::new(Http::new(settings.proxy.as_ref()).map_err(UnusableSettings::Proxy)?),
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
            seen: Mutex::default(),
            metrics,
            _task: task,
        })))
    }

    /// Notifications are sent for this event (`--webhook-on` names it).
    #[must_use]
    pub fn wants(&self, on: On) -> bool {
        self.0.on.contains(&on)
    }

    /// The template uses this name. A value that the template does not use need not be looked up.
    #[must_use]
    pub fn uses(&self, name: &str) -> bool {
        self.0.template.uses(name)
    }

    /// The keys of the Node labels that the template uses, by `labels['KEY']` or by a name such as
    /// `zone`: the node index has to keep them.
    pub fn labels(&self) -> impl Iterator<Item = &str> {
        let template = &self.0.template;
        let named = [("zone", ZONE), ("region", REGION), ("type", TYPE)]
            .into_iter()
            .filter(move |(name, _)| template.uses(name))
            .map(|(_, key)| key);
        template.labels().chain(named)
    }

    /// Queues a notification, unless one with the same key was queued before or `--webhook-on` does
    /// not name its event. Never waits: when the queue is full, the notification is dropped.
    pub fn notify(&self, notice: Notice) {
        if !notice.on.is_some_and(|on| self.wants(on)) {
            return;
        }
        let is_new =
            self.0.seen.lock().unwrap_or_else(PoisonError::into_inner).is_new(notice.key());
        if !is_new {
            return;
        }
        self.0.pending.fetch_add(1, Ordering::Relaxed);
        if self.0.notices.try_send(notice).is_err() {
            self.0.pending.fetch_sub(1, Ordering::Relaxed);
            self.0.metrics.webhook(WebhookResult::Dropped);
            warn!(
                "Dropped a notification, because {WAITING} others wait to be sent. Check whether \
                 the webhook answers. Drains go on."
            );
        }
    }

    /// Waits until every queued notification is sent or given up, for `most` at most.
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

/// Sends the queued notifications, up to [`IN_FLIGHT`] at a time, so that one that hangs does not
/// delay the others.
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
        let body = match self.template.render(notice.facts(self.cluster.as_deref())) {
            Ok(body) => body,
            Err(error) => {
                return self.give_up(notice, &format!("the template cannot be used: {error}"));
            }
        };
        let mut backoff = Backoff::new(seconds(2), seconds(16));
        for attempt in 1_u32.. {
            let (why, pause) = match self.once(&body).await {
                Ok(Answer { status: 200..=299, .. }) => {
                    self.metrics.webhook(WebhookResult::Sent);
                    debug!(node = notice.node, "Sent a notification.");
                    return;
                }
                Ok(Answer { status, retry_after }) if is_retryable(status) => {
                    (format!("the webhook answered with status {status}"), retry_after)
                }
                Ok(Answer { status, .. }) => {
                    return self.give_up(
                        notice,
                        &format!("the webhook answered with status {status}; a retry cannot help"),
                    );
                }
                Err(why) => (why, None),
            };
            let pause = pause
                .unwrap_or_else(|| backoff.pause(&self.random))
                .clamp(SHORTEST_PAUSE, LONGEST_PAUSE);
            if attempt >= TRIES || begun.elapsed() + pause >= RETRY_FOR {
                return self.give_up(notice, &why);
            }
            self.metrics.webhook(WebhookResult::Retried);
            debug!(node = notice.node, why, "Could not send a notification yet; retrying.");
            tokio::time::sleep(pause).await;
        }
    }

    async fn once(&self, body: &str) -> Result<Answer, String> {
        // Blocking, but short: a Secret is mounted as a small file in memory.
        let headers =
            headers(self.settings.headers.as_deref(), CONTENT_TYPE).map_err(|e| e.to_string())?;
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
            "Could not send a notification and gave it up. Check the webhook and the template. \
             Drains go on."
        );
    }
}

/// A retry may get another answer than this status.
const fn is_retryable(status: u16) -> bool {
    matches!(status, 408 | 425 | 429 | 500..=599)
}

/// Reads the template and tries it with the events that cause a notification.
fn template(settings: &Settings) -> Result<Template, UnusableSettings> {
    let (flag, text) = match &settings.template {
        TemplateSource::Text(text) => ("--webhook-template".to_owned(), text.clone()),
        TemplateSource::File(path) => {
            let path_text = path.display().to_string();
            let flag = format!("--webhook-template-file {path_text}");
            let text = start_of_file(path)
                .map_err(|source| UnusableSettings::TemplateFile { path: path_text, source })?;
            (flag, text)
        }
    };
    Template::for_events(&text, &settings.on)
        .map_err(|error| UnusableSettings::Template { flag, error })
}

/// The text of a file, up to one byte more than a template may have.
fn start_of_file(path: &Path) -> std::io::Result<String> {
    let mut bytes = Vec::new();
    let limit = u64::try_from(LARGEST_TEMPLATE).unwrap_or(u64::MAX).saturating_add(1);
    File::open(path)?.take(limit).read_to_end(&mut bytes)?;
    if bytes.len() > LARGEST_TEMPLATE {
        return Ok(String::from_utf8_lossy(&bytes).into_owned());
    }
    String::from_utf8(bytes).map_err(|error| std::io::Error::new(ErrorKind::InvalidData, error))
}

/// The headers of every request: Sundown's, overridden by those of the file. `kind`: the content
/// type. Errs when the file cannot be read or has a malformed line.
pub(in crate::observe) fn headers(
    file: Option<&Path>,
    kind: &'static str,
) -> Result<http::HeaderMap, UnusableSettings> {
    let mut all = http::HeaderMap::new();
    all.insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static(kind));
    all.insert(
        http::header::USER_AGENT,
        http::HeaderValue::from_static(concat!("sundown/", env!("CARGO_PKG_VERSION"))),
    );
    let Some(path) = file else { return Ok(all) };
    let bad = |why: String| UnusableSettings::Headers { path: path.display().to_string(), why };
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
            .map_err(|_| bad(format!("line {number} does not begin with the name of a header")))?;
        let mut value: http::HeaderValue = value
            .trim()
            .parse()
            .map_err(|_| bad(format!("the value in line {number} has an invalid character")))?;
        value.set_sensitive(true);
        all.insert(name, value);
    }
    Ok(all)
}

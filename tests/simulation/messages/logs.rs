//! What the service says.

use std::{
    fmt::{self, Write as _},
    sync::{Arc, LazyLock, Mutex},
};

use tracing::{Dispatch, Event, Subscriber, field::Field, subscriber::DefaultGuard};
use tracing_subscriber::{Layer, layer::Context, layer::SubscriberExt as _};

/// Every line that Sundown logs in this thread while this lives (the runtimes of these tests have
/// one thread).
pub struct Logs {
    lines: Arc<Mutex<Vec<String>>>,
    _guard: DefaultGuard,
}

struct Keep(Arc<Mutex<Vec<String>>>);

struct Text(String);

impl tracing::field::Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        write!(self.0, " {}={value:?}", field.name()).unwrap();
    }
}

impl<S: Subscriber> Layer<S> for Keep {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let meta = event.metadata();
        if meta.target().starts_with("sundown") && *meta.level() <= tracing::Level::INFO {
            let mut text = Text(meta.level().to_string());
            event.record(&mut text);
            self.0.lock().unwrap().push(text.0);
        }
    }
}

/// Two subscribers that keep nothing. While a process has only one, tracing asks the thread that
/// reaches a log line first whether anybody wants it, for all threads and for good; that thread may
/// be another test's, which wants none.
static OTHERS: LazyLock<[Dispatch; 2]> = LazyLock::new(|| {
    [Dispatch::new(tracing_subscriber::registry()), Dispatch::new(tracing_subscriber::registry())]
});

impl Logs {
    pub fn keep() -> Self {
        LazyLock::force(&OTHERS);
        let lines = Arc::<Mutex<Vec<String>>>::default();
        let guard = tracing::subscriber::set_default(
            tracing_subscriber::registry().with(Keep(Arc::clone(&lines))),
        );
        Self { lines, _guard: guard }
    }

    /// The lines that hold all of these words.
    pub fn with(&self, words: &[&str]) -> Vec<String> {
        self.lines
            .lock()
            .unwrap()
            .iter()
            .filter(|line| words.iter().all(|w| line.contains(w)))
            .cloned()
            .collect()
    }
}

#[test]
fn a_line_that_another_thread_logs_first_is_kept_too() {
    fn log() {
        tracing::info!(target: "sundown::tests", "A line of this test");
    }
    let logs = Logs::keep();
    std::thread::spawn(log).join().unwrap();
    log();
    assert_eq!(logs.with(&["A line of this test"]).len(), 1);
}

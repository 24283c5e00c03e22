//! Receivers of what happens, besides logs, metrics and Events.

use std::sync::Arc;

use super::TrialLog;
use crate::observe::{traces::TraceSink, webhook::Notifier};

/// Receivers of what happens, besides logs, metrics and Events. By default none.
#[derive(Debug, Clone, Default)]
pub struct Sinks {
    /// The log of a trial. `None`: this run is not a trial.
    pub trial: Option<TrialLog>,
    /// Sends notifications. `None` without a webhook.
    pub notifier: Option<Notifier>,
    /// Sends traces. `None` without a collector.
    pub tracer: Option<Arc<dyn TraceSink>>,
}

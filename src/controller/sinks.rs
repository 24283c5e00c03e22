//! Where else it is told what happens, besides logs, metrics and Events.

use super::TrialLog;
use crate::observe::{traces::Tracer, webhook::Notifier};

/// Where else it is told what happens. By default nowhere.
#[derive(Debug, Clone, Default)]
pub struct Sinks {
    /// This run is a trial, recorded there.
    pub trial: Option<TrialLog>,
    /// Who sends notifications.
    pub notifier: Option<Notifier>,
    /// Who sends traces.
    pub tracer: Option<Tracer>,
}

//! Validates the flags of what is sent out: traces, the webhook, and the log of a trial.

use super::{args::RunArgs, error::ConfigError, values::given};
use crate::observe::{
    traces,
    webhook::{DEFAULT_TEMPLATE, Secret, Settings, Template, TemplateSource, beginning},
};

pub(super) fn traces(args: &RunArgs) -> Result<Option<traces::Settings>, ConfigError> {
    let headers = args.service.otlp_headers_file.clone().filter(|p| !p.as_os_str().is_empty());
    let Some(text) = given(args.service.otlp_endpoint.clone()) else {
        let Some(file) = headers else { return Ok(None) };
        let remedy = format!(
            "there is no collector to send to, although headers are given ({}); give the URL too, or \
             none of them",
            file.display()
        );
        return Err(ConfigError::new("otlp-endpoint", None, remedy));
    };
    if !cfg!(feature = "otlp") {
        let remedy = "this build sends no traces; take one that was built with the feature \
            `otlp`, as it is by default, or take the setting away";
        return Err(ConfigError::new("otlp-endpoint", Some(&text), remedy));
    }
    let parsed = url::Url::parse(&text).ok();
    if parsed.as_ref().is_some_and(|u| !u.username().is_empty() || u.password().is_some()) {
        let remedy = "a name or a password in a URL is shown wherever the URL is, and is not \
            sent; give the collector's token in --otlp-headers-file";
        return Err(ConfigError::new("otlp-endpoint", Some("(not shown)"), remedy));
    }
    // OTLP over gRPC has no path and listens on another port, 4317.
    let fine = parsed.is_some_and(|u| {
        matches!(u.scheme(), "http" | "https") && u.host_str().is_some() && u.query().is_none()
    });
    if !fine {
        return Err(ConfigError::new(
            "otlp-endpoint",
            Some(&text),
            "not an http(s) URL; use one such as http://collector.example.com:4318",
        ));
    }
    Ok(Some(traces::Settings::at(&text, headers)))
}

/// Parses a URL that is a secret; errors do not show it.
fn secret_url(
    flag: &'static str,
    text: Option<String>,
    example: &str,
) -> Result<Option<Secret>, ConfigError> {
    let Some(text) = given(text) else { return Ok(None) };
    let fine = url::Url::parse(&text)
        .is_ok_and(|u| matches!(u.scheme(), "http" | "https") && u.host_str().is_some());
    if !fine {
        return Err(ConfigError::new(
            flag,
            Some("(not shown)"),
            format!("not an http(s) URL; use one such as {example}"),
        ));
    }
    Ok(Some(Secret::new(text)))
}

pub(super) fn webhook(args: &RunArgs) -> Result<Option<Settings>, ConfigError> {
    let w = args.webhook.clone();
    let (file, headers) = (
        w.webhook_template_file.filter(|p| !p.as_os_str().is_empty()),
        w.webhook_headers_file.filter(|p| !p.as_os_str().is_empty()),
    );
    let template = match (given(w.webhook_template), file) {
        (Some(_), Some(file)) => {
            let remedy = "--webhook-template gives a text too; give one of the two";
            return Err(ConfigError::new(
                "webhook-template-file",
                Some(&file.display().to_string()),
                remedy,
            ));
        }
        (Some(text), None) => Some(TemplateSource::Text(text)),
        (None, file) => file.map(TemplateSource::File),
    };
    let proxy = secret_url("webhook-proxy", w.webhook_proxy, "http://proxy.internal:3128")?;
    let Some(url) = secret_url("webhook-url", w.webhook_url, "https://hooks.slack.com/services/…")?
    else {
        if template.is_some() || headers.is_some() || proxy.is_some() {
            let remedy = "there is no URL to send to, although a template, headers or a proxy are \
                given; give the URL too, or none of them";
            return Err(ConfigError::new("webhook-url", None, remedy));
        }
        return Ok(None);
    };
    let template = template.unwrap_or_else(|| TemplateSource::Text(DEFAULT_TEMPLATE.to_owned()));
    let on = w.webhook_on.into_iter().collect();
    if let TemplateSource::Text(text) = &template {
        Template::for_events(text, &on).map_err(|error| {
            ConfigError::new("webhook-template", Some(&beginning(text)), error.to_string())
        })?;
    }
    Ok(Some(Settings { url, on, template, headers, proxy }))
}

pub(super) fn trial(args: &RunArgs) -> Result<Option<std::path::PathBuf>, ConfigError> {
    if !args.trial {
        return Ok(None);
    }
    if !args.dry_run {
        return Err(ConfigError::new(
            "trial",
            Some("true"),
            "a trial deletes events and acts on none; add --dry-run",
        ));
    }
    if args.queue.shared_queue {
        return Err(ConfigError::new(
            "trial",
            Some("true"),
            "it deletes what it receives, and others receive from a shared queue; take a queue of \
             its own",
        ));
    }
    // The name that terraform/ gives the queue, with or without the suffix that it appends to a
    // prefix.
    let made_for_it = |name: &str| name.ends_with("-trial") || name.contains("-trial-");
    if let Some(other) = args.queue.queue_url.iter().find(|q| !made_for_it(&q.name)) {
        let remedy = "not the queue of a trial, and a trial deletes what it receives; make one \
            whose name ends with -trial (terraform/: trial_queue)";
        return Err(ConfigError::new("queue-url", Some(&other.url), remedy));
    }
    if args.trial_log.as_os_str().is_empty() {
        return Err(ConfigError::new(
            "trial-log",
            Some(""),
            "give a file, or - for standard output",
        ));
    }
    Ok(Some(args.trial_log.clone()))
}

//! The daemon's own log: stderr, text or JSON, ids as fields.

use berth_config::{Log, LogFormat, LogLevel};
use std::io::IsTerminal;
use tracing::Level;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, fmt};

/// Libraries that say too much below this.
const NOISY: [&str; 8] = ["h2", "hyper", "hyper_util", "tonic", "tower", "rustls", "reqwest", "redb"];

/// Starts logging. A second call (in tests) changes nothing.
pub fn init(config: &Log) {
    let level = level(config.level);
    let noisy = NOISY.iter().map(|name| (*name, level.min(Level::WARN)));
    let filter = Targets::new().with_default(level).with_targets(noisy);
    let layer = match config.format {
        LogFormat::Json => json(),
        LogFormat::Text => text(),
    };
    let _ = tracing_subscriber::registry().with(layer.with_filter(filter)).try_init();
}

fn json() -> Box<dyn Layer<Registry> + Send + Sync> {
    let layer = fmt::layer().json().flatten_event(true).with_current_span(true).with_span_list(false);
    layer.with_writer(std::io::stderr).boxed()
}

fn text() -> Box<dyn Layer<Registry> + Send + Sync> {
    let layer = fmt::layer().with_target(false).with_ansi(std::io::stderr().is_terminal());
    // journald writes the time itself.
    match std::env::var_os("JOURNAL_STREAM") {
        Some(_) => layer.without_time().with_writer(std::io::stderr).boxed(),
        None => layer.with_writer(std::io::stderr).boxed(),
    }
}

fn level(level: LogLevel) -> Level {
    match level {
        LogLevel::Error => Level::ERROR,
        LogLevel::Warn => Level::WARN,
        LogLevel::Info => Level::INFO,
        LogLevel::Debug => Level::DEBUG,
        LogLevel::Trace => Level::TRACE,
    }
}

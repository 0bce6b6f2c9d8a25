//! The wire and nothing else: one line a call in [`runtime`] and [`image`], conversions in [`convert`], codes in
//! [`status`]. What every call has in common (admission, span, log, error) is done once, here.

pub mod convert;
mod image;
pub mod route;
mod runtime;
pub mod status;
pub mod subject;

use crate::app::App;
use berth_core::{Error, ErrorClass};
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use subject::{About, Subject};
use tonic::{Response, Status};
use tracing::Instrument;
use tracing::field::Empty;

/// Which gate a call passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cost {
    /// None: it ends something.
    Free,
    /// None, and it comes so often that only its failures are worth a line: probes and status.
    Quiet,
    /// It only looks.
    Cheap,
    /// It pulls.
    Pull,
    /// It starts something.
    Expensive,
}

/// The server of both services.
#[derive(Clone)]
pub struct Cri {
    app: Arc<App>,
    calls: Arc<AtomicU64>,
}

impl Cri {
    /// A server over `app`.
    #[must_use]
    pub fn new(app: Arc<App>) -> Self {
        Self { app, calls: Arc::new(AtomicU64::new(0)) }
    }

    /// What every call has in common.
    async fn call<T>(
        &self,
        name: &'static str,
        cost: Cost,
        subject: &Subject,
        verb: impl Future<Output = Result<T, Error>>,
    ) -> Result<Response<T>, Status>
    where
        T: About,
    {
        let n = self.calls.fetch_add(1, Relaxed);
        let span =
            tracing::info_span!("call", rpc = name, n, about = Empty, sandbox = Empty, container = Empty);
        subject.record(&span);
        async {
            let begun = Instant::now();
            let _permit = self.app.admission.enter(cost).await;
            let waited = begun.elapsed();
            let done = verb.await;
            if let Ok(answer) = &done {
                answer.subject().record(&tracing::Span::current());
            }
            report(cost, waited, begun.elapsed(), done.as_ref().err());
            done.map(Response::new).map_err(|error| status::of(&error))
        }
        .instrument(span)
        .await
    }
}

fn report(cost: Cost, waited: Duration, took: Duration, error: Option<&Error>) {
    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let (ms, waited_ms) = (millis(took), millis(waited));
    match error {
        Some(error) if error.class() == ErrorClass::NotFound => tracing::info!(ms, %error, "not found"),
        Some(error) => tracing::warn!(ms, class = ?error.class(), %error, "failed"),
        None if waited > Duration::from_secs(1) => tracing::warn!(ms, waited_ms, "waited for its turn"),
        None if matches!(cost, Cost::Cheap | Cost::Quiet) => tracing::debug!(ms, "done"),
        None => tracing::info!(ms, "done"),
    }
}

/// The field of a request, or the error that names it.
fn required<T>(field: Option<T>, name: &str) -> Result<T, Error> {
    field.ok_or_else(|| Error::invalid(format!("{name} is missing")))
}

/// The answer of calls that are not built.
fn missing(name: &str) -> Status {
    Status::unimplemented(format!("{name} is not implemented by this version of berth"))
}

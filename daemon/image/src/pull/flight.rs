//! Single flight: equal wishes share one pull.

use super::error::{Error, ErrorKind};
use super::{PullRequest, Shared, image};
use crate::auth::RegistryAuth;
use crate::index::PulledImage;
use crate::platform::Platform;
use crate::progress::Progress;
use crate::reference::Reference;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

type Outcome = Result<PulledImage, Error>;

/// What makes two wishes equal.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Key {
    reference: Reference,
    auth: RegistryAuth,
    platform: Platform,
}

/// Pulls under way.
#[derive(Default)]
pub(crate) struct Flights(Mutex<HashMap<Key, Flight>>);

struct Flight {
    outcome: watch::Receiver<Option<Outcome>>,
    cancel: CancellationToken,
    waiters: usize,
    listeners: Arc<Mutex<Vec<Progress>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Counts one waiter of a flight; the last one to go ends it.
struct Waiter {
    shared: Arc<Shared>,
    key: Key,
    cancel: CancellationToken,
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let mut flights = lock(&self.shared.flights.0);
        let Some(flight) = flights.get_mut(&self.key) else { return };
        // The flight of this key may be a later one: ours ended and was taken off.
        if flight.cancel != self.cancel {
            return;
        }
        flight.waiters -= 1;
        if flight.waiters == 0 {
            flight.cancel.cancel();
            flights.remove(&self.key);
        }
    }
}

/// Joins the flight for `request` or starts it, and waits.
pub(super) async fn join(shared: &Arc<Shared>, request: PullRequest) -> Outcome {
    let PullRequest { reference, auth, platform, progress, cancel } = request;
    let key = Key { reference: reference.clone(), auth, platform };
    let (waiter, mut outcome) = board(shared, key, progress);
    let cancelled = || Error::new(&reference, ErrorKind::Cancelled);
    let result = tokio::select! {
        () = cancel.cancelled() => Err(cancelled()),
        done = outcome.wait_for(Option::is_some) => match done {
            Ok(done) => done.clone().unwrap_or_else(|| Err(cancelled())),
            Err(_) => Err(cancelled()),
        },
    };
    drop(waiter);
    result
}

fn board(shared: &Arc<Shared>, key: Key, progress: Progress) -> (Waiter, watch::Receiver<Option<Outcome>>) {
    let mut flights = lock(&shared.flights.0);
    let flight = flights.entry(key.clone()).or_insert_with(|| start(shared, &key));
    flight.waiters += 1;
    lock(&flight.listeners).push(progress);
    let waiter = Waiter { shared: Arc::clone(shared), key, cancel: flight.cancel.clone() };
    (waiter, flight.outcome.clone())
}

fn start(shared: &Arc<Shared>, key: &Key) -> Flight {
    let (tell, outcome) = watch::channel(None);
    let cancel = CancellationToken::new();
    let listeners: Arc<Mutex<Vec<Progress>>> = Arc::default();
    let heard = Arc::clone(&listeners);
    let progress = Progress::new(move |event| {
        for listener in lock(&heard).iter() {
            listener.tell(event.clone());
        }
    });
    let (shared, key, stop) = (Arc::clone(shared), key.clone(), cancel.clone());
    tokio::spawn(async move {
        let kept = OnceLock::new();
        let pull = image::pull(&shared, &key.reference, &key.auth, &key.platform, progress, &kept);
        let result = tokio::select! {
            () = stop.cancelled() => Err(ErrorKind::Cancelled),
            result = pull => result,
        };
        {
            let mut flights = lock(&shared.flights.0);
            if flights.get(&key).is_some_and(|flight| flight.cancel == stop) {
                flights.remove(&key);
            }
        }
        if let Err(kind) = &result {
            shared.collect_after(kind, kept.into_inner());
        }
        tell.send_replace(Some(result.map_err(|kind| Error::new(&key.reference, kind))));
    });
    Flight { outcome, cancel, waiters: 0, listeners }
}

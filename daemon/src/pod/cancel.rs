//! A wish that an operation be given up. The operation looks at it between its steps, and undoes them itself.

use super::Error;
use std::future::Future;
use std::time::Duration;
use tokio::sync::watch;

/// The wisher's end.
#[derive(Debug)]
pub struct Canceller(watch::Sender<bool>);

/// The operation's end.
#[derive(Debug, Clone)]
pub struct Cancel(watch::Receiver<bool>);

impl Canceller {
    /// Both ends.
    #[must_use]
    pub fn new() -> (Self, Cancel) {
        let (sender, receiver) = watch::channel(false);
        (Self(sender), Cancel(receiver))
    }

    /// Wishes it.
    pub fn cancel(&self) {
        self.0.send_replace(true);
    }
}

impl Cancel {
    /// Fails once the operation is to be given up.
    ///
    /// # Errors
    /// [`Error::Cancelled`] with the operation's name.
    pub fn check(&self, what: &'static str) -> Result<(), Error> {
        if *self.0.borrow() { Err(Error::Cancelled(what)) } else { Ok(()) }
    }

    /// Waits for `work`, but not after the wish. Only for work that may be dropped where it stands.
    ///
    /// # Errors
    /// [`Error::Cancelled`], or the work's own.
    pub async fn or<T>(
        &self,
        what: &'static str,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let mut wish = self.0.clone();
        let wished = async {
            if wish.wait_for(|wished| *wished).await.is_err() {
                // The wisher is gone without a wish: nothing will ever come.
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            done = work => done,
            () = wished => Err(Error::Cancelled(what)),
        }
    }

    /// Waits for `work`, but not longer than `margin` after the wish.
    ///
    /// # Errors
    /// [`Error::Cancelled`], or the work's own.
    pub async fn or_late<T>(
        &self,
        what: &'static str,
        margin: Duration,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let never = std::future::pending::<Result<(), Error>>();
        let late = async {
            let wished = self.or(what, never).await;
            tokio::time::sleep(margin).await;
            wished
        };
        tokio::select! {
            done = work => done,
            wished = late => wished.and(Err(Error::Cancelled(what))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_wish_ends_the_waiting_at_once_or_after_the_margin() {
        let (canceller, cancel) = Canceller::new();
        assert_eq!(cancel.or("x", async { Ok(1) }).await, Ok(1));
        let hung = || std::future::pending::<Result<(), Error>>();
        canceller.cancel();
        assert_eq!(cancel.or("x", hung()).await, Err(Error::Cancelled("x")));
        let margin = Duration::from_millis(30);
        let slow = async {
            tokio::time::sleep(Duration::from_millis(5)).await;
            Ok(2)
        };
        assert_eq!(cancel.or_late("x", margin, slow).await, Ok(2), "it was nearly done");
        assert_eq!(cancel.or_late("x", margin, hung()).await, Err(Error::Cancelled("x")));
    }
}

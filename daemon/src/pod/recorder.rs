//! Everything that pods save goes through one thread in the order it was sent, so that a later state of an object
//! can never be overwritten by an earlier one.

use super::Error;
use crate::container::ContainerRecord;
use crate::pod::machine::Write;
use crate::sandbox::SandboxRecord;
use berth_core::{ContainerId, SandboxId};
use berth_store::Store;
use std::sync::Arc;
use std::sync::mpsc;
use tokio::sync::oneshot;

/// One change of the store.
#[derive(Debug, Clone)]
pub(crate) enum Row {
    /// A sandbox as it is now.
    Sandbox(Arc<SandboxRecord>),
    /// A container as it is now.
    Container(Arc<ContainerRecord>),
    /// A container that begins: its image is checked and held in the same transaction.
    NewContainer(Arc<ContainerRecord>),
    /// A sandbox that is gone.
    NoSandbox(SandboxId),
    /// A container that is gone, and its hold on its image.
    NoContainer(ContainerId),
    /// A sandbox's row of any key: what cannot be read has no proper id.
    Stray(String),
}

/// The way to the thread.
#[derive(Debug, Clone)]
pub(crate) struct Recorder(mpsc::Sender<Order>);

/// Rows, and who waits for them.
type Order = (Vec<Row>, oneshot::Sender<Result<(), Error>>);

impl Recorder {
    /// Starts the thread; it ends with the last handle.
    ///
    /// # Errors
    /// No thread could be made.
    pub(crate) fn start(store: Store) -> Result<Self, Error> {
        let (sender, inbox) = mpsc::channel::<Order>();
        let work = move || {
            while let Ok((rows, done)) = inbox.recv() {
                let result = rows.iter().try_for_each(|row| write(&store, row));
                // The caller may have gone; the row is written all the same.
                let _ = done.send(result);
            }
        };
        let thread = std::thread::Builder::new().name("recorder".to_owned()).spawn(work);
        thread.map_err(|error| Error::internal("start the recorder's thread", error))?;
        Ok(Self(sender))
    }

    /// Saves rows; they are in their order even if nobody waits.
    pub(crate) fn save(&self, rows: Vec<Row>) -> impl Future<Output = Result<(), Error>> + Send + 'static {
        let (done, end) = oneshot::channel();
        let sent = self.0.send((rows, done)).map_err(|_| Error::Closed);
        async move {
            sent?;
            end.await.map_err(|_| Error::Closed)?
        }
    }
}

impl From<Write> for Row {
    fn from(write: Write) -> Self {
        match write {
            Write::Sandbox(record) => Self::Sandbox(record),
            Write::Container(record) => Self::Container(record),
        }
    }
}

fn write(store: &Store, row: &Row) -> Result<(), Error> {
    super::faults::STORE_WRITE.pass().map_err(|fault| Error::step("save", &fault))?;
    let saved = match row {
        Row::Sandbox(record) => store.sandboxes().put(record.id.as_str(), &**record),
        Row::Container(record) => store.containers().put(record.id.as_str(), &**record),
        Row::NewContainer(record) => store.create_container(record.id.as_str(), &record.image_id, &**record),
        Row::NoSandbox(id) => store.sandboxes().delete(id.as_str()),
        Row::NoContainer(id) => store.delete_container(id.as_str()),
        Row::Stray(key) => store.sandboxes().delete(key),
    };
    saved.map_err(|error| Error::step("save", &error))
}

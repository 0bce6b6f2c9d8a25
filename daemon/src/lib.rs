//! berthd: the node daemon that serves CRI.
//!
//! Way of a call: [`server`] → [`cri`] (wire only) → [`service`] (one verb a file) → the nouns below it. [`app`]
//! wires every part once; [`run`] is the whole life of the process.

pub mod admission;
pub mod app;
pub mod args;
pub mod begin;
pub mod blocking;
pub mod container;
pub mod cri;
pub mod driver;
pub mod events;
pub mod faults;
pub mod figure;
pub mod gc;
pub mod host;
pub mod lock;
pub mod logging;
pub mod man;
pub mod notify;
pub mod paths;
mod patience;
pub mod pod;
pub mod probe;
pub mod recovery;
pub mod run;
pub mod sandbox;
pub mod server;
pub mod service;
pub mod stats;
pub mod supervisor;
pub mod undo;
pub mod unpack;
pub mod wiring;

//! ttrpc, unary calls only: the small RPC protocol between containerd and its shims, spoken here between the
//! daemon and its own shims. The framing and the two envelope messages are containerd's, so that either side
//! can be replaced by a foreign one.
//!
//! A call runs to its end on the server whatever becomes of the caller: neither a deadline nor a lost
//! connection cancels work that has begun.

mod client;
mod frame;
mod message;
mod server;
pub mod socket;
mod status;

pub use client::{CallError, Client, ConnectError};
pub use frame::{FrameError, FrameHeader, HEADER_LEN, Kind, flag};
pub use message::{KeyValue, Request, Response, RpcStatus};
pub use server::{Answer, Server, Service};
pub use status::{Code, Status};

/// The largest frame that containerd's implementation takes.
pub const DEFAULT_FRAME_MAX: usize = 4 << 20;

//! The two envelopes of ttrpc, field for field as containerd has them.

use prost::Message;

/// A call.
#[derive(Clone, PartialEq, Message)]
pub struct Request {
    /// Full name of the service, e.g. `berth.shim.v1.Shim`.
    #[prost(string, tag = "1")]
    pub service: String,
    /// Name of the method alone.
    #[prost(string, tag = "2")]
    pub method: String,
    /// The encoded request message.
    #[prost(bytes = "vec", tag = "3")]
    pub payload: Vec<u8>,
    /// How long the caller is going to wait; 0 for ever.
    #[prost(int64, tag = "4")]
    pub timeout_nano: i64,
    /// Pairs of the caller's own.
    #[prost(message, repeated, tag = "5")]
    pub metadata: Vec<KeyValue>,
}

/// The answer to a call.
#[derive(Clone, PartialEq, Message)]
pub struct Response {
    /// Unset or code 0: success.
    #[prost(message, optional, tag = "1")]
    pub status: Option<RpcStatus>,
    /// The encoded response message.
    #[prost(bytes = "vec", tag = "2")]
    pub payload: Vec<u8>,
}

/// google.rpc.Status without its details, which nobody here reads.
#[derive(Clone, PartialEq, Message)]
pub struct RpcStatus {
    /// A gRPC code.
    #[prost(int32, tag = "1")]
    pub code: i32,
    /// What happened.
    #[prost(string, tag = "2")]
    pub message: String,
}

/// One pair of metadata.
#[derive(Clone, PartialEq, Message)]
pub struct KeyValue {
    /// The name.
    #[prost(string, tag = "1")]
    pub key: String,
    /// The value.
    #[prost(string, tag = "2")]
    pub value: String,
}

//! runtime.v1: the Container Runtime Interface, server and client.
#![allow(
    missing_docs,
    unreachable_pub,
    clippy::all,
    clippy::allow_attributes_without_reason,
    clippy::too_many_lines,
    reason = "generated from cri/api.proto, where the words are explained"
)]

tonic::include_proto!("runtime.v1");

//! runtime.v1: the Container Runtime Interface, server and client.
#![allow(missing_docs, reason = "generated from cri/api.proto, where the words are explained")]

tonic::include_proto!("runtime.v1");

//! The network against a real kernel. Each test lives in network and mount namespaces of its own, so that nothing of
//! the machine is touched; root is needed, and without it the tests say so and pass.

#![allow(clippy::unwrap_used, reason = "clippy's allowance for tests does not reach their helpers")]

mod auto;
mod builtin;
mod cni;
mod plugins;
mod ports;
mod world;

//! berthd: the node daemon that serves CRI.

fn main() {}

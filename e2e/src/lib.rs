//! End-to-end harness: private nodes, images, a registry, real clients, a leak checker.

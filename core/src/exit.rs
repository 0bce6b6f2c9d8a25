//! How a container's program ended.

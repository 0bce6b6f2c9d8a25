//! The daemon's configuration: one struct per subject, every key with a default, unknown keys refused.

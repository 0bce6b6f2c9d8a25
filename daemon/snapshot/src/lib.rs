//! Layers on disk and the overlay plans made of them.

//! From an image reference to layers on disk: reference, registry client, verification, unpacking.

//! Forgetting connections that still lead to a pod that has gone, or past one that has come.

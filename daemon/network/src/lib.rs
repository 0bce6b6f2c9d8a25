//! A pod's network: namespaces, loopback, the built-in bridge, CNI plugins.

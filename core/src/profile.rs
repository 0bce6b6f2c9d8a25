//! Default profile texts: seccomp, capabilities, masked paths.

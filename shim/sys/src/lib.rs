//! The only unsafe code of the workspace: process creation and the system calls that rustix lacks.

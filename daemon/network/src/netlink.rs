//! Netlink, as much of it as a pod needs: messages are built and read here, and spoken over a blocking socket.
//!
//! Both rtnetlink and nfnetlink have the same shape (a header, a fixed part, nested attributes), so one small
//! encoder serves both.

pub(crate) mod conntrack;
pub(crate) mod message;
pub(crate) mod nft;
pub(crate) mod route;
pub(crate) mod rule;
pub(crate) mod socket;

use std::io;

/// The kernel refused a netlink request.
#[derive(Debug, thiserror::Error)]
pub enum NetlinkError {
    /// The kernel answered with an errno.
    #[error("{what}: {source}")]
    Refused {
        /// What was asked.
        what: String,
        /// The errno.
        #[source]
        source: io::Error,
    },
    /// The socket failed.
    #[error("netlink socket: {source}")]
    Socket {
        /// The errno.
        #[source]
        source: io::Error,
    },
    /// The kernel's answer could not be read.
    #[error("{what}: the kernel's answer is cut short")]
    Short {
        /// What was asked.
        what: String,
    },
}

impl NetlinkError {
    /// The errno behind it, if there is one.
    pub fn errno(&self) -> Option<i32> {
        match self {
            NetlinkError::Refused { source, .. } | NetlinkError::Socket { source } => source.raw_os_error(),
            NetlinkError::Short { .. } => None,
        }
    }

    /// Whether the kernel said that the thing is not there.
    pub(crate) fn is_missing(&self) -> bool {
        use rustix::io::Errno;
        let missing = [Errno::NOENT, Errno::NODEV, Errno::SRCH, Errno::ADDRNOTAVAIL];
        self.errno().is_some_and(|code| missing.iter().any(|e| e.raw_os_error() == code))
    }

    /// Whether the kernel said that the thing is there already.
    pub(crate) fn is_existing(&self) -> bool {
        self.errno() == Some(rustix::io::Errno::EXIST.raw_os_error())
    }
}

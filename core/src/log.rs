//! The CRI log record: writer and reader.

//! What every part of Berth shares and nothing else: ids, log records, exit records, error classes, profile texts, fault points. No I/O.

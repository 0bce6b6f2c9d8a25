//! How willingly the kernel kills this process when memory runs out.

use rustix::io::Errno;

use crate::error::{At, Failure};

const FILE: &str = "/proc/self/oom_score_adj";

/// Writes the value; where the kernel does not let us go that low, what we have stays, with a warning.
pub(super) fn adjust(value: Option<i32>, warnings: &mut Vec<String>) -> Result<(), Failure> {
    let Some(value) = value else { return Ok(()) };
    match std::fs::write(FILE, value.to_string()) {
        Ok(()) => Ok(()),
        Err(error) if error.raw_os_error() == Some(Errno::ACCESS.raw_os_error()) => {
            warnings.push(format!("oom_score_adj {value} takes CAP_SYS_RESOURCE and was left as it is"));
            Ok(())
        }
        Err(error) => Err(error).at("set oom_score_adj", FILE),
    }
}

//! Errors where callers of runc look for them: on standard error, and in the file of `--log`, as text or as JSON.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use super::OciError;

/// Where and how.
#[derive(Debug, Clone, Default)]
pub(crate) struct Log {
    file: Option<PathBuf>,
    json: bool,
}

impl Log {
    pub(crate) fn new(file: Option<&str>, format: Option<&str>) -> Self {
        Self { file: file.filter(|f| !f.is_empty()).map(PathBuf::from), json: format == Some("json") }
    }

    /// Tells an error and gives the exit code.
    pub(crate) fn fail(&self, error: &OciError) -> ExitCode {
        self.fail_with(error, 1)
    }

    /// The same with another exit code.
    pub(crate) fn fail_with(&self, error: &OciError, code: u8) -> ExitCode {
        let text = error.to_string();
        eprintln!("berth-oci: {text}");
        self.write("error", &text);
        ExitCode::from(code)
    }

    /// Tells something that was no reason to fail.
    pub(crate) fn warn(&self, text: &str) {
        self.write("warning", text);
    }

    fn write(&self, level: &str, text: &str) {
        let Some(path) = &self.file else { return };
        let line = if self.json {
            serde_json::json!({"level": level, "msg": text, "time": now()}).to_string()
        } else {
            format!("time=\"{}\" level={level} msg={text:?}", now())
        };
        let file = std::fs::File::options().append(true).create(true).open(path);
        // A log that cannot be written is no reason to fail, and there is nobody else to tell.
        let _ = file.and_then(|mut file| file.write_all(format!("{line}\n").as_bytes()));
    }
}

/// The time of day, RFC 3339.
pub(crate) fn now() -> String {
    stamp(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as i64))
}

/// RFC 3339 with nanoseconds, from nanoseconds since the epoch.
pub(crate) fn stamp(nanos: i64) -> String {
    let (seconds, nanos) = (nanos.div_euclid(1_000_000_000), nanos.rem_euclid(1_000_000_000));
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // Days to a date, counted in eras of 400 years that begin in March.
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{nanos:09}Z")
}

#[cfg(test)]
mod tests {
    use super::stamp;

    #[test]
    fn dates() {
        assert_eq!(stamp(0), "1970-01-01T00:00:00.000000000Z");
        assert_eq!(stamp(951_827_696_000_000_001), "2000-02-29T12:34:56.000000001Z");
        assert_eq!(stamp(1_798_761_599_000_000_000), "2026-12-31T23:59:59.000000000Z");
    }
}

//! Counting what test runners say, so that the run ends with one true line.

/// Tests passed, failed and skipped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) skipped: u64,
}

impl Counts {
    /// Adds another runner's counts.
    pub(crate) fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }

    /// Counts in one line of output: libtest's `test result: …` or our own `N passed, N failed, N skipped`.
    pub(crate) fn in_line(line: &str) -> Option<Self> {
        let line = line.trim();
        if let Some((_, rest)) = line.split_once("test result: ") {
            let field = |word: &str| number_before(rest, word);
            return Some(Self {
                passed: field("passed")?,
                failed: field("failed")?,
                skipped: field("ignored")?,
            });
        }
        // Not the closing line of a run inside a test, which is shown behind a bar.
        let closing = line.starts_with(|c: char| c.is_ascii_digit())
            && line.split(", ").count() == 3
            && line.ends_with("skipped");
        let field = |word: &str| number_before(line, word);
        closing.then_some(())?;
        Some(Self { passed: field("passed")?, failed: field("failed")?, skipped: field("skipped")? })
    }
}

impl std::fmt::Display for Counts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped)
    }
}

fn number_before(text: &str, word: &str) -> Option<u64> {
    let words: Vec<&str> =
        text.split(|c: char| c.is_whitespace() || c == ';' || c == ',' || c == '.').collect();
    let words: Vec<&str> = words.into_iter().filter(|w| !w.is_empty()).collect();
    let at = words.iter().position(|w| *w == word)?;
    words.get(at.checked_sub(1)?)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::Counts;

    #[test]
    fn both_kinds_of_closing_line_are_counted() {
        let libtest = "test result: FAILED. 12 passed; 3 failed; 2 ignored; 0 measured; 7 filtered out; finished in 0.01s";
        let expected = Counts { passed: 12, failed: 3, skipped: 2 };
        assert_eq!(Counts::in_line(libtest), Some(expected));
        assert_eq!(Counts::in_line(" 12 passed, 3 failed, 2 skipped\n"), Some(expected));
        assert_eq!(Counts::in_line(&expected.to_string()), Some(expected));
    }

    #[test]
    fn other_lines_are_not() {
        for line in [
            "running 3 tests",
            "test a::b ... ok",
            "1 passed, 2 failed",
            "| 0 passed, 1 failed, 0 skipped",
            "",
        ] {
            assert_eq!(Counts::in_line(line), None, "{line}");
        }
    }
}

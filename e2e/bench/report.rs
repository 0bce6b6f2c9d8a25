//! BENCHMARKS.md: each benchmark writes its own section and leaves the others.

use anyhow::Context;
use std::fs;
use std::path::Path;

/// The benchmarks in the order in which the file has them.
const ORDER: [&str; 3] = ["pod", "node", "runtime"];

const HEAD: &str = "\
# Benchmarks

Berth beside its peers, each built from its pinned source. The sides run in turn on one machine in one sitting, so that
the machine's mood falls on all alike. Times are milliseconds, median and (95th percentile); ratios are to the first
column. Figures of one machine mean little elsewhere: each section says how to repeat it, and the command writes the
section anew. What each figure is to become is in ARCHITECTURE.md.
";

/// Puts a section into the file, in place of the one that it had.
pub(crate) fn put(path: &Path, subject: &str, text: &str) -> anyhow::Result<()> {
    // No file yet is a file without sections.
    let old = fs::read_to_string(path).unwrap_or_default();
    fs::write(path, merged(&old, subject, text)).with_context(|| path.display().to_string())
}

fn merged(old: &str, subject: &str, text: &str) -> String {
    let mut file = HEAD.to_owned();
    for name in ORDER {
        let kept = section(old, name);
        let body = if name == subject { Some(text.trim()) } else { kept };
        if let Some(body) = body {
            file.push_str(&format!("\n{}\n{body}\n{}\n", open(name), close(name)));
        }
    }
    file
}

fn section<'a>(file: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = file.split_once(&open(name))?;
    Some(rest.split_once(&close(name))?.0.trim())
}

fn open(name: &str) -> String {
    format!("<!-- bench {name} -->")
}

fn close(name: &str) -> String {
    format!("<!-- end of bench {name} -->")
}

#[cfg(test)]
mod tests {
    use super::{merged, section};

    #[test]
    fn a_section_replaces_its_own_only() {
        let file = merged("", "node", "one");
        let file = merged(&file, "pod", "two\n");
        let file = merged(&file, "node", "three");
        assert_eq!(section(&file, "node"), Some("three"));
        assert_eq!(section(&file, "pod"), Some("two"));
        assert_eq!(section(&file, "runtime"), None);
        assert!(file.find("two") < file.find("three"), "{file}");
        assert_eq!(merged(&file, "node", "three"), file);
    }
}

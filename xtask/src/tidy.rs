//! The house rules that no compiler knows: arrows between crates, walls, module comments, unsafe; and the sizes of
//! shipped programs where there are any.

mod arrows;
mod source;
mod walls;

use crate::layout;
use anyhow::bail;
use std::path::Path;

/// Checks every rule and prints each breach with its place.
pub(crate) fn run() -> anyhow::Result<()> {
    let root = layout::root();
    let mut breaches = arrows::manifests(&root)?;
    for path in layout::rust_files()? {
        let text = std::fs::read_to_string(&path)?;
        let shown = path.strip_prefix(&root).unwrap_or(&path);
        breaches.extend(file(shown, &text));
    }
    for breach in &breaches {
        println!("{breach}");
    }
    crate::dist::sizes()?;
    if breaches.is_empty() {
        println!("the house rules hold");
        return Ok(());
    }
    bail!("{} breaches of the house rules", breaches.len())
}

/// The breaches of one source file; `path` is relative to the workspace root.
fn file(path: &Path, text: &str) -> Vec<String> {
    let code = source::code_only(text);
    let mut breaches = walls::check(path, text, &code);
    breaches.extend(arrows::uses(path, &code));
    breaches
}

//! Carrying steps out, and taking them back.

use rustix::io::Errno;

use super::{Step, Undo, Write};
use crate::error::{CgroupError, Result};
use crate::file::Dir;

/// What a file said before it was written.
pub(crate) struct Former<'a> {
    dir: &'a Dir,
    file: String,
    text: String,
}

/// Carries the steps out in order. With a log, each file's former value is read first and noted there.
pub(crate) fn apply<'a>(
    steps: &[Step],
    place: &impl Fn(&str) -> Option<&'a Dir>,
    mut log: Option<&mut Vec<Former<'a>>>,
) -> Result<()> {
    for step in steps {
        let forward = step.0.iter().try_for_each(|write| one(write, place, log.as_deref_mut()));
        match forward {
            Err(CgroupError::Set { errno: Errno::INVAL, .. }) if step.0.len() > 1 => {
                step.0.iter().rev().try_for_each(|write| one(write, place, log.as_deref_mut()))?;
            }
            other => other?,
        }
    }
    Ok(())
}

/// Writes the former values back, last first. A value that cannot go back before its neighbour gets a second try; what
/// still fails is left, since the error that led here is the one to report.
pub(crate) fn roll_back(log: &[Former<'_>]) {
    let failed: Vec<&Former<'_>> =
        log.iter().rev().filter(|former| former.dir.write(&former.file, &former.text).is_err()).collect();
    for former in failed {
        let _ = former.dir.write(&former.file, &former.text);
    }
}

fn one<'a>(
    write: &Write,
    place: &impl Fn(&str) -> Option<&'a Dir>,
    log: Option<&mut Vec<Former<'a>>>,
) -> Result<()> {
    let missing =
        || CgroupError::ControllerMissing { controller: write.controller, setting: write.file.clone() };
    let Some(dir) = place(write.controller) else {
        return if write.optional { Ok(()) } else { Err(missing()) };
    };
    let file = match &write.instead {
        Some(other) if !dir.exists(&write.file) => other,
        _ => &write.file,
    };
    let former = if log.is_some() { former(dir, file, &write.undo) } else { None };
    match dir.set(file, &write.value) {
        Err(CgroupError::Set { errno: Errno::NOENT, .. }) if write.optional => Ok(()),
        Err(CgroupError::Set { errno: Errno::NOENT, .. }) => Err(missing()),
        Err(error) => Err(error),
        Ok(()) => {
            if let (Some(log), Some(former)) = (log, former) {
                log.push(former);
            }
            Ok(())
        }
    }
}

/// The text that brings a file back to what it says now.
fn former<'a>(dir: &'a Dir, file: &str, undo: &Undo) -> Option<Former<'a>> {
    let now = dir.read(file).ok()?;
    let text = match undo {
        // An empty write does not reach the file; a newline does, and means "nothing".
        Undo::Whole => {
            Some(now.trim_end().to_owned()).filter(|text| !text.is_empty()).unwrap_or("\n".to_owned())
        }
        Undo::Line { key, reset } => {
            let line =
                now.lines().find(|line| line.strip_prefix(key.as_str()).is_some_and(|r| r.starts_with(' ')));
            line.map_or_else(|| reset.clone(), str::to_owned)
        }
        Undo::Keyed(key) => crate::file::lookup(&now, key)?.to_string(),
    };
    Some(Former { dir, file: file.to_owned(), text })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(files: &[(&str, &str)]) -> (tempfile::TempDir, Dir) {
        let root = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(root.path().join(name), text).unwrap();
        }
        let fd = std::fs::File::open(root.path()).unwrap().into();
        let path = root.path().to_owned();
        (root, Dir { fd, path })
    }

    #[test]
    fn a_failed_step_takes_the_earlier_ones_back() {
        let (_root, dir) = group(&[("a.x", "1\n"), ("a.keyed", "k 7\nl 8\n"), ("a.line", "8:0 5\n")]);
        let steps = [
            Step::one(Write::new("a", "a.x", "2")),
            Step::one(Write::new("a", "a.keyed", "9").undo(Undo::Keyed("k"))),
            Step::one(
                Write::new("a", "a.line", "8:0 6")
                    .undo(Undo::Line { key: "8:0".into(), reset: "8:0 0".into() }),
            ),
            Step::one(Write::new("a", "a.absent", "1")),
        ];
        let place = |name: &str| (name == "a").then_some(&dir);
        let mut log = Vec::new();
        let error = apply(&steps, &place, Some(&mut log)).unwrap_err();
        assert!(matches!(error, CgroupError::ControllerMissing { .. }));
        roll_back(&log);
        // The writes do not truncate, as on a cgroup file; compare what was written over the start.
        assert_eq!(dir.read("a.x").unwrap(), "1\n");
        assert!(dir.read("a.keyed").unwrap().starts_with('7'));
        assert_eq!(dir.read("a.line").unwrap(), "8:0 5\n");
    }

    #[test]
    fn optional_writes_may_find_nothing() {
        let (_root, dir) = group(&[("b.other", "")]);
        let place = |name: &str| (name == "b").then_some(&dir);
        let steps = [
            Step::one(Write::new("absent", "x", "1").optional()),
            Step::one(Write::new("b", "b.absent", "1").optional()),
            Step::one(Write::new("b", "b.weight", "5").or_to("b.other")),
        ];
        apply(&steps, &place, None).unwrap();
        assert_eq!(dir.read("b.other").unwrap(), "5");
    }
}

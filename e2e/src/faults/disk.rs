//! A node's root and state on file systems of their own, small enough to be filled.

use crate::node::Node;
use anyhow::{Context, ensure};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Two small file systems in memory, at the node's root and state.
pub struct Disk {
    points: [PathBuf; 2],
}

impl Disk {
    /// Mounts them; the node's daemon must not run yet.
    pub fn mount(node: &Node) -> anyhow::Result<Self> {
        let points = [node.dir().join("root"), node.dir().join("state")];
        for (point, size) in points.iter().zip(["size=96m,mode=700", "size=16m,mode=711"]) {
            fs::create_dir_all(point)?;
            run(Command::new("mount").args(["-t", "tmpfs", "-o", size, "berth-e2e"]).arg(point))?;
        }
        Ok(Self { points })
    }

    /// Leaves no byte free.
    pub fn fill(&self) -> anyhow::Result<()> {
        for point in &self.points {
            let mut file = File::options().create(true).append(true).open(fill(point))?;
            for size in [1 << 20, 1 << 12] {
                let block = vec![0; size];
                while file.write_all(&block).is_ok() {}
            }
        }
        Ok(())
    }

    /// Gives back what was taken.
    pub fn free(&self) -> anyhow::Result<()> {
        for point in &self.points {
            let path = fill(point);
            fs::remove_file(&path).with_context(|| path.display().to_string())?;
        }
        Ok(())
    }

    /// Unmounts them; the node's daemon must have ended.
    pub fn unmount(&self) -> anyhow::Result<()> {
        self.points.iter().try_for_each(|point| run(Command::new("umount").arg(point)))
    }
}

fn fill(point: &Path) -> PathBuf {
    point.join("fill")
}

fn run(command: &mut Command) -> anyhow::Result<()> {
    let output = command.output()?;
    ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

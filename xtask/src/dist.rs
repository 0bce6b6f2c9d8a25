//! `cargo xtask dist`: the shipped programs, each in its own profile, with sizes that are held.

use crate::{layout, process};
use anyhow::{Context, bail};
use std::fs;
use std::path::PathBuf;

/// A program that is shipped.
struct Program {
    name: &'static str,
    profile: &'static str,
    /// How many bytes it may have.
    budget: Option<u64>,
}

/// There is a shim for each pod, so that its size is a promise; the daemon is there once.
const PROGRAMS: [Program; 2] = [
    Program { name: "berthd", profile: "dist", budget: None },
    Program { name: "berth-shim", profile: "dist-shim", budget: Some(2_500_000) },
];

/// Builds both into `target/dist` and shows their sizes.
pub(crate) fn run(args: &[String]) -> anyhow::Result<()> {
    if let Some(arg) = args.first() {
        bail!("dist takes no argument, not {arg:?}");
    }
    build()?;
    println!("in {}", folder()?.display());
    for program in &PROGRAMS {
        println!("{}", program.judged()?);
    }
    Ok(())
}

/// Builds both; what is over its budget is an error.
pub(crate) fn build() -> anyhow::Result<()> {
    for program in &PROGRAMS {
        let mut cargo = process::cargo("build");
        cargo.args(["--quiet", "--locked", "--profile", program.profile, "--bin", program.name]);
        process::run(cargo.args(["--package", program.name]))?;
        let (built, place) = (program.built()?, folder()?.join(program.name));
        if built != place {
            // Never in place: the old one may be running.
            let fresh = place.with_extension("new");
            fs::copy(&built, &fresh).with_context(|| fresh.display().to_string())?;
            fs::rename(&fresh, &place).with_context(|| place.display().to_string())?;
        }
        program.judged()?;
    }
    Ok(())
}

/// Where the shipped programs are.
pub(crate) fn folder() -> anyhow::Result<PathBuf> {
    Ok(target()?.join("dist"))
}

/// Holds the sizes of what has been built here before.
pub(crate) fn sizes() -> anyhow::Result<()> {
    for program in &PROGRAMS {
        if program.built()?.exists() {
            program.judged()?;
        }
    }
    Ok(())
}

fn target() -> anyhow::Result<PathBuf> {
    let binaries = layout::binaries()?;
    Ok(binaries.parent().unwrap_or(&binaries).to_path_buf())
}

impl Program {
    fn built(&self) -> anyhow::Result<PathBuf> {
        Ok(target()?.join(self.profile).join(self.name))
    }

    /// The size in words, or what is wrong with it.
    fn judged(&self) -> anyhow::Result<String> {
        let path = self.built()?;
        let size = fs::metadata(&path).with_context(|| path.display().to_string())?.len();
        match self.budget {
            Some(budget) if size > budget => bail!(
                "{} has {size} bytes and may have {budget}. If it was built before a change, `cargo xtask dist` \
                 builds it anew; `nm --size-sort --demangle` of a build with CARGO_PROFILE_DIST_SHIM_STRIP=none \
                 shows what is large",
                path.display()
            ),
            Some(budget) => Ok(format!("{}: {size} bytes of {budget}", self.name)),
            None => Ok(format!("{}: {size} bytes", self.name)),
        }
    }
}

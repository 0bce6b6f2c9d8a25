//! `cargo xtask fuzz`: builds the fuzz targets with coverage counters and runs them, each for a while.

use crate::{layout, process};
use anyhow::{Context, bail};
use std::path::Path;
use std::process::Command;

const TARGETS: [&str; 4] = ["spec", "mount_options", "cgroup_path", "seccomp"];

/// What the compiler adds for libFuzzer: counters on edges, and the operands of comparisons. Sanitizers of memory are left out,
/// since no unsafe code is reached from here.
const COVERAGE: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1 --cfg fuzzing";

/// `cargo xtask fuzz [target] [--seconds N]`.
pub(crate) fn run(args: &[String]) -> anyhow::Result<()> {
    let (targets, seconds) = chosen(args)?;
    let home = layout::root().join("fuzz");
    let built = home.join("target");
    let mut command = process::cargo("build");
    command.current_dir(&home).args(["--release", "--locked", "--bins", "--target", HOST]);
    command.env("RUSTFLAGS", COVERAGE).env("CARGO_TARGET_DIR", &built);
    process::run(&mut command)?;
    for target in targets {
        let program = built.join(HOST).join("release").join(target);
        one(&home, &program, target, seconds).with_context(|| format!("fuzzing {target}"))?;
    }
    Ok(())
}

/// Naming the machine keeps the counters out of build scripts.
const HOST: &str =
    if cfg!(target_arch = "aarch64") { "aarch64-unknown-linux-gnu" } else { "x86_64-unknown-linux-gnu" };

fn chosen(args: &[String]) -> anyhow::Result<(Vec<&'static str>, u32)> {
    let (mut targets, mut seconds) = (Vec::new(), 180);
    let mut words = args.iter();
    while let Some(word) = words.next() {
        match TARGETS.iter().find(|target| *target == word) {
            Some(target) => targets.push(*target),
            None if word == "--seconds" => {
                seconds = words.next().context("--seconds wants a number")?.parse()?;
            }
            None => bail!("no target {word:?}; there are {}", TARGETS.join(", ")),
        }
    }
    Ok((if targets.is_empty() { TARGETS.to_vec() } else { targets }, seconds))
}

/// Runs one target from the kept corpus. What it finds on the way stays below `fuzz/target`; an input that breaks a check ends
/// the run and is named.
fn one(home: &Path, program: &Path, target: &str, seconds: u32) -> anyhow::Result<()> {
    let (found, kept) = (home.join("target/found").join(target), home.join("corpus").join(target));
    std::fs::create_dir_all(&found)?;
    let artifacts = format!("-artifact_prefix={}/target/{target}-", home.display());
    let mut command = Command::new(program);
    command.arg(&found).arg(&kept).arg(artifacts);
    command.args(["-max_len=4096", "-timeout=10", "-rss_limit_mb=2048", "-print_final_stats=1"]);
    process::run(command.arg(format!("-max_total_time={seconds}")))
}

#[cfg(test)]
mod tests {
    use super::{TARGETS, chosen};

    #[test]
    fn targets_and_seconds() {
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(chosen(&[]).expect("all"), (TARGETS.to_vec(), 180));
        assert_eq!(chosen(&words("seccomp --seconds 5")).expect("one"), (vec!["seccomp"], 5));
        assert!(chosen(&words("nonsense")).is_err());
    }

    #[test]
    fn every_target_has_a_program_and_a_corpus() {
        for target in TARGETS {
            let home = crate::layout::root().join("fuzz");
            assert!(home.join("targets").join(format!("{target}.rs")).exists(), "{target}");
            assert!(home.join("corpus").join(target).is_dir(), "{target}");
        }
    }
}

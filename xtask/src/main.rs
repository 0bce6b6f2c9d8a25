//! The developer's commands: `cargo xtask <command>`.

mod apt;
mod clean;
mod counts;
mod crates;
mod deny;
mod dist;
mod fuzz;
mod guest;
mod layout;
mod peers;
mod process;
mod product;
mod stage;
mod suite;
mod tidy;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask <command>

  test [--all] [e2e filter ...]  everything a change must pass; --all adds the long runs
  demo [--keep]                  a pod from registry to kernel, shown step by step (needs root)
  tools [--all]                  install and build what tests and benchmarks need
  dist                           the shipped programs, into target/dist, and whether they keep their sizes
  tidy                           the house rules: arrows, walls, module comments, unsafe
  deny                           licences, duplicates and sources of every dependency
  fuzz [target] [--seconds N]    give the parsers inputs without end, 180 s each
  bench SUBJECT                  Berth beside its peers: pod, node or runtime [--without PEER]; writes its section of BENCHMARKS.md (needs root)
  bench trace                    where the time of a container goes; writes docs/performance.md (needs root)
  clean                          take down what killed test runs left behind (needs root)
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (command, rest) = match args.split_first() {
        Some((command, rest)) => (command.as_str(), rest),
        None => ("help", &[][..]),
    };
    let done = match command {
        "test" => suite::run(rest),
        "demo" => product::demo(rest),
        "tools" => peers::run(rest),
        "dist" => dist::run(rest),
        "tidy" => tidy::run(),
        "deny" => deny::run(),
        "fuzz" => fuzz::run(rest),
        "bench" => product::bench(rest),
        "clean" => clean::run(),
        "help" | "--help" | "-h" => {
            print!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        other => {
            eprint!("xtask: no command {other:?}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask {command}: {error:#}");
            ExitCode::FAILURE
        }
    }
}

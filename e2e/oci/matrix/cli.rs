//! Command lines that make no sense, which end as runc ends them; and what only our own promises: private state, a start that
//! nobody can hold up, a maker that may be killed at any moment, two callers at once.

use super::lifecycle::sleeper;
use super::row::{Row, row};
use anyhow::{Context as _, Result};
use berth_e2e::bundle::{Bundle, Runtime};
use berth_e2e::check;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

fn bundle() -> Result<Bundle> {
    let bundle = Bundle::new(Runtime::Berth)?;
    sleeper(&bundle)?;
    Ok(bundle)
}

/// Words that no command takes; ID is a container that runs, and the first word may be a flag of the whole.
const SENSELESS: &str = "
    --bogus list|--systemd-cgroup=maybe list|--log-format bogus list|--log|bogus|bogus ID|help|help exec|help bogus|--help|exec --help
    create|create --bogus|create -x y|create a b|create --bundle|create --no-pivot=maybe x|run|run --bogus|run a b|run --pid-file
    start|start --bogus|start ID more|start none|state|state --bogus|state ID more|state none
    kill|kill --bogus ID|kill ID KILL more|kill none|kill ID NOSIGNAL|delete|delete --bogus|delete ID more|delete none
    delete --force|delete --force none|delete --force ID more|delete --force=maybe ID
    exec|exec --bogus|exec --bogus ID true|exec ID|exec none true|exec --user|exec --user=x|exec -e|exec --tty=maybe ID true
    exec --preserve-fds x ID true|exec --user x ID true|exec --process /none ID|exec --cwd
    exec --detach=0 ID true|exec -- ID true|exec -ti
    ps|ps --bogus|ps none|ps -f bogus ID|pause|pause --bogus|pause ID more|pause none|resume|resume --bogus|resume ID more|resume none
    update|update --bogus|update ID more|update none|update --memory x ID|events|events --bogus|events ID more|events none
    list --bogus|list more|list -f bogus|features more|features --bogus|spec more|spec --bogus
";

/// The rows.
pub(super) fn rows() -> Vec<Row> {
    vec![
        row("cli: words that make no sense")
            .prepare(sleeper)
            .see(senseless)
            .same(&["exec ID: 255", "bogus: 3"]),
    ]
}

/// How each ends, and that the container runs on.
fn senseless(bundle: &Bundle) -> Result<String> {
    bundle.up()?;
    let mut told = String::new();
    for line in
        SENSELESS.lines().flat_map(|line| line.split('|')).map(str::trim).filter(|line| !line.is_empty())
    {
        let words: Vec<&str> =
            line.split(' ').map(|word| if word == "ID" { bundle.id() } else { word }).collect();
        let code = bundle.step(&words)?.run()?.code;
        told.push_str(&format!("{line}: {code}\n"));
        let status = bundle.status()?;
        check!(status == "running", "{status} after {line:?}");
    }
    Ok(told)
}

/// Whatever the umask: an environment may hold secrets, and the start socket is as good as the container.
pub(super) fn state_is_private() -> Result<()> {
    let bundle = bundle()?;
    let program = bundle.runtime().program()?;
    let root = bundle.state_dir();
    let script = format!(
        "umask 0; exec {} oci --root {} create {} >/dev/null 2>&1",
        program.display(),
        root.display(),
        bundle.id()
    );
    let status = std::process::Command::new("sh").args(["-c", &script]).current_dir(bundle.dir()).status()?;
    check!(status.success(), "create: {status}");
    let mode = |path: PathBuf| anyhow::Ok(std::fs::metadata(path)?.permissions().mode() & 0o777);
    let place = root.join(bundle.id());
    check!(mode(root.clone())? == 0o700 && mode(place.clone())? == 0o700, "the folders are open");
    for file in ["state.json", "config.json", "start.sock"] {
        check!(mode(place.join(file))? == 0o600, "{file} is open");
    }
    Ok(())
}

/// One who connects to the start socket and says nothing.
pub(super) fn nobody_holds_up_a_start() -> Result<()> {
    let bundle = bundle()?;
    bundle.must("create", &[])?;
    let mute = UnixStream::connect(bundle.state_dir().join(bundle.id()).join("start.sock"))?;
    bundle.must("start", &[])?;
    check!(bundle.status()? == "running", "it is {}", bundle.status()?);
    drop(mute);
    Ok(())
}

/// `create` killed at any moment: what it made, `delete --force` finds.
pub(super) fn a_killed_maker_leaves_nothing_for_ever() -> Result<()> {
    let bundle = bundle()?;
    for delay in [0, 1, 2, 4, 6, 8, 10, 12, 15, 20, 30, 40] {
        let mut step = bundle.step(&["create", bundle.id()])?;
        let mut child = step.spawn()?;
        std::thread::sleep(Duration::from_millis(delay));
        child.kill()?;
        child.wait()?;
        force(&bundle).with_context(|| format!("after {delay} ms"))?;
        let left = bundle.left_after_all();
        check!(left.is_empty(), "after {delay} ms: {}", left.join(", "));
    }
    Ok(())
}

/// Several calls of one kind at once on one container: one does it, the others say why not, and it is whole after.
pub(super) fn of_two_at_once_one_is_refused() -> Result<()> {
    let bundle = bundle()?;
    for _ in 0..20 {
        let created = at_once(&bundle, &["create", bundle.id()], Some("exist"))?;
        check!(created == 1 && bundle.status()? == "created", "{created} creates went well");
        let started = at_once(&bundle, &["start", bundle.id()], Some("running"))?;
        check!(started == 1 && bundle.status()? == "running", "{started} starts went well");
        at_once(&bundle, &["delete", "--force", bundle.id()], None)?;
        let left = bundle.left_after_all();
        check!(left.is_empty(), "{}", left.join(", "));
    }
    Ok(())
}

/// Deleted by another while `run` waits, and its name given again at once: `run` takes nothing from the newcomer.
pub(super) fn the_next_of_a_name_is_left_alone() -> Result<()> {
    let bundle = bundle()?;
    for _ in 0..10 {
        let mut waiter = bundle.step(&["run", bundle.id()])?;
        let child = waiter.spawn()?;
        bundle.until("running")?;
        force(&bundle)?;
        bundle.must("create", &[])?;
        let ran = waiter.end(child)?;
        check!(ran.code == 137, "run: {ran:?}");
        check!(bundle.status()? == "created", "the next one is {}", bundle.status()?);
        bundle.must("start", &[])?;
        force(&bundle)?;
    }
    Ok(())
}

fn force(bundle: &Bundle) -> Result<()> {
    let ran = bundle.call_with("delete", &["--force"], &[])?;
    check!(ran.code == 0, "delete --force: {:?} {}", ran.error, ran.err);
    Ok(())
}

/// Four calls at once; how many went well. The others must say `word`; without one there must be no others.
fn at_once(bundle: &Bundle, words: &[&str], word: Option<&str>) -> Result<usize> {
    let mut steps = (0..4).map(|_| bundle.step(words)).collect::<Result<Vec<_>>>()?;
    let children = steps.iter_mut().map(|step| step.spawn()).collect::<Result<Vec<_>>>()?;
    let mut well = 0;
    for (step, child) in steps.iter().zip(children) {
        let ran = step.end(child)?;
        if ran.code == 0 {
            well += 1;
            continue;
        }
        let said = ran.error.context("a refusal without a word")?;
        check!(word.is_some_and(|word| said.contains(word)), "{words:?}: {said}");
    }
    Ok(well)
}

/// Whoever asks how it is called is told, by every command, and that is no failure.
pub(super) fn help_is_given() -> Result<()> {
    let program = Runtime::Berth.program()?;
    let say = |words: &[&str]| -> Result<String> {
        let output = std::process::Command::new(&program).args(words).output()?;
        check!(output.status.success(), "{words:?} ended with {}", output.status);
        Ok(String::from_utf8(output.stdout)?)
    };
    check!(say(&["--help"])?.contains("oci COMMAND"), "{}", say(&["--help"])?);
    let whole = say(&["oci", "--help"])?;
    for command in [
        "create", "start", "run", "state", "list", "kill", "delete", "exec", "ps", "pause", "resume",
        "update", "events", "features", "spec",
    ] {
        check!(whole.contains(&format!("\n  {command} ")), "no {command} in {whole}");
        let one = say(&["oci", command, "--help"])?;
        check!(one.starts_with(&format!("usage: berth-oci {command}")), "{one}");
    }
    let run = say(&["oci", "run", "-h"])?;
    check!(run.contains("--bundle, -b VALUE") && run.contains("--console-socket VALUE"), "{run}");
    Ok(())
}

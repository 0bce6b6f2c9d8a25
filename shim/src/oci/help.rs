//! What `--help` prints: of the whole, and of one command with the flags that it knows.

use std::fmt::Write;

use super::flags::Flag;

/// A command, what follows it, and what it does.
const COMMANDS: [(&str, &str, &str); 15] = [
    ("create", "ID", "Build a container from a bundle; its program waits for start."),
    ("start", "ID", "Let the program of a built container run."),
    ("run", "ID", "Create and start, then wait for the end (or not: --detach) and clean up."),
    ("state", "ID", "Print the state of a container as JSON."),
    ("list", "", "Print the containers."),
    ("kill", "ID [SIGNAL]", "Send a signal, SIGTERM if none is named."),
    ("delete", "ID", "Remove a container that has ended."),
    ("exec", "ID COMMAND [ARGUMENT]...", "Run one more process in a container."),
    ("ps", "ID", "Print the processes of a container."),
    ("pause", "ID", "Freeze every process of a container."),
    ("resume", "ID", "Let them go on."),
    ("update", "ID", "Change the limits of a container."),
    ("events", "ID", "Print what a container uses, again and again; once with --stats."),
    ("features", "", "Print what this runtime can do on this machine as JSON."),
    ("spec", "", "Write a config.json to begin with."),
];

/// What flags say that is not their name in other words.
const FLAGS: &[(&str, &str)] = &[
    ("additional-gids", "one more group of the process; may be repeated"),
    ("apparmor", "AppArmor profile"),
    ("bundle", "directory of config.json; here, if not given"),
    ("cap", "one more capability; may be repeated"),
    ("cgroup", "group below the container's for the process, or CONTROLLER:GROUP"),
    ("console-socket", "unix socket that is sent the master of the terminal"),
    ("cwd", "working directory"),
    ("detach", "do not wait for the end"),
    ("env", "NAME=VALUE; may be repeated"),
    ("force", "end it first if it runs; a container that is not there is a success"),
    ("keep", "do not remove the container when it ends"),
    ("log", "file for errors, besides standard error"),
    ("log-format", "text or json"),
    ("no-new-keyring", "keep the caller's session keyring"),
    ("no-pivot", "change the root directory without pivot_root"),
    ("pid-file", "file for the id of the first process"),
    ("pidfd-socket", "unix socket that is sent the process's pidfd"),
    ("preserve-fds", "so many descriptors from 3 on stay open for the program"),
    ("process", "file with the process as JSON"),
    ("resources", "file with the limits as JSON, - for standard input"),
    ("root", "directory of the containers' state; /run/berth-oci, if not given"),
    ("systemd-cgroup", "cgroupsPath is slice:prefix:name, made by systemd"),
    ("tty", "give it a terminal"),
    ("user", "UID or UID:GID"),
];

/// The whole command line.
pub(super) fn whole(flags: &[Flag]) -> String {
    let mut text = String::from("usage: berth-oci [flags] COMMAND [flags of the command] ...\n\ncommands:\n");
    for (name, _, about) in COMMANDS {
        line(&mut text, name, about);
    }
    text.push_str("\nflags:\n");
    list(&mut text, flags);
    text.push_str("\nberth-oci COMMAND --help tells the flags of a command.");
    text
}

/// One command.
pub(super) fn command(name: &str, flags: &[Flag]) -> String {
    let known = COMMANDS.iter().find(|(command, ..)| *command == name);
    let (_, words, about) = known.unwrap_or(&("COMMAND", "", ""));
    let room = if flags.is_empty() { "" } else { " [flags]" };
    let mut text = format!("usage: berth-oci {name}{room} {words}").trim_end().to_owned();
    let _ = write!(text, "\n\n{about}");
    if !flags.is_empty() {
        text.push_str("\n\nflags:\n");
        list(&mut text, flags);
    }
    text.trim_end().to_owned()
}

fn list(text: &mut String, flags: &[Flag]) {
    for flag in flags {
        let about = FLAGS.iter().find(|(name, _)| *name == flag.name()).map_or("", |(_, about)| about);
        line(text, &flag.spelling(), about);
    }
}

fn line(text: &mut String, what: &str, about: &str) {
    let _ = writeln!(text, "{}", format!("  {what:<28}{about}").trim_end());
}

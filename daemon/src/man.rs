//! Manual pages, made from what the program itself knows: its grammar and the keys of its configuration.

use crate::args::{Args, Page};
use clap::{CommandFactory, ValueEnum};
use clap_mangen::Man;

/// A page as roff.
///
/// # Errors
/// None that memory does not give.
pub fn page(page: Page) -> std::io::Result<String> {
    let mut bytes = Vec::new();
    match page {
        Page::Daemon => daemon(&mut bytes)?,
        Page::Config => return Ok(config()),
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The daemon and, below it, each of its subcommands.
fn daemon(bytes: &mut Vec<u8>) -> std::io::Result<()> {
    let mut command = Args::command();
    command.build();
    let man = Man::new(command.clone()).section("8");
    man.render_title(bytes)?;
    man.render_name_section(bytes)?;
    man.render_synopsis_section(bytes)?;
    man.render_description_section(bytes)?;
    man.render_options_section(bytes)?;
    bytes.extend_from_slice(b".SH COMMANDS\n");
    commands(bytes, &command, "berthd");
    bytes.extend_from_slice(b".SH FILES\n");
    for (path, what) in FILES {
        bytes.extend_from_slice(format!(".TP\n{}\n{what}\n", escaped(path)).as_bytes());
    }
    bytes.extend_from_slice(b".SH SEE ALSO\nberth\\-config.toml(5), crictl(1)\n");
    Ok(())
}

const FILES: [(&str, &str); 4] = [
    ("/etc/berth/config.toml", "configuration, optional"),
    ("/etc/berth/certs.d", "registries: mirrors and certificates"),
    ("/var/lib/berth", "images, containers' files, records"),
    ("/run/berth", "socket, one directory per pod"),
];

fn commands(bytes: &mut Vec<u8>, command: &clap::Command, name: &str) {
    for below in command.get_subcommands().filter(|below| !below.is_hide_set() && below.get_name() != "help")
    {
        let name = format!("{name} {}", below.get_name());
        let words: Vec<String> = below.get_positionals().map(|arg| format!(" [{}]", arg.get_id())).collect();
        let about = below.get_about().map(ToString::to_string).unwrap_or_default();
        let head = escaped(&format!("{name}{}", words.concat().to_uppercase()));
        bytes.extend_from_slice(format!(".TP\n\\fB{head}\\fR\n{}\n", escaped(&about)).as_bytes());
        commands(bytes, below, &name);
    }
}

/// The configuration file: the commented default, as it is.
fn config() -> String {
    let pages: Vec<String> = Page::value_variants()
        .iter()
        .filter_map(|page| Some(page.to_possible_value()?.get_name().to_owned()))
        .collect();
    let text = berth_config::template::text();
    let body: Vec<String> = text.lines().map(|line| format!("{}\n", escaped(line))).collect();
    format!(
        ".TH berth\\-config.toml 5\n.SH NAME\nberth\\-config.toml \\- configuration of berthd(8)\n.SH DESCRIPTION\n\
         /etc/berth/config.toml, or what \\-\\-config names. Every key has a default; a key that is not known is refused. \
         Flags are stronger than the file.\n.SH KEYS\nThe whole file, each key at its default:\n.PP\n.nf\n{}.fi\n\
         .SH SEE ALSO\n{}\n",
        body.concat(),
        escaped(&pages.join(", "))
    )
}

/// A line that roff takes as text.
fn escaped(line: &str) -> String {
    let text = line.replace('\\', "\\e").replace('-', "\\-");
    if text.starts_with(['.', '\'']) { format!("\\&{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::{escaped, page};
    use crate::args::Page;

    #[test]
    fn the_pages_know_every_flag_and_key() {
        let daemon = page(Page::Daemon).unwrap();
        for word in
            ["\\-\\-config", "\\-\\-log\\-level", "berthd config default", "berthd config check [FILE]"]
        {
            assert!(daemon.contains(word), "{word} is not in {daemon}");
        }
        assert!(!daemon.contains("allow\\-faults"), "a hidden flag is shown");
        let config = page(Page::Config).unwrap();
        for key in berth_config::template::key_names() {
            let last = key.rsplit('.').next().unwrap();
            assert!(config.contains(&escaped(&format!("# {last} = "))), "{key}");
        }
    }

    #[test]
    fn text_is_never_a_request() {
        assert_eq!(escaped(".SH x"), "\\&.SH x");
        assert_eq!(escaped("a\\b-c"), "a\\eb\\-c");
    }
}

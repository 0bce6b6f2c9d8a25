//! Walls of one file: its length, its functions' lengths, its head, its unsafe, its name.

use std::path::Path;

/// No file is longer.
const FILE_WALL: usize = 600;
/// No function body has more lines of code (blank lines and comments are free).
const FUNCTION_WALL: usize = 40;

/// The breaches of one file; `code` is `text` without comments and literals.
pub(super) fn check(path: &Path, text: &str, code: &str) -> Vec<String> {
    let mut breaches = Vec::new();
    let lines = text.lines().count();
    if lines > FILE_WALL {
        breaches.push(format!("{}: {lines} lines; the wall is {FILE_WALL}", path.display()));
    }
    if !text.starts_with("//! ") {
        breaches.push(format!("{}:1: no module comment (//!) at its head", path.display()));
    }
    if path.file_name().is_some_and(|name| name == "mod.rs") {
        breaches.push(format!("{}: mod.rs; the house writes name.rs + name/", path.display()));
    }
    if !path.starts_with("shim/sys") {
        for (at, line) in code.lines().enumerate().filter(|(_, line)| has_word(line, "unsafe")) {
            let shown = line.trim();
            breaches.push(format!("{}:{}: unsafe outside shim/sys: {shown}", path.display(), at + 1));
        }
    }
    breaches.extend(functions(path, code));
    breaches
}

/// Whether `word` stands in `line` as a word of its own.
pub(super) fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let joins = |c: char| c.is_alphanumeric() || c == '_';
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        !before.is_some_and(joins) && !after.is_some_and(joins)
    })
}

/// Functions over the wall. rustfmt puts the closing brace at the indent of the line with `fn`.
fn functions(path: &Path, code: &str) -> Vec<String> {
    let lines: Vec<&str> = code.lines().collect();
    let mut breaches = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let Some(name) = function_name(line) else { continue };
        let Some(length) = body_length(&lines[at..], indent(line)) else { continue };
        if length > FUNCTION_WALL {
            let place = format!("{}:{}", path.display(), at + 1);
            breaches.push(format!("{place}: fn {name} has {length} lines; the wall is {FUNCTION_WALL}"));
        }
    }
    breaches
}

/// The name of the function that this line begins, if it begins one.
fn function_name(line: &str) -> Option<&str> {
    let (head, tail) = line.trim_start().split_once("fn ")?;
    let qualifiers = ["pub", "async", "const", "unsafe", "extern"];
    let known =
        |word: &str| qualifiers.iter().any(|q| word == *q || word.starts_with("pub(")) || word.ends_with(')');
    if !head.split_whitespace().all(known) {
        return None;
    }
    let end = tail.find(|c: char| !c.is_alphanumeric() && c != '_')?;
    (end > 0).then(|| &tail[..end])
}

/// Lines of code between the braces of the function that `lines` begins with.
fn body_length(lines: &[&str], depth: usize) -> Option<usize> {
    let open = lines.iter().position(|line| line.trim_end().ends_with(['{', ';', '}']))?;
    if !lines[open].trim_end().ends_with('{') {
        return None;
    }
    let body = &lines[open + 1..];
    let close = body.iter().position(|line| line.trim() == "}" && indent(line) == depth)?;
    Some(body[..close].iter().filter(|line| !line.trim().is_empty()).count())
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

#[cfg(test)]
mod tests {
    use super::check;
    use std::path::Path;

    fn breaches(path: &str, text: &str) -> Vec<String> {
        check(Path::new(path), text, &super::super::source::code_only(text))
    }

    #[test]
    fn a_tidy_file_has_no_breach() {
        let text = "//! Says what it is.\n\npub(crate) fn f() {\n    g();\n}\n";
        assert_eq!(breaches("core/src/a.rs", text), Vec::<String>::new());
    }

    #[test]
    fn each_wall_is_seen() {
        let long = format!("//! x\n{}", "// y\n".repeat(600));
        assert!(breaches("a.rs", &long)[0].contains("601 lines"));
        assert!(breaches("a.rs", "fn f() {}\n")[0].contains("no module comment"));
        assert!(breaches("a/mod.rs", "//! x\n")[0].contains("mod.rs"));
        assert!(breaches("a.rs", "//! x\nfn f() {\n    unsafe { g() }\n}\n")[0].contains("a.rs:3"));
        assert!(breaches("shim/sys/src/a.rs", "//! x\nunsafe fn f() {}\n").is_empty());
    }

    #[test]
    fn long_functions_are_seen_and_comments_are_free() {
        let body = |lines: usize| "        g();\n".repeat(lines);
        let method = |lines| {
            format!(
                "//! x\nimpl A {{\n    pub async fn f(\n        a: u8,\n    ) {{\n{}        // free\n\n    }}\n}}\n",
                body(lines)
            )
        };
        assert_eq!(breaches("a.rs", &method(40)), Vec::<String>::new());
        assert!(breaches("a.rs", &method(41))[0].contains("fn f has 41 lines"));
    }
}

//! Just enough of a lexer to blank comments and literals, so that words in them are not code.

/// The source with comments and the contents of literals replaced by spaces; line numbers stay.
pub(super) fn code_only(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let taken = literal(rest, out.chars().next_back());
        if taken > 0 {
            blank(&rest[..taken], &mut out);
            rest = &rest[taken..];
        } else {
            out.push(first);
            rest = &rest[first.len_utf8()..];
        }
    }
    out
}

/// The length of the comment or literal that `rest` begins with, else 0.
fn literal(rest: &str, before: Option<char>) -> usize {
    if rest.starts_with("//") {
        return rest.find('\n').unwrap_or(rest.len());
    }
    if rest.starts_with("/*") {
        return block_comment(rest);
    }
    if rest.starts_with('"') {
        return quoted(rest, '"');
    }
    let in_word = before.is_some_and(|c| c.is_alphanumeric() || c == '_');
    if !in_word && let Some(taken) = raw_string(rest) {
        return taken;
    }
    if rest.starts_with('\'') {
        return character(rest);
    }
    0
}

fn block_comment(rest: &str) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while at < rest.len() {
        if rest[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += rest[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    rest.len()
}

/// From an opening quote to behind the closing one, over escapes.
fn quoted(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return at + c.len_utf8(),
            _ => {}
        }
    }
    rest.len()
}

fn raw_string(rest: &str) -> Option<usize> {
    let body = rest.strip_prefix("br").or_else(|| rest.strip_prefix('r'))?;
    let hashes = body.len() - body.trim_start_matches('#').len();
    let inner = body[hashes..].strip_prefix('"')?;
    let close = format!("\"{}", "#".repeat(hashes));
    let head = rest.len() - inner.len();
    Some(inner.find(&close).map_or(rest.len(), |at| head + at + close.len()))
}

/// A character literal, but not a lifetime.
fn character(rest: &str) -> usize {
    let mut chars = rest.chars().skip(1);
    match (chars.next(), chars.next()) {
        (Some('\\'), _) | (Some(_), Some('\'')) => quoted(rest, '\''),
        _ => 0,
    }
}

fn blank(taken: &str, out: &mut String) {
    out.extend(taken.chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
}

#[cfg(test)]
mod tests {
    use super::code_only;

    #[test]
    fn words_in_comments_and_literals_are_not_code() {
        let text =
            "a // unsafe\nb /* unsafe /* x */ y */ c \"unsafe \\\" unsafe\" d r#\"unsafe \" \"# e '\"' f";
        let code = code_only(text);
        assert!(!code.contains("unsafe"), "{code}");
        for word in ["a ", "b ", " c ", " d ", " e ", " f"] {
            assert!(code.contains(word), "{word:?} is lost in {code:?}");
        }
        assert_eq!(code.lines().count(), text.lines().count());
    }

    #[test]
    fn a_lifetime_opens_no_literal() {
        assert_eq!(code_only("fn f<'a>(x: &'a str) { unsafe }"), "fn f<'a>(x: &'a str) { unsafe }");
    }

    #[test]
    fn a_name_that_ends_in_r_opens_no_raw_string() {
        assert_eq!(code_only("for\"x\" y"), "for    y");
    }
}

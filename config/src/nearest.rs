//! The known name closest to a mistyped one.

/// The name of `known` with the fewest edits from `typed`, if that is close enough to be meant.
pub(crate) fn nearest<'a>(typed: &str, known: &'a [String]) -> Option<&'a str> {
    let scored = known.iter().map(|name| (distance(typed, name), name.as_str()));
    let (edits, name) = scored.min()?;
    (edits <= typed.len().max(3) / 2).then_some(name)
}

/// Edits (insert, remove, replace one character) from `a` to `b`.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, left) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, right) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(left != *right);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_are_counted() {
        assert_eq!(distance("socket", "socket"), 0);
        assert_eq!(distance("sokcet", "socket"), 2);
        assert_eq!(distance("", "abc"), 3);
    }

    #[test]
    fn only_close_names_are_offered() {
        let known = ["bridge".to_owned(), "masquerade".to_owned()];
        assert_eq!(nearest("brigde", &known), Some("bridge"));
        assert_eq!(nearest("zzzzzz", &known), None);
    }
}

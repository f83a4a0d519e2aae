//! Names that are near to a mistyped one.

/// Longest name that is compared, in characters: the distance costs the product of both lengths.
const MAX_CHARS: usize = 200;
/// Most names that are suggested.
pub(crate) const MAX_SUGGESTIONS: usize = 3;

/// The candidates near to `name`, the nearest first: at most a third of the characters differ, or one contains the
/// other. Case does not count.
pub fn near<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let wanted = name.to_lowercase();
    let mut scored: Vec<_> =
        candidates.into_iter().filter_map(|it| Some((score(&wanted, it)?, it))).collect();
    scored.sort();
    scored.dedup();
    scored.into_iter().take(MAX_SUGGESTIONS).map(|(_, it)| it.to_owned()).collect()
}

fn score(wanted: &str, candidate: &str) -> Option<usize> {
    let candidate = candidate.to_lowercase();
    let (a, b): (Vec<_>, Vec<_>) = (wanted.chars().collect(), candidate.chars().collect());
    if a.len().max(b.len()) > MAX_CHARS || a.is_empty() {
        return None;
    }
    let distance = edit_distance(&a, &b);
    let contains =
        a.len() >= 3 && (candidate.contains(wanted) || b.len() >= 3 && wanted.contains(&candidate));
    (distance <= a.len().max(b.len()) / 3 || contains).then_some(distance)
}

/// Levenshtein distance, one row of the table at a time.
fn edit_distance(a: &[char], b: &[char]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = i;
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        for (a, b, want) in
            [("", "", 0), ("abc", "", 3), ("", "abc", 3), ("kitten", "sitting", 3), ("ab", "ba", 2)]
        {
            let chars = |text: &str| text.chars().collect::<Vec<_>>();
            assert_eq!(edit_distance(&chars(a), &chars(b)), want, "{a} {b}");
        }
    }

    #[test]
    fn the_nearest_come_first_and_strangers_do_not_come() {
        let known = ["smollm2-135m", "smollm2-135x", "qwen2.5-coder-0.5b"];
        assert_eq!(near("smollm2-135x", known), ["smollm2-135x", "smollm2-135m"]);
        assert_eq!(near("SMOLLM2", known), ["smollm2-135m", "smollm2-135x"]);
        assert_eq!(near("qwen", known), ["qwen2.5-coder-0.5b"]);
        assert_eq!(near("mistral-7b-instruct", known), [""; 0]);
        assert_eq!(near("", known), [""; 0]);
        assert_eq!(near(&"s".repeat(100_000), known), [""; 0]);
    }
}

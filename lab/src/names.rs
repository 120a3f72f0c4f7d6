//! Names that people type.

/// Returns the candidate nearest to `name`, if it is near enough to be meant.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let all = candidates.into_iter().map(|candidate| (distance(name, candidate), candidate));
    let (distance, candidate) = all.min_by_key(|(distance, _)| *distance)?;
    (distance <= 1 + name.len().max(candidate.len()) / 3).then_some(candidate)
}

/// Returns the number of letters to insert, delete, replace or exchange with their neighbour.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.to_lowercase().chars().collect(), b.chars().collect());
    let mut rows = vec![(0..=b.len()).collect::<Vec<usize>>()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let same = usize::from(a[i - 1] != b[j - 1]);
            let mut least = (rows[i - 1][j] + 1).min(row[j - 1] + 1).min(rows[i - 1][j - 1] + same);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::nearest;

    const NAMES: [&str; 4] = ["yield", "cycle", "memory", "utilisation"];

    #[test]
    fn a_typing_error_finds_the_name_that_was_meant() {
        for (typed, meant) in
            [("yeild", "yield"), ("cycel", "cycle"), ("Memory", "memory"), ("utilization", "utilisation")]
        {
            assert_eq!(nearest(typed, NAMES), Some(meant));
        }
    }

    #[test]
    fn a_name_that_is_near_no_other_finds_none() {
        assert_eq!(nearest("web", NAMES), None);
    }
}

//! Figures as people read them.

/// A size in bytes: `98.3 MB` (powers of ten, as disks and downloads are sold).
pub(crate) fn bytes(n: u64) -> String {
    scaled(n, &["B", "kB", "MB", "GB", "TB", "PB", "EB"])
}

/// A number of things: `494.0 M`.
pub(crate) fn count(n: u64) -> String {
    scaled(n, &["", "k", "M", "G", "T", "P", "E"]).trim_end().to_owned()
}

/// Three to four digits and the unit that leaves at least one before the point; whole numbers below 1000.
fn scaled(n: u64, units: &[&str; 7]) -> String {
    let mut value = n as f64;
    let mut unit = 0;
    // What would be printed as 1000.0 belongs to the next unit.
    while value >= if unit == 0 { 1000.0 } else { 999.95 } {
        value /= 1000.0;
        unit += 1;
    }
    if unit == 0 { format!("{n} {}", units[0]) } else { format!("{value:.1} {}", units[unit]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_change_where_the_printed_figure_would_overflow() {
        for (n, want) in [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "1.0 kB"),
            (999_949, "999.9 kB"),
            (999_950, "1.0 MB"),
            (98_362_432, "98.4 MB"),
            (u64::MAX, "18.4 EB"),
        ] {
            assert_eq!(bytes(n), want);
        }
        assert_eq!(count(134_515_008), "134.5 M");
        assert_eq!(count(7), "7");
    }
}

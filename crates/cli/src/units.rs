//! Figures as people read them.

/// A size in bytes: `98.3 MB` (powers of ten, as disks and downloads are sold).
pub(crate) fn bytes(n: u64) -> String {
    scaled(n, &["B", "kB", "MB", "GB", "TB", "PB", "EB"])
}

/// A number of things: `494.0 M`.
pub(crate) fn count(n: u64) -> String {
    scaled(n, &["", "k", "M", "G", "T", "P", "E"]).trim_end().to_owned()
}

/// A size in memory: `1.25 GiB` (powers of two, as memory is made).
pub(crate) fn memory(n: usize) -> String {
    let mib = n as f64 / f64::from(1 << 20);
    if mib < 1024.0 { format!("{mib:.1} MiB") } else { format!("{:.2} GiB", mib / 1024.0) }
}

/// Reads a size: a number, and `K`, `M`, `G`, `T` for powers of 1024, alone or before `iB`; before `B`, of 1000.
pub(crate) fn parse_bytes(text: &str) -> Result<usize, SizeError> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = (text[..end].parse::<f64>().ok(), text[end..].trim().to_ascii_lowercase());
    let base: f64 = if unit.len() == 2 { 1000.0 } else { 1024.0 };
    let power = match unit.as_str() {
        "" | "b" => Some(0),
        unit => {
            let mut rest = unit.chars();
            let letter = rest.next().and_then(|letter| "kmgt".find(letter));
            letter.filter(|_| matches!(rest.as_str(), "" | "b" | "ib")).map(|i| i as i32 + 1)
        }
    };
    let bytes = number.zip(power).map(|(number, power)| number * base.powi(power));
    bytes.filter(|bytes| (1.0..9e18).contains(bytes)).map(|bytes| bytes as usize).ok_or(SizeError)
}

/// The same, or 0 for nothing at all.
pub(crate) fn parse_bytes_or_zero(text: &str) -> Result<usize, SizeError> {
    if text.trim() == "0" { Ok(0) } else { parse_bytes(text) }
}

/// A size that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a size is a number of bytes with a unit, such as 8GiB, 500M or 2GB")]
pub(crate) struct SizeError;

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

    #[test]
    fn sizes_are_read_as_people_write_them() {
        for (text, want) in [
            ("1", 1),
            ("512B", 512),
            ("8GiB", 8 << 30),
            ("8g", 8 << 30),
            (" 1.5 G ", 3 << 29),
            ("2GB", 2_000_000_000),
            ("500m", 500 << 20),
            ("3TiB", 3 << 40),
            ("7k", 7 << 10),
        ] {
            assert_eq!(parse_bytes(text), Ok(want), "{text}");
        }
        for text in ["", "x", "-1", "0", "1e9", "8GX", "8GiBs", "GiB", "1.2.3", "99999999999T", "NaN", "8é"]
        {
            assert_eq!(parse_bytes(text), Err(SizeError), "{text}");
        }
        assert_eq!(memory(1536 << 20), "1.50 GiB");
        assert_eq!(memory(10 << 20), "10.0 MiB");
    }
}

//! `strftime_now`: Python's `datetime.strftime` over a clock that the caller may hold still.

use jiff::civil::DateTime;
use jiff::fmt::strtime;

/// Formats `now` by a `strftime` pattern. As the C library does under Python, an unknown directive is copied; `%Z` and
/// `%z` are empty, since the reference's clock has no time zone.
pub(super) fn strftime(pattern: &str, now: DateTime) -> String {
    let mut out = String::new();
    let mut rest = pattern;
    while let Some(start) = rest.find('%') {
        out.push_str(&rest[..start]);
        let directive = directive_at(&rest[start..]);
        out.push_str(&one(directive, now));
        rest = &rest[start + directive.len()..];
    }
    out.push_str(rest);
    out
}

/// `%`, an optional flag, and the conversion character.
fn directive_at(text: &str) -> &str {
    let flag_len = usize::from(text[1..].starts_with(['-', '_', '0', '^', '#']));
    let conversion_len = text[1 + flag_len..].chars().next().map_or(0, char::len_utf8);
    &text[..1 + flag_len + conversion_len]
}

fn one(directive: &str, now: DateTime) -> String {
    match directive {
        "%Z" | "%z" => String::new(),
        "%f" => format!("{:06}", now.subsec_nanosecond() / 1000),
        "%c" => strftime("%a %b %e %H:%M:%S %Y", now),
        "%x" => strftime("%m/%d/%y", now),
        "%X" => strftime("%H:%M:%S", now),
        _ => strtime::format(directive, now).unwrap_or_else(|_| directive.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_as_python_does() {
        let now = jiff::civil::date(2025, 7, 6).at(14, 5, 9, 0);
        let cases = [
            ("%Y-%m-%d", "2025-07-06"),
            ("%d %b %Y", "06 Jul 2025"),
            ("%A, %B %-d, %Y", "Sunday, July 6, 2025"),
            ("%H:%M:%S %I %p %j %y", "14:05:09 02 PM 187 25"),
            ("100%% é %Z|%z|%f", "100% é ||000000"),
            ("%c", "Sun Jul  6 14:05:09 2025"),
            ("%!%", "%!%"),
            ("", ""),
        ];
        for (pattern, expected) in cases {
            assert_eq!(strftime(pattern, now), expected, "{pattern}");
        }
    }
}

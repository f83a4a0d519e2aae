//! Text of strangers, made fit to be shown: model files, requests and other programs may put anything into a string,
//! among it sequences that move the cursor or retitle the terminal.

use std::fmt::Write;

/// `text` on one line: control and formatting characters are written as escapes, everything else stays.
pub(crate) fn one_line(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if is_harmless(c) { out.push(c) } else { out.extend(c.escape_default()) }
    }
    out
}

/// `text` as it is, but for control characters other than tabs and line breaks, which are written as escapes.
pub(crate) fn text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if !c.is_control() || matches!(c, '\n' | '\t') { out.push(c) } else { out.extend(c.escape_default()) }
    }
    out
}

/// `text` on one line, cut to `max_chars` with an ellipsis.
pub(crate) fn elided(text: &str, max_chars: usize) -> String {
    let Some((end, _)) = text.char_indices().nth(max_chars) else { return one_line(text) };
    format!("{}…", one_line(&text[..end]))
}

/// `bytes` between quotation marks, as a literal that shows every byte: text as it is, the rest as escapes.
pub(crate) fn quoted(bytes: &[u8]) -> String {
    let mut out = String::from("\"");
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '"' | '\\' => out.extend(['\\', c]),
                _ => out.push_str(&one_line(c.encode_utf8(&mut [0; 4]))),
            }
        }
        for byte in chunk.invalid() {
            // Writing to a string cannot fail.
            let _ = write!(out, "\\x{byte:02x}");
        }
    }
    out + "\""
}

/// Whether `c` leaves the line, the direction of writing and the terminal alone.
fn is_harmless(c: char) -> bool {
    !c.is_control()
        && !matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_is_not_steered() {
        assert_eq!(one_line("a\x1b[2Jb\nc\u{9b}1m é漢🦀"), "a\\u{1b}[2Jb\\nc\\u{9b}1m é漢🦀");
        assert_eq!(one_line("left\u{202e}right"), "left\\u{202e}right");
    }

    #[test]
    fn text_of_many_lines_keeps_them() {
        assert_eq!(text("a\n\tb 👩\u{200d}🔬"), "a\n\tb 👩\u{200d}🔬");
        assert_eq!(text("\x1b]0;t\x07\r\u{9b}2J\x7f"), "\\u{1b}]0;t\\u{7}\\r\\u{9b}2J\\u{7f}");
    }

    #[test]
    fn long_text_is_cut_between_characters() {
        assert_eq!(elided("éééé", 4), "éééé");
        assert_eq!(elided("ééééé", 4), "éééé…");
        assert_eq!(elided("", 0), "");
    }

    #[test]
    fn a_quotation_shows_every_byte() {
        assert_eq!(quoted(b" the"), "\" the\"");
        assert_eq!(quoted(b"\"\\\n\t\0"), r#""\"\\\n\t\u{0}""#);
        assert_eq!(quoted(&[0xe2, 0x80, b'a', 0xff]), r#""\xe2\x80a\xff""#);
        assert_eq!(quoted("é".as_bytes()), "\"é\"");
    }
}

//! Filters over text: case, trimming, wrapping, counting.

use minijinja::value::{Kwargs, Rest, ValueKind};
use minijinja::{Environment, Error, ErrorKind, State, Value};

use super::Parameters;
use crate::chat::methods::string;
use crate::chat::repr;

pub(super) fn add_to(env: &mut Environment<'_>) {
    env.add_filter("string", string_filter);
    env.add_filter("upper", |value: &Value| repr::to_str(value).map(|s| s.to_uppercase()));
    env.add_filter("lower", |value: &Value| repr::to_str(value).map(|s| s.to_lowercase()));
    env.add_filter("capitalize", |value: &Value| repr::to_str(value).map(|s| string::capitalize(&s)));
    env.add_filter("title", |value: &Value| repr::to_str(value).map(|s| title(&s)));
    env.add_filter("trim", trim);
    env.add_filter("indent", indent);
    env.add_filter("center", center);
    env.add_filter("wordcount", |value: &Value| repr::to_str(value).map(|s| word_count(&s)));
    env.add_filter("truncate", truncate);
    env.add_filter("wordwrap", wordwrap);
    env.add_filter("pprint", pprint);
}

/// Safe text stays safe.
fn string_filter(value: &Value) -> Result<Value, Error> {
    if value.kind() == ValueKind::String { Ok(value.clone()) } else { repr::to_str(value).map(Value::from) }
}

/// Upper case behind a hyphen, white space or an opening bracket, lower case elsewhere.
fn title(text: &str) -> String {
    let is_separator = |c: char| c.is_whitespace() || "-({[<".contains(c);
    let words = text.split_inclusive(is_separator);
    words.map(string::capitalize).collect()
}

fn trim(value: &Value, chars: Option<String>) -> Result<Value, Error> {
    let text = repr::to_str(value)?;
    let trimmed = string::strip_chars(&text, chars.as_deref(), true, true).to_owned();
    Ok(if value.is_safe() { Value::from_safe_string(trimmed) } else { Value::from(trimmed) })
}

fn indent(state: &State<'_, '_>, value: &Value, args: Rest<Value>, kwargs: Kwargs) -> Result<String, Error> {
    let parameters = Parameters::new(&args, &kwargs, &["width", "first", "blank"])?;
    let indention = match parameters.value(0, "width")? {
        Some(width) if width.kind() == ValueKind::String => width.to_string(),
        _ => " ".repeat(parameters.size(0, "width")?.unwrap_or(4)),
    };
    let (first, blank) = (parameters.flag(1, "first")?, parameters.flag(2, "blank")?);
    let text = repr::to_str(value)?;
    state.consume_fuel((text.matches('\n').count() + 1) as u64 * (1 + indention.len() as u64 / 64))?;
    let mut out = String::new();
    for (i, line) in text.split('\n').enumerate() {
        if i > 0 {
            out.push('\n');
        }
        if if i == 0 { first } else { blank || !line.is_empty() } {
            out.push_str(&indention);
        }
        out.push_str(line);
    }
    Ok(out)
}

fn center(state: &State<'_, '_>, value: &Value, args: Rest<Value>, kwargs: Kwargs) -> Result<String, Error> {
    let width = Parameters::new(&args, &kwargs, &["width"])?.size(0, "width")?.unwrap_or(80);
    state.consume_fuel(width as u64 / 64)?;
    let text = repr::to_str(value)?;
    Ok(string::centered(&text, width, ' '))
}

/// Runs of letters, digits and underscores.
fn word_count(text: &str) -> usize {
    text.split(|c: char| c != '_' && !c.is_alphanumeric()).filter(|word| !word.is_empty()).count()
}

fn truncate(value: &Value, args: Rest<Value>, kwargs: Kwargs) -> Result<String, Error> {
    let parameters = Parameters::new(&args, &kwargs, &["length", "killwords", "end", "leeway"])?;
    let length = parameters.size(0, "length")?.unwrap_or(255);
    let end = parameters.text(2, "end")?.unwrap_or_else(|| "...".to_owned());
    let leeway = parameters.size(3, "leeway")?.unwrap_or(5);
    let text = repr::to_str(value)?;
    if text.chars().count() <= length + leeway {
        return Ok(text);
    }
    let Some(kept) = length.checked_sub(end.chars().count()) else {
        return Err(Error::new(ErrorKind::InvalidOperation, "expected length >= length of the end"));
    };
    let head: String = text.chars().take(kept).collect();
    let head = if parameters.flag(1, "killwords")? {
        &head
    } else {
        head.rsplit_once(' ').map_or(&*head, |(words, _)| words)
    };
    Ok(format!("{head}{end}"))
}

fn wordwrap(value: &Value, args: Rest<Value>, kwargs: Kwargs) -> Result<String, Error> {
    let names = ["width", "break_long_words", "wrapstring", "break_on_hyphens"];
    let parameters = Parameters::new(&args, &kwargs, &names)?;
    let width = parameters.size(0, "width")?.unwrap_or(79);
    if width == 0 {
        return Err(Error::new(ErrorKind::InvalidOperation, "the width must be more than 0"));
    }
    let breaks_words = parameters.value(1, "break_long_words")?.is_none_or(|v| v.is_true());
    let breaks_hyphens = parameters.value(3, "break_on_hyphens")?.is_none_or(|v| v.is_true());
    let newline = parameters.text(2, "wrapstring")?.unwrap_or_else(|| "\n".to_owned());
    let text = repr::to_str(value)?;
    let lines = text.lines().map(|line| wrap_line(line, width, breaks_words, breaks_hyphens).join(&newline));
    Ok(lines.collect::<Vec<_>>().join(&newline))
}

/// Python's `textwrap` of one line: white space is kept inside lines and dropped where a line ends.
fn wrap_line(line: &str, width: usize, breaks_words: bool, breaks_hyphens: bool) -> Vec<String> {
    let mut lines = Vec::new();
    let (mut current, mut n_chars) = (String::new(), 0);
    for chunk in chunks(line, breaks_hyphens) {
        let mut chunk = chunk;
        let mut n_chunk = chunk.chars().count();
        let is_space = chunk.starts_with(char::is_whitespace);
        if n_chars + n_chunk > width {
            if breaks_words && n_chunk > width && !is_space {
                let head: String = chunk.chars().take(width - n_chars.min(width - 1)).collect();
                if n_chars < width {
                    current.push_str(&head);
                    chunk = &chunk[head.len()..];
                }
            }
            lines.push(std::mem::take(&mut current).trim_end().to_owned());
            while breaks_words && !is_space && chunk.chars().count() > width {
                let head: String = chunk.chars().take(width).collect();
                chunk = &chunk[head.len()..];
                lines.push(head);
            }
            n_chars = 0;
            n_chunk = chunk.chars().count();
        }
        if is_space && n_chars == 0 && !lines.is_empty() {
            continue;
        }
        current.push_str(chunk);
        n_chars += n_chunk;
    }
    lines.push(current.trim_end().to_owned());
    lines.retain(|line| !line.is_empty());
    lines
}

/// Words and the white space between them; a word may end behind a hyphen between letters.
fn chunks(line: &str, breaks_hyphens: bool) -> Vec<&str> {
    let mut chunks = Vec::new();
    let mut start = 0;
    let chars: Vec<(usize, char)> = line.char_indices().collect();
    for pair in chars.windows(3) {
        let [(_, a), (_, b), (i, c)] = *pair else { continue };
        let is_hyphen = breaks_hyphens && a.is_alphabetic() && b == '-' && c.is_alphabetic();
        if is_hyphen || b.is_whitespace() != c.is_whitespace() {
            chunks.push(&line[start..i]);
            start = i;
        }
    }
    if let [(_, a), (i, b), ..] = chars[..]
        && a.is_whitespace() != b.is_whitespace()
        && let Some(first) = chunks.first_mut()
    {
        let whole = *first;
        *first = &whole[..i];
        chunks.insert(1, &whole[i..]);
    }
    chunks.push(&line[start..]);
    chunks.retain(|chunk| !chunk.is_empty());
    chunks
}

/// Python's `pprint.pformat` of what fits in one line of 80 characters; anything wider is refused.
fn pprint(value: &Value) -> Result<String, Error> {
    let text = repr::to_sorted_repr(value)?;
    match text.chars().count() {
        0..=80 => Ok(text),
        n => Err(Error::new(
            ErrorKind::InvalidOperation,
            format!("pprint is limited to 80 characters, and this takes {n}"),
        )),
    }
}

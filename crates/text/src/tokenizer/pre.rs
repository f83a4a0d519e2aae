//! How each pre-tokenizer splits text before BPE: a table, one row per kind, named by `tokenizer.ggml.pre`.
//!
//! The patterns are those of the published `tokenizer.json` files, which the models were trained with, as they stand
//! there. Stages run one after another, each on the pieces that the last one left; matches and what lies between them
//! are both pieces. Models whose files agree share a row. A name that isn't here is refused at load: a wrong guess would
//! give wrong ids without a word.
//!
//! Recorded ids check the rows of qwen2, smollm, llama-bpe, gpt-4o, tekken and deepseek-v3 (`tests/tokenizer`).

/// A pre-tokenizer.
#[derive(Debug)]
pub(super) struct Pre {
    /// The values of `tokenizer.ggml.pre` that mean it.
    pub(super) names: &'static [&'static str],
    /// Whether text is brought to Unicode normal form C first.
    pub(super) nfc: bool,
    /// The splits, in order.
    pub(super) stages: &'static [Stage],
    /// A piece that is a token as a whole is that token, whatever the merges would make of it.
    pub(super) ignore_merges: bool,
    /// Whether a text starts with bos where the file doesn't say (`tokenizer.ggml.add_bos_token`).
    pub(super) add_bos: bool,
}

/// One split.
#[derive(Clone, Copy, Debug)]
pub(super) enum Stage {
    /// Matches of a pattern in the text.
    Text(&'static str),
    /// Matches in the text's [byte letters](super::byte_letters): of stages that stand after `ByteLevel` in the file.
    Letters(&'static str),
}
use Stage::{Letters, Text};

/// `ByteLevel` with its own pattern.
const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
/// `Digits` with `individual_digits`.
const EACH_DIGIT: &str = r"\p{N}";
const QWEN2: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN35: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const O200K: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const TEKKEN: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const DEEPSEEK_V3: &str = r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"##;
/// Letters with upper and lower case, as `deepseek-llm` lists them; Greek by number, as its characters look alike.
const CASED_WORD: &str = r"\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽ\x{37F}\x{386}\x{388}-\x{38A}\x{38C}\x{38E}-\x{3A1}\x{3A3}-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚ\x{1E00}-\x{1F15}\x{1F18}-\x{1F1D}\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D}\x{1F50}-\x{1F57}\x{1F59}\x{1F5B}\x{1F5D}\x{1F5F}-\x{1F7D}\x{1F80}-\x{1FB4}\x{1FB6}-\x{1FBC}\x{1FBE}\x{1FC2}-\x{1FC4}\x{1FC6}-\x{1FCC}\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB}\x{1FE0}-\x{1FEC}\x{1FF2}-\x{1FF4}\x{1FF6}-\x{1FFC}ℂℇℊ-ℓℕℙ-ℝℤ\x{2126}ℨ\x{212A}-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+";
const CJK_WORD: &str = "[一-龥ࠀ-一가-퟿]+";

const PLAIN: Pre = Pre { names: &[], nfc: false, stages: &[], ignore_merges: false, add_bos: false };

/// Every pre-tokenizer that is known.
pub(super) const TABLE: &[Pre] = &[
    Pre {
        names: &[
            "gpt-2",
            "phi-2",
            "roberta-bpe",
            "jina-es",
            "jina-de",
            "jina-v2-es",
            "jina-v2-de",
            "jina-v2-code",
        ],
        stages: &[Text(GPT2)],
        ..PLAIN
    },
    Pre { names: &["mpt", "olmo", "modern-bert"], nfc: true, stages: &[Text(GPT2)], ..PLAIN },
    Pre {
        names: &["smollm", "starcoder", "refact", "codeshell"],
        stages: &[Text(EACH_DIGIT), Text(GPT2)],
        ..PLAIN
    },
    Pre { names: &["command-r"], nfc: true, stages: &[Text(EACH_DIGIT), Text(GPT2)], ..PLAIN },
    Pre {
        names: &["falcon"],
        stages: &[Text(r"[\p{P}$+<=>^`|~]+"), Text(GPT2), Letters(r"\p{N}+"), Letters("[0-9][0-9][0-9]")],
        ..PLAIN
    },
    Pre { names: &["qwen2", "deepseek-r1-qwen"], nfc: true, stages: &[Text(QWEN2)], ..PLAIN },
    Pre { names: &["qwen35"], nfc: true, stages: &[Text(QWEN35)], ..PLAIN },
    Pre {
        names: &["llama-bpe", "llama3", "llama-v3"],
        stages: &[Text(LLAMA3)],
        ignore_merges: true,
        add_bos: true,
        ..PLAIN
    },
    Pre { names: &["smaug-bpe"], stages: &[Text(LLAMA3)], ..PLAIN },
    Pre { names: &["gpt-4o"], stages: &[Text(O200K)], ignore_merges: true, ..PLAIN },
    Pre { names: &["tekken"], stages: &[Text(TEKKEN)], ignore_merges: true, add_bos: true, ..PLAIN },
    Pre {
        names: &["deepseek-v3"],
        stages: &[Text(r"\p{N}{1,3}"), Text("[一-龥぀-ゟ゠-ヿ]+"), Text(DEEPSEEK_V3)],
        ..PLAIN
    },
    Pre {
        names: &["deepseek-coder"],
        stages: &[Text(r"[\r\n]"), Text(r"\s?\p{L}+"), Text(r"\s?\p{P}+"), Text(CJK_WORD), Text(EACH_DIGIT)],
        ..PLAIN
    },
    Pre {
        names: &["deepseek-llm"],
        stages: &[
            Text(r"[\r\n]"),
            Text(CASED_WORD),
            Text(r"\s?[!-/:-~！-／：-～‘-‟　-。]+"),
            Text(r"\s+$"),
            Text(CJK_WORD),
            Text(EACH_DIGIT),
        ],
        ..PLAIN
    },
];

/// The pre-tokenizer of that name.
pub(super) fn by_name(name: &str) -> Option<&'static Pre> {
    TABLE.iter().find(|pre| pre.names.contains(&name))
}

/// All names, sorted.
pub(super) fn names() -> Vec<&'static str> {
    let mut names: Vec<_> = TABLE.iter().flat_map(|pre| pre.names).copied().collect();
    names.sort_unstable();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_stands_twice() {
        let names = names();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]));
        assert!(names.iter().all(|name| by_name(name).is_some()));
        assert!(by_name("default").is_none() && by_name("").is_none());
    }
}

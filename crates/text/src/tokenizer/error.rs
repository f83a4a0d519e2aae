//! Why a tokenizer could not be built from a file, or could not do what was asked.

use minfer_gguf::MetadataError;

/// What is wrong with a tokenizer's metadata, or with a request to it.
#[derive(Debug, thiserror::Error)]
pub enum TokenizerError {
    /// A key is missing or has the wrong type.
    #[error(transparent)]
    Metadata(#[from] MetadataError),
    /// `tokenizer.ggml.model` names a kind of tokenizer that minfer doesn't have.
    #[error("unsupported tokenizer.ggml.model '{model}'; supported: gpt2, llama")]
    UnknownModel {
        /// The name in the file.
        model: String,
    },
    /// `tokenizer.ggml.pre` is missing or unknown, so nobody can say how text is to be split.
    #[error(
        "{}; state one with --override-kv tokenizer.ggml.pre=str:NAME, NAME being one of: {}",
        match pre {
            Some(pre) => format!("unknown pre-tokenizer '{pre}' in tokenizer.ggml.pre"),
            None => "metadata key 'tokenizer.ggml.pre' is missing".to_string(),
        },
        known.join(", ")
    )]
    UnknownPre {
        /// The name in the file, if there is one.
        pre: Option<String>,
        /// The names that would be understood.
        known: Vec<&'static str>,
    },
    /// `tokenizer.ggml.tokens` is empty.
    #[error("metadata key 'tokenizer.ggml.tokens' is an empty array")]
    EmptyVocabulary,
    /// An array that should have one entry per token has another length.
    #[error("metadata key '{key}' has {found} entries, but there are {n_vocab} tokens")]
    Length {
        /// The array's key.
        key: &'static str,
        /// Its length.
        found: usize,
        /// The number of tokens.
        n_vocab: usize,
    },
    /// A token type is none of the six that GGUF defines.
    #[error("metadata key 'tokenizer.ggml.token_type' has {value} at index {index}; types are 0 to 6")]
    TokenType {
        /// Where in the array.
        index: usize,
        /// What is there.
        value: i32,
    },
    /// A token of type 6 is not spelled `<0xNN>`.
    #[error("token {index} has type 6 (byte), but its text '{text}' is not of the form <0xNN>")]
    ByteToken {
        /// The token's id.
        index: usize,
        /// Its text.
        text: String,
    },
    /// A score is not a number, so pairs cannot be put in order.
    #[error("metadata key 'tokenizer.ggml.scores' has NaN at index {index}")]
    Score {
        /// Where in the array.
        index: usize,
    },
    /// A merge is not two pieces with a space between.
    #[error(
        "metadata key 'tokenizer.ggml.merges' has '{merge}' at index {index}; expected two pieces and a space"
    )]
    MergeForm {
        /// Where in the array.
        index: usize,
        /// What is there.
        merge: String,
    },
    /// A merge needs or makes a token that the vocabulary doesn't have.
    #[error(
        "metadata key 'tokenizer.ggml.merges' at index {index}: '{merge}' needs '{piece}', which is no token"
    )]
    MergeToken {
        /// Where in the array.
        index: usize,
        /// The merge.
        merge: String,
        /// The missing token.
        piece: String,
    },
    /// A key names a token beyond the vocabulary.
    #[error("metadata key '{key}' is {id}, but there are only {n_vocab} tokens")]
    SpecialId {
        /// The key.
        key: &'static str,
        /// The id in the file.
        id: u32,
        /// The number of tokens.
        n_vocab: usize,
    },
    /// The file asks for a special token around every text, but doesn't say which.
    #[error("metadata key '{flag}' is set, but '{key}' is missing")]
    NoSuchSpecial {
        /// The flag that asks for it.
        flag: &'static str,
        /// The key that should name it.
        key: &'static str,
    },
    /// An id to decode is beyond the vocabulary.
    #[error("token id {id} is not in the vocabulary of {n_vocab} tokens")]
    UnknownId {
        /// The id.
        id: u32,
        /// The number of tokens.
        n_vocab: usize,
    },
    /// A text is too long to be numbered with 32 bits.
    #[error("a text of {bytes} bytes is too long for the tokenizer, which takes 1 GiB at most")]
    TextTooLong {
        /// Its length.
        bytes: usize,
    },
    /// A splitting pattern could not be compiled.
    #[error("the pre-tokenizer pattern of '{pre}' cannot be compiled")]
    Pattern {
        /// The pre-tokenizer's name.
        pre: String,
        /// What the pattern compiler says.
        source: Box<regex_automata::meta::BuildError>,
    },
}

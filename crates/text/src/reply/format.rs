//! The table: how models write reasoning and tool calls.
//!
//! A reply has its calls in regions. A region begins with an opening text and holds calls of one syntax, with glue around
//! them; whatever does not fit ends it. A format is a row that says which texts those are; a new model is most often a new
//! row.

/// How reasoning is set apart, at the beginning of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReasoningTags {
    /// Begins it.
    pub open: &'static str,
    /// Ends it.
    pub close: &'static str,
}

/// The known pairs.
pub(super) const REASONING: &[ReasoningTags] = &[
    ReasoningTags { open: "<think>", close: "</think>" },
    ReasoningTags { open: "[THINK]", close: "[/THINK]" },
];

/// How a model writes tool calls.
#[derive(Debug, PartialEq, Eq)]
pub struct ToolFormat {
    /// Its name, for people.
    pub name: &'static str,
    /// Texts that begin a region.
    pub(super) open: &'static [&'static str],
    /// Texts that begin a region and belong to its first call.
    pub(super) open_kept: &'static [&'static str],
    /// Whether a reply may begin with a call, without any opening; such a call must name a tool of the request.
    pub(super) is_bare: bool,
    /// Texts before a call.
    pub(super) call_open: &'static [&'static str],
    /// Texts before, between and after calls that say nothing.
    pub(super) glue: &'static [&'static str],
    /// Texts that end a region.
    pub(super) close: &'static [&'static str],
    /// Calls as JSON objects, one after the other or in an array.
    pub(super) json: bool,
    /// Calls as a head with the name, and the arguments as JSON.
    pub(super) head: Option<Head>,
    /// Calls with a tag for each parameter.
    pub(super) tags: Option<Tags>,
    /// Calls as Python writes them, one after the other or in a list.
    pub(super) python: bool,
}

/// The head of a call: all before the `{` of its arguments.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Head {
    /// Texts before the name, to be skipped.
    pub(super) before: &'static [&'static str],
    /// The first of these ends the name.
    pub(super) ends: &'static [&'static str],
}

/// `fn_open NAME name_end (param_open KEY key_end value_open? VALUE param_close)* fn_close`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Tags {
    pub(super) fn_open: &'static str,
    /// The first of these ends the name.
    pub(super) name_end: &'static [&'static str],
    /// Whether what ends the name is read again.
    pub(super) keeps_name_end: bool,
    pub(super) param_open: &'static str,
    pub(super) key_end: &'static str,
    pub(super) value_open: Option<&'static str>,
    /// What closes a parameter, with a line break before it and without.
    pub(super) param_close: &'static [&'static str],
    pub(super) fn_close: &'static str,
}

const NONE: ToolFormat = ToolFormat {
    name: "",
    open: &[],
    open_kept: &[],
    is_bare: false,
    call_open: &[],
    glue: &[],
    close: &[],
    json: false,
    head: None,
    tags: None,
    python: false,
};

/// The rows, in the order in which they are tried.
pub(super) const FORMATS: &[ToolFormat] = &[
    // Qwen2.5, Qwen3, Hermes, SmolLM3 and many more.
    ToolFormat { name: "hermes", open: &["<tool_call>"], close: &["</tool_call>"], json: true, ..NONE },
    // Qwen3-Coder, Qwen3.5, Nemotron 3.
    ToolFormat {
        name: "qwen3-coder",
        open: &["<tool_call>"],
        open_kept: &["<function="],
        close: &["</tool_call>"],
        tags: Some(Tags {
            fn_open: "<function=",
            name_end: &[">"],
            keeps_name_end: false,
            param_open: "<parameter=",
            key_end: ">",
            value_open: None,
            param_close: &["\n</parameter>", "</parameter>"],
            fn_close: "</function>",
        }),
        ..NONE
    },
    // Llama 3.1, 3.2, 3.3.
    ToolFormat { name: "llama3", open: &["<|python_tag|>"], is_bare: true, glue: &[";"], json: true, ..NONE },
    // Mistral: a list of objects up to Nemo, a name and arguments since.
    ToolFormat {
        name: "mistral",
        open: &["[TOOL_CALLS]"],
        json: true,
        head: Some(Head { before: &[], ends: &["[ARGS]", "[CALL_ID]"] }),
        ..NONE
    },
    // DeepSeek R1 and V3 write the type, the name and a block of code; V3.1 the name and the arguments.
    ToolFormat {
        name: "deepseek",
        open: &["<｜tool▁calls▁begin｜>"],
        call_open: &["<｜tool▁call▁begin｜>"],
        glue: &["<｜tool▁call▁end｜>", "```"],
        close: &["<｜tool▁calls▁end｜>"],
        head: Some(Head { before: &["function<｜tool▁sep｜>"], ends: &["\n", "<｜tool▁sep｜>"] }),
        ..NONE
    },
    // GLM 4.5 and later.
    ToolFormat {
        name: "glm",
        open: &["<tool_call>"],
        close: &["</tool_call>"],
        tags: Some(Tags {
            fn_open: "",
            name_end: &["\n", "<arg_key>", "</tool_call>"],
            keeps_name_end: true,
            param_open: "<arg_key>",
            key_end: "</arg_key>",
            value_open: Some("<arg_value>"),
            param_close: &["</arg_value>"],
            fn_close: "</tool_call>",
        }),
        ..NONE
    },
    ToolFormat {
        name: "minimax",
        open: &["<minimax:tool_call>"],
        close: &["</minimax:tool_call>"],
        tags: Some(Tags {
            fn_open: "<invoke name=\"",
            name_end: &["\">"],
            keeps_name_end: false,
            param_open: "<parameter name=\"",
            key_end: "\">",
            value_open: None,
            param_close: &["</parameter>"],
            fn_close: "</invoke>",
        }),
        ..NONE
    },
    ToolFormat {
        name: "minicpm5",
        open_kept: &["<function name=\""],
        tags: Some(Tags {
            fn_open: "<function name=\"",
            name_end: &["\">"],
            keeps_name_end: false,
            param_open: "<param name=\"",
            key_end: "\">",
            value_open: None,
            param_close: &["</param>"],
            fn_close: "</function>",
        }),
        ..NONE
    },
    ToolFormat {
        name: "kimi",
        open: &["<|tool_calls_section_begin|>"],
        call_open: &["<|tool_call_begin|>"],
        glue: &["<|tool_call_end|>"],
        close: &["<|tool_calls_section_end|>"],
        head: Some(Head { before: &["functions."], ends: &[":"] }),
        ..NONE
    },
    ToolFormat {
        name: "hunyuan",
        open: &["<tool_calls>"],
        call_open: &["<tool_call>"],
        glue: &["</tool_call>", "```"],
        close: &["</tool_calls>"],
        head: Some(Head { before: &[], ends: &["\n"] }),
        ..NONE
    },
    ToolFormat { name: "nemotron", open: &["<TOOLCALL>"], close: &["</TOOLCALL>"], json: true, ..NONE },
    ToolFormat { name: "apriel", open: &["<tool_calls>"], close: &["</tool_calls>"], json: true, ..NONE },
    ToolFormat {
        name: "cohere",
        open: &["<|START_ACTION|>"],
        close: &["<|END_ACTION|>"],
        json: true,
        ..NONE
    },
    ToolFormat {
        name: "internlm",
        open: &["<|action_start|><|plugin|>", "<|action_start|> <|plugin|>"],
        close: &["<|action_end|>"],
        json: true,
        ..NONE
    },
    ToolFormat {
        name: "functionary",
        open_kept: &["<function="],
        call_open: &["<function="],
        glue: &["</function>"],
        head: Some(Head { before: &[], ends: &[">"] }),
        ..NONE
    },
    // LFM2 and LFM2.5.
    ToolFormat {
        name: "lfm2",
        open: &["<|tool_call_start|>"],
        close: &["<|tool_call_end|>"],
        python: true,
        ..NONE
    },
    // OLMo 3.
    ToolFormat {
        name: "olmo3",
        open: &["<function_calls>"],
        close: &["</function_calls>"],
        python: true,
        ..NONE
    },
    ToolFormat {
        name: "step-audio",
        open: &["<|CALL_START|>"],
        close: &["<|CALL_END|>"],
        head: Some(Head { before: &["function\n"], ends: &["\n"] }),
        ..NONE
    },
];

impl ToolFormat {
    /// Every row.
    pub fn all() -> &'static [ToolFormat] {
        FORMATS
    }

    /// The texts that steer reading: a tokenizer may have them as control tokens.
    pub fn markers(&self) -> impl Iterator<Item = &'static str> {
        let head = self.head.iter().flat_map(|head| head.before.iter().chain(head.ends));
        let texts = self.open.iter().chain(self.call_open).chain(self.glue).chain(self.close).chain(head);
        let tags = self
            .tags
            .iter()
            .flat_map(|t| [t.param_open, t.key_end, t.fn_close].into_iter().chain(t.value_open));
        let closes = self.tags.iter().flat_map(|t| t.param_close.iter().copied());
        texts.copied().chain(tags).chain(closes)
    }
}

use minfer_text::reply::{ReplyEvent, ReplyFormat, ReplyOptions, ReplyParser, ToolFormat};
use serde_json::json;

use crate::support::{THINK, format, read, read_pieces, tools};

/// For every row two calls, as models write them.
pub(crate) const CALLS: &[(&str, &str)] = &[
    (
        "hermes",
        "<tool_call>\n{\"name\": \"edit\", \"arguments\": {\"path\": \"a<b>\\n\", \"n\": 3}}\n</tool_call>\n\
         <tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>",
    ),
    (
        "qwen3-coder",
        "<tool_call>\n<function=edit>\n<parameter=path>\na<b>\n\n</parameter>\n<parameter=n>\n3\n</parameter>\n\
         </function>\n</tool_call>\n<tool_call>\n<function=now>\n</function>\n</tool_call>",
    ),
    (
        "llama3",
        "{\"name\": \"edit\", \"parameters\": {\"path\": \"a<b>\\n\", \"n\": 3}}; {\"name\": \"now\", \"parameters\": {}}",
    ),
    (
        "mistral",
        "[TOOL_CALLS][{\"name\": \"edit\", \"arguments\": {\"path\": \"a<b>\\n\", \"n\": 3}, \"id\": \"abc\"}, \
         {\"name\": \"now\", \"arguments\": {}}]",
    ),
    (
        "deepseek",
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>edit\n```json\n\
         {\"path\": \"a<b>\\n\", \"n\": 3}\n```<｜tool▁call▁end｜>\n\
         <｜tool▁call▁begin｜>function<｜tool▁sep｜>now\n```json\n{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
    ),
    (
        "glm",
        "<tool_call>edit\n<arg_key>path</arg_key>\n<arg_value>a<b>\n</arg_value>\n<arg_key>n</arg_key>\n\
         <arg_value>3</arg_value>\n</tool_call>\n<tool_call>now\n</tool_call>",
    ),
    (
        "minimax",
        "<minimax:tool_call>\n<invoke name=\"edit\">\n<parameter name=\"path\">a<b>\n</parameter>\n\
         <parameter name=\"n\">3</parameter>\n</invoke>\n<invoke name=\"now\">\n</invoke>\n</minimax:tool_call>",
    ),
    (
        "minicpm5",
        "<function name=\"edit\"><param name=\"path\">a<b>\n</param><param name=\"n\">3</param></function>\n\
         <function name=\"now\"></function>",
    ),
    (
        "kimi",
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.edit:0<|tool_call_argument_begin|>\
         {\"path\": \"a<b>\\n\", \"n\": 3}<|tool_call_end|><|tool_call_begin|>functions.now:1\
         <|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>",
    ),
    (
        "hunyuan",
        "<tool_calls><tool_call>edit\n```json\n{\"path\": \"a<b>\\n\", \"n\": 3}\n```</tool_call>\n\
         <tool_call>now\n```json\n{}\n```</tool_call></tool_calls>",
    ),
    (
        "nemotron",
        "<TOOLCALL>[{\"name\": \"edit\", \"arguments\": {\"path\": \"a<b>\\n\", \"n\": 3}}, \
         {\"name\": \"now\", \"arguments\": {}}]</TOOLCALL>",
    ),
    (
        "apriel",
        "<tool_calls>[{\"name\": \"edit\", \"arguments\": {\"path\": \"a<b>\\n\", \"n\": 3}, \"id\": \"x\"}, \
         {\"name\": \"now\", \"arguments\": {}}]</tool_calls>",
    ),
    (
        "cohere",
        "<|START_ACTION|>[\n {\"tool_call_id\": \"0\", \"tool_name\": \"edit\", \"parameters\": \
         {\"path\": \"a<b>\\n\", \"n\": 3}},\n {\"tool_name\": \"now\", \"parameters\": {}}\n]<|END_ACTION|>",
    ),
    (
        "internlm",
        "<|action_start|><|plugin|>\n{\"name\": \"edit\", \"parameters\": {\"path\": \"a<b>\\n\", \"n\": 3}}\
         <|action_end|>\n<|action_start|><|plugin|>\n{\"name\": \"now\", \"parameters\": {}}<|action_end|>",
    ),
    ("functionary", "<function=edit>{\"path\": \"a<b>\\n\", \"n\": 3}</function><function=now>{}</function>"),
    ("lfm2", "<|tool_call_start|>[edit(path=\"a<b>\\n\", n=3), now()]<|tool_call_end|>"),
    ("olmo3", "<function_calls>edit(path=\"a<b>\\n\", n=3)\nnow()</function_calls>"),
    (
        "step-audio",
        "<|CALL_START|>function\nedit\n{\"path\": \"a<b>\\n\", \"n\": 3}<|CALL_END|>\
         <|CALL_START|>function\nnow\n{}<|CALL_END|>",
    ),
];

#[test]
fn every_format_reads_two_calls_behind_reasoning_and_words() {
    assert_eq!(CALLS.len(), ToolFormat::all().len());
    for (name, calls) in CALLS {
        // A bare call begins the reply.
        let words = if *name == "llama3" { "" } else { "I will look." };
        let reply = read(format(name), &format!("<think>\nHm.\n</think>\n\n{words}\n{calls}\n"));
        assert_eq!((reply.reasoning.as_str(), reply.content.as_str()), ("Hm.", words), "{name}");
        let expected =
            [("edit".to_owned(), json!({"path": "a<b>\n", "n": 3})), ("now".to_owned(), json!({}))];
        assert_eq!(reply.called(), expected, "{name}");
    }
}

#[test]
fn other_spellings_are_read_too() {
    let given = [
        ("mistral", "[TOOL_CALLS]edit[ARGS]{\"n\": 3}[TOOL_CALLS]now[CALL_ID]abc123XYZ[ARGS]{}"),
        (
            "llama3",
            "<|python_tag|>{\"name\": \"edit\", \"parameters\": {\"n\": 3}}; {\"name\": \"now\", \"parameters\": {}}",
        ),
        (
            "llama3",
            "{\"type\": \"function\", \"function\": \"edit\", \"parameters\": {\"n\": 3}}\n{\"name\": \"now\", \"parameters\": null}",
        ),
        (
            "deepseek",
            "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>edit<｜tool▁sep｜>{\"n\": 3}<｜tool▁call▁end｜><｜tool▁call▁begin｜>now<｜tool▁sep｜>{}",
        ),
        (
            "hermes",
            "<tool_call>{\"arguments\": {\"n\": 3}, \"name\": \"edit\"}</tool_call><tool_call>{\"name\": \"now\"}</tool_call>",
        ),
        (
            "hermes",
            "<tool_call>{\"name\": \"edit\", \"arguments\": \"{\\\"n\\\": 3}\"}{\"id\": 7, \"name\": \"now\", \"arguments\": {}}</tool_call>",
        ),
        (
            "hermes",
            "<tool_call>{\"type\": \"function\", \"function\": {\"name\": \"edit\", \"arguments\": {\"n\": 3}}, \"id\": \"x\"}</tool_call><tool_call>{\"name\": \"now\", \"arguments\": {}</tool_call>",
        ),
        ("lfm2", "<|tool_call_start|>[ edit( n = 3 , ) ,\nnow( )]<|tool_call_end|>"),
        ("olmo3", "<function_calls>\nedit(n=3)\nnow()\n</function_calls>"),
        (
            "qwen3-coder",
            "<function=edit>\n<parameter=n>\n3\n</parameter>\n</function>\n<function=now></function>",
        ),
        (
            "qwen3-coder",
            "<tool_call><function=edit><parameter=n>3</parameter></tool_call><tool_call><function=now></tool_call>",
        ),
    ];
    for (name, text) in given {
        let reply = read(format(name), text);
        let expected = [("edit".to_owned(), json!({"n": 3})), ("now".to_owned(), json!({}))];
        assert_eq!((reply.called(), reply.content.as_str()), (expected.to_vec(), ""), "{name} {text}");
    }
}

#[test]
fn what_only_looks_like_a_call_is_content() {
    let given = [
        ("hermes", "A <tool_call> tag, <tool_cal and </tool_call>.  "),
        ("hermes", "<tool_call>\n{\"city\": \"Oslo\"}\n</tool_call>"),
        ("hermes", "<tool_call>{\"name\": 3}</tool_call>"),
        ("hermes", "<tool_call>{\"name\": \"edit\", \"arguments\": [1]}</tool_call>"),
        ("hermes", "x < y <"),
        ("llama3", "{\"name\": \"nobody\", \"parameters\": {}}"),
        ("llama3", "{\"name\": \"edit\", \"age\": 3}"),
        ("llama3", "[1, 2, 3] and {}"),
        ("llama3", "<|python_tag|>print(1)"),
        ("mistral", "[TOOL_CALLS] are tokens"),
        ("qwen3-coder", "<function= is how it begins"),
        ("glm", "<tool_call>not a name</tool_call>"),
        ("kimi", "<|tool_calls_section_begin|><|tool_calls_section_end|>"),
    ];
    for (name, text) in given {
        let reply = read(format(name), text);
        assert_eq!((reply.content.as_str(), reply.calls.len()), (text, 0), "{name}");
    }
}

#[test]
fn a_call_behind_what_is_none_is_found() {
    let reply = read(
        format("hermes"),
        "<tool_call> <tool_call>{\"name\": \"now\", \"arguments\": {}}</tool_call> Done.",
    );
    assert_eq!((reply.content.as_str(), reply.calls.len()), ("<tool_call>Done.", 1));
}

#[test]
fn a_call_that_is_cut_off_is_never_lost_and_never_whole() {
    for (name, calls) in CALLS {
        for (end, _) in calls.char_indices().skip(1) {
            let text = &calls[..end];
            let reply = read(format(name), text);
            match reply.calls.as_slice() {
                [] => assert_eq!(
                    reply.content,
                    text.trim_end().to_owned() + &text[text.trim_end().len()..],
                    "{name}"
                ),
                calls => {
                    assert!(calls.iter().rev().skip(1).all(|c| c.is_complete == Some(true)), "{name}: {text}")
                }
            }
        }
    }
    let reply = read(format("hermes"), "<tool_call>\n{\"name\": \"edit\", \"arguments\": {\"path\": \"/tm");
    assert_eq!(reply.calls[0].arguments, "{\"path\": \"/tm");
    assert_eq!(reply.calls[0].is_complete, Some(false));
}

#[test]
fn arguments_that_are_not_json_end_the_call_as_incomplete() {
    let reply =
        read(format("hermes"), "<tool_call>{\"name\": \"edit\", \"arguments\": {\"path\": 'x'}}</tool_call>");
    assert_eq!((reply.calls.len(), reply.calls[0].is_complete), (1, Some(false)));
    assert_eq!(reply.content, "'x'}}</tool_call>");
    let reply = read(format("qwen3-coder"), "<function=edit>\n<parameter=n>\n3\n</parameter>\nwords");
    assert_eq!((reply.calls[0].is_complete, reply.content.as_str()), (Some(false), "words"));
}

#[test]
fn a_text_may_have_its_own_closing_tag_in_it() {
    let call = |value: &str| {
        format!(
            "<tool_call>\n<function=edit>\n<parameter=path>\n{value}\n</parameter>\n<parameter=n>\n3\n\
             </parameter>\n</function>\n</tool_call>"
        )
    };
    for value in [
        "a</parameter>b",
        "</parameter>",
        "a\n</parameter>\n\n</parameter> c",
        "<function=x>\n<parameter=y>\n1\n</parameter>\n</functionary>",
        "</parameter></parameter></parameter>x",
        "\n</parameter></tool_cal",
    ] {
        let reply = read(format("qwen3-coder"), &call(value));
        assert_eq!(reply.called(), [("edit".to_owned(), json!({"path": value, "n": 3}))], "{value:?}");
        assert_eq!(reply.content, "");
    }
    let glm = "<tool_call>edit\n<arg_key>path</arg_key>\n<arg_value>a</arg_value>b</arg_value>\n</tool_call>";
    assert_eq!(read(format("glm"), glm).called(), [("edit".to_owned(), json!({"path": "a</arg_value>b"}))]);
    // What looks like the rest of a call ends it: nobody can tell them apart.
    let cut = read(format("qwen3-coder"), &call("a</parameter></function> b"));
    assert_eq!(cut.calls[0].arguments, "{\"path\": \"a\"}");
    // Blanks are not looked past for ever.
    let blanks = "<function=edit><parameter=path>a</parameter>".to_owned() + &" ".repeat(1000) + "b";
    let reply = read(format("qwen3-coder"), &blanks);
    assert_eq!(
        (reply.calls[0].arguments.as_str(), reply.calls[0].is_complete),
        ("{\"path\": \"a\"", Some(false))
    );
}

#[test]
fn parameters_have_the_type_of_the_schema() {
    let text = "<function=edit><parameter=path>12</parameter><parameter=n>12</parameter><parameter=note>None</parameter>\
                <parameter=more>{\"a\": True}</parameter><parameter=flag>False</parameter></function>";
    let expected = json!({"path": "12", "n": 12, "note": null, "more": "{\"a\": True}", "flag": false});
    assert_eq!(read(format("qwen3-coder"), text).called(), [("edit".to_owned(), expected)]);
}

#[test]
fn a_raw_line_break_in_a_string_becomes_an_escape() {
    let reply = read(
        format("hermes"),
        "<tool_call>{\"name\": \"edit\", \"arguments\": {\"path\": \"a\nb\"}}</tool_call>",
    );
    assert_eq!(reply.called(), [("edit".to_owned(), json!({"path": "a\nb"}))]);
}

#[test]
fn arguments_come_as_they_are_written() {
    let mut parser = ReplyParser::new(format("hermes"), ReplyOptions { tools: tools(), in_reasoning: false });
    assert_eq!(parser.push("<tool_call>{\"name\": \"edit\", \"argum"), []);
    let delta = |delta: &str| ReplyEvent::ToolArguments { index: 0, delta: delta.to_owned() };
    let call = ReplyEvent::ToolCall { index: 0, name: "edit".to_owned() };
    assert_eq!(parser.push("ents\": {\"path\": \"a"), [call.clone(), delta("{\"path\": \"a")]);
    assert_eq!(parser.push("b\"}"), [delta("b\"}"), ReplyEvent::ToolCallEnd { index: 0, is_complete: true }]);
    let mut parser =
        ReplyParser::new(format("qwen3-coder"), ReplyOptions { tools: tools(), in_reasoning: false });
    assert_eq!(parser.push("<function=edit>"), [call]);
    let events = parser.push("<parameter=path>\none \"two\"\n</para");
    assert_eq!(events, [delta("{\"path\": "), delta("\""), delta("one \\\"two\\\"")]);
    assert_eq!(parser.push("x"), [delta("\\n</parax")]);
}

#[test]
fn reasoning_may_be_open_already() {
    let options = ReplyOptions { tools: tools(), in_reasoning: true };
    let reply = read_pieces(format("hermes"), options, ["\nIt <tool_call> is\n</thi", "nk>\n\nYes.\n"]);
    assert_eq!((reply.reasoning.as_str(), reply.content.as_str()), ("It <tool_call> is", "Yes.\n"));
    assert!(format("hermes").opens_reasoning("<|im_start|>assistant\n<think>\n"));
    assert!(!format("hermes").opens_reasoning("<|im_start|>assistant\n<think>\n\n</think>\n\n"));
}

#[test]
fn reasoning_that_never_ends_is_reasoning() {
    let reply = read(format("hermes"), "<think>\nAll of it </th");
    assert_eq!((reply.reasoning.as_str(), reply.content.as_str()), ("All of it </th", ""));
}

#[test]
fn without_tools_and_reasoning_nothing_is_read() {
    let text = " \n<think>\n</think><tool_call>{\"name\": \"now\", \"arguments\": {}}</tool_call>\n ";
    let plain = read(ReplyFormat::default(), text);
    assert_eq!((plain.content.as_str(), plain.calls.len()), (text, 0));
    let no_tools = read_pieces(format("hermes"), ReplyOptions::default(), [text]);
    assert_eq!(no_tools.calls.len(), 0);
    assert!(no_tools.content.starts_with("<tool_call>"));
    let late = read(ReplyFormat { reasoning: Some(THINK), tools: None }, "So <think>x</think>");
    assert_eq!((late.content.as_str(), late.reasoning.as_str()), ("So <think>x</think>", ""));
}

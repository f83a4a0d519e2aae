//! Hostile templates and requests: an error or a rendering, in bounded time and stack, never a panic.
#![allow(clippy::unwrap_used, clippy::print_stderr)]

use minfer_text::chat::{ChatTemplate, Construct, RenderInput, TemplateContext, TemplateError};
use proptest::prelude::*;
use serde_json::{Value, json};

fn parse(source: &str) -> Result<ChatTemplate, TemplateError> {
    ChatTemplate::parse(source, TemplateContext::new("<s>", "</s>"))
}

fn render(source: &str) -> Result<String, TemplateError> {
    parse(source)?.render(&RenderInput::new(json!([{"role": "user", "content": "Hi"}])))
}

/// Runs on a thread with the stack of a server's worker.
fn on_small_stack<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> T {
    std::thread::Builder::new().stack_size(2 << 20).spawn(f).unwrap().join().unwrap()
}

#[test]
fn unbounded_work_meets_a_limit() {
    let templates = [
        "{% for i in range(1000000000) %}x{% endfor %}",
        "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
        "{{ 'a' * 1000000000 }}",
        "{{ 'a' * 10 ** 9 }}",
        "{{ 'a' * 10 ** 30 }}",
        "{{ [0] * 1000000000 }}",
        "{{ ('a' * 1000000)|replace('', 'b' * 10000) }}",
        "{{ ('a' * 1000000).replace('a', 'b' * 10000) }}",
        "{{ ('a' * 100000).join(range(90000)|map('string')) }}",
        "{{ range(90000)|join('a' * 100000) }}",
        "{{ 'a'.center(1000000000) }}",
        "{{ 'a'|center(1000000000) }}",
        "{{ '%1000000000d' % 1 }}",
        "{{ '{:1000000000}'.format(1) }}",
        "{{ '%.99999999f' % 1.0 }}",
        "{{ '%.99999999e' % 1.0 }}",
        "{{ '%.65535g' % 1.0 }}",
        "{{ '%.65535e'|format(1.0) }}",
        "{{ '%(a)1000000000s' % {'a': 1} }}",
        "{{ '{:.99999999e}'.format(1.0) }}",
        "{{ ('{0}' * 20000).format('a' * 1000000) }}",
        "{{ ('{a}' * 20000).format(a='a' * 1000000) }}",
        "{{ ('{0.a}' * 20000).format({'a': 'a' * 1000000}) }}",
        "{{ ('%(a)s' * 20000) % {'a': 'a' * 1000000} }}",
        "{{ ('%(a)s' * 20000)|format(a='a' * 1000000) }}",
        "{{ 'a\n'|indent(1000000000) }}",
        "{{ [1]|tojson(indent=1000000000) }}",
        "{% set ns = namespace(s='ab') %}{% for i in range(64) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
        "{% set ns = namespace(s='ab') %}{% for i in range(64) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
        "{% set ns = namespace(s=[1]) %}{% for i in range(64) %}{% set ns.s = ns.s + ns.s %}{% endfor %}{{ ns.s|length }}",
        "{% set ns = namespace(s=[1]) %}{% for i in range(64) %}{% set ns.s = [ns.s, ns.s] %}{% endfor %}{{ ns.s }}",
        "{% set ns = namespace(s=[1]) %}{% for i in range(64) %}{% set ns.s = [ns.s, ns.s] %}{% endfor %}{{ ns.s|tojson }}",
        "{% set ns = namespace(s=[1]) %}{% for i in range(64) %}{% set ns.s = [ns.s, ns.s] %}{% endfor %}{{ ns.s == ns.s }}{{ ns.s < ns.s }}{{ ns.s|string }}",
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
        "{% macro f(n) %}{{ g(n) }}{% endmacro %}{% macro g(n) %}{{ f(n) }}{% endmacro %}{{ f(1) }}",
    ];
    for template in templates {
        let result = on_small_stack(move || render(template));
        assert!(result.is_err(), "{template}: {:?}", result.map(|text| text.len()));
    }
}

#[test]
fn deep_values_do_not_exhaust_the_stack() {
    let templates = [
        "{% set ns = namespace(s=[]) %}{% for i in range(99999) %}{% set ns.s = [ns.s] %}{% endfor %}ok",
        "{% set ns = namespace(s=[]) %}{% for i in range(99999) %}{% set ns.s = [ns.s] %}{% endfor %}{{ ns.s }}",
        "{% set ns = namespace(s={}) %}{% for i in range(99999) %}{% set ns.s = {'a': ns.s} %}{% endfor %}{{ ns.s|tojson }}",
        "{% set ns = namespace(s=()) %}{% for i in range(99999) %}{% set ns.s = (ns.s,) %}{% endfor %}{{ ns.s == ns.s }}",
        "{% set ns = namespace(s=[]) %}{% for i in range(99999) %}{% set ns.s = ns.s + [i] %}{% endfor %}{{ ns.s|length }}",
        "{% set ns = namespace(s=[]) %}{% for i in range(9999) %}{% set ns.s = ns.s[0:] %}{% endfor %}{{ ns.s }}",
        "{% set ns = namespace(s=[]) %}{% for i in range(9999) %}{% set ns.s = ns.s|map('string') %}{% endfor %}{{ ns.s|list }}",
        "{% set ns = namespace(s=[1]) %}{% for i in range(9999) %}{% set ns.s = ns.s|reverse %}{% endfor %}{{ ns.s|list }}",
        "{% set ns = namespace(s=[]) %}{% set ns.s = ns %}{{ ns.s }}{{ ns|tojson }}{{ ns == ns }}",
    ];
    for template in templates {
        eprintln!("{template}");
        let _ = on_small_stack(move || render(template));
    }
}

#[test]
fn deep_sources_do_not_exhaust_the_stack() {
    for n in [60, 390, 700, 1400, 20_000] {
        for (i, template) in deep_sources(n).into_iter().enumerate() {
            eprintln!("{n}, {i}: {}", &template[..40.min(template.len())]);
            let _ = on_small_stack(move || render(&template).map(|_| ()));
        }
    }
}

fn deep_sources(n: usize) -> Vec<String> {
    let nested =
        |open: &str, inner: &str, close: &str| format!("{}{inner}{}", open.repeat(n), close.repeat(n));
    vec![
        format!("{{{{ {} }}}}", nested("(", "1", ")")),
        format!("{{{{ {} }}}}", nested("[", "1", "]")),
        format!("{{{{ {} }}}}", nested("{'a':", "1", "}")),
        format!("{{{{ {} }}}}", nested("f(", "1", ")")),
        format!("{{{{ {}1 }}}}", "-".repeat(n)),
        format!("{{{{ {}1 }}}}", "- ".repeat(n)),
        format!("{{{{ {}1 }}}}", "not ".repeat(n)),
        format!("{{{{ 1{} }}}}", " ~ 1".repeat(n)),
        format!("{{{{ 1{} }}}}", " + 1".repeat(n)),
        format!("{{{{ 1{} }}}}", " % 1".repeat(n)),
        format!("{{{{ 1{} }}}}", " ** 1".repeat(n)),
        format!("{{{{ 1{} }}}}", " if 1 else 1".repeat(n)),
        format!("{{{{ 1{} }}}}", " and 1".repeat(n)),
        format!("{{{{ 1{} }}}}", " < 1".repeat(n)),
        format!("{{{{ a{} }}}}", ".a".repeat(n)),
        format!("{{{{ a{} }}}}", "[0]".repeat(n)),
        format!("{{{{ a{} }}}}", "()".repeat(n)),
        format!("{{{{ a{} }}}}", "|list".repeat(n)),
        format!("{{{{ a{} }}}}", " is string".repeat(n)),
        nested("{% if true %}", "x", "{% endif %}"),
        nested("{% for a in [1] %}", "x", "{% endfor %}"),
        nested("{% macro a() %}", "x", "{% endmacro %}"),
        nested("{% generation %}", "x", "{% endgeneration %}"),
        nested("{% filter upper %}", "x", "{% endfilter %}"),
        nested("{% set a %}", "x", "{% endset %}"),
        format!("{{% if a %}}{}{{% endif %}}", "{% elif a %}".repeat(n)),
        "{% for ".to_owned() + &"(".repeat(n),
        "{{".repeat(n),
    ]
}

#[test]
fn deep_requests_are_refused() {
    let mut deep = json!("x");
    for _ in 0..1000 {
        deep = json!([deep]);
    }
    let template = parse("{{ messages|tojson }}").unwrap();
    let input = RenderInput::new(json!([{"role": "user", "content": deep}]));
    assert!(matches!(template.render(&input), Err(TemplateError::InputTooDeep { .. })));
    std::mem::forget(input);
}

#[test]
fn refusals_at_load_name_construct_and_line() {
    let syntax = |source: &str| match parse(source) {
        Err(TemplateError::Syntax { construct, line }) => (construct, line),
        other => panic!("{source}: {other:?}"),
    };
    assert_eq!(syntax("a\nb\n{% dummy 1 %}").1, 3);
    assert!(syntax("{% dummy 1 %}").0.contains("dummy"));
    assert_eq!(syntax("\n{{ 1 + }}").1, 2);
    assert_eq!(syntax("{% if a %}\nx").1, 2);
    assert_eq!(syntax("x\n{% macro f() %}{{ varargs }}{% endmacro %}").1, 2);

    let unknown = |source: &str| match parse(source) {
        Err(TemplateError::Unknown { kind, name, line }) => (kind, name, line),
        other => panic!("{source}: {other:?}"),
    };
    assert_eq!(unknown("x\n{{ 'a'|nofilter }}"), (Construct::Filter, "nofilter".to_owned(), 2));
    assert_eq!(
        unknown("{% filter nofilter %}{% endfilter %}"),
        (Construct::Filter, "nofilter".to_owned(), 1)
    );
    assert_eq!(unknown("{{ 1 is notest }}"), (Construct::Test, "notest".to_owned(), 1));
    assert_eq!(unknown("{{ nofunction() }}"), (Construct::Function, "nofunction".to_owned(), 1));
    assert_eq!(unknown("\n\n{{ 'a'.nomethod() }}"), (Construct::Method, "nomethod".to_owned(), 3));
    assert_eq!(
        parse("x\n{{ 'a'|nofilter }}").unwrap_err().to_string(),
        "chat template, line 2: unknown filter 'nofilter'"
    );
}

#[test]
fn a_template_that_fails_for_every_conversation_is_refused() {
    assert!(matches!(parse("{{ 1 + messages }}"), Err(TemplateError::Render { line: 1, .. })));
    assert!(parse("{{ raise_exception('never') }}").is_ok());
    assert!(parse("{% if messages|length > 100 %}{{ x|nofilter }}{{ nofunction() }}{% endif %}").is_ok());
    // Only the caller can give `reference`.
    assert!(parse("{{ 1 + reference }}").is_ok());
    assert!(parse(&" ".repeat(2 << 20)).is_err());
}

#[test]
fn the_error_of_a_rendering_names_the_line() {
    let template =
        parse("{% for m in messages %}\n{{ m.content + 1 if m.role == 'x' }}\n{% endfor %}").unwrap();
    let result = template.render(&RenderInput::new(json!([{"role": "x", "content": "a"}])));
    assert!(matches!(result, Err(TemplateError::Render { line: 2, .. })), "{result:?}");
}

#[test]
fn arguments_cannot_reach_what_is_not_theirs() {
    let template = parse("{{ messages[0].content }}{{ strftime_now('%Y') }}{{ a is defined }}").unwrap();
    let mut input = RenderInput::new(json!([{"role": "user", "content": "{{ 1 + 1 }}{% raw %}"}]));
    input.now = Some("2025-07-26T14:05:09".parse().unwrap());
    for (name, value) in [("a", json!(1)), (" clock", json!("x")), ("", json!(1)), ("__concat__", json!(1))] {
        input.kwargs.insert(name.to_owned(), value);
    }
    assert_eq!(template.render(&input).unwrap(), "{{ 1 + 1 }}{% raw %}2025True");
}

/// Pieces that make well-formed templates likely enough to reach the renderer.
fn piece() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "{{ ",
        " }}",
        "{% ",
        " %}",
        "{%- ",
        " -%}",
        "{# ",
        " #}",
        "{{ messages",
        "{{ m.content",
        "{% for m in messages %}",
        "{% endfor %}",
        "{% if ",
        "{% else %}",
        "{% endif %}",
        "{% set x = ",
        "{% set ns.a = ",
        "namespace(a=1)",
        "ns",
        "{% macro f(a, b=1) %}",
        "{% endmacro %}",
        "f(",
        "{% generation %}",
        "{% endgeneration %}",
        "{% raw %}",
        "{% endraw %}",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        ",",
        ":",
        ".",
        "|",
        " ~ ",
        " + ",
        " - ",
        " * ",
        " / ",
        " // ",
        " % ",
        " ** ",
        " < ",
        " == ",
        " and ",
        " or ",
        " not ",
        " in ",
        " is ",
        " if ",
        " else ",
        "tojson",
        "join",
        "length",
        "trim",
        "map",
        "select",
        "sort",
        "indent(2)",
        "dictsort",
        "wordwrap(3)",
        "truncate(4)",
        "center(9)",
        "title",
        "int",
        "float",
        "string",
        "split('a')",
        "strip()",
        "replace('a', '')",
        "format(1, a=2)",
        "items",
        "items()",
        "get('a')",
        "keys()",
        "zfill(5)",
        "partition('a')",
        "rsplit(' ', 1)",
        "find('é', 1, -1)",
        "startswith(('a', 'b'), 1)",
        "splitlines(true)",
        "expandtabs(3)",
        "0",
        "1",
        "-1",
        "1.5",
        "1e308",
        "99999999999999999999",
        "'a'",
        "'é中😀'",
        "'%s %r %5.2f %%'",
        "\"b\\n\"",
        "none",
        "true",
        "[1, 2]",
        "{'a': 1}",
        "(1, 2)",
        "x",
        "m",
        "range(3)",
        "[::-1]",
        "[1:]",
        "defined",
        "mapping",
        "divisibleby 2",
        "strftime_now('%d %q %-m %')",
        "\n",
        " ",
        "é",
        "\r\n",
        "'",
        "\"",
        "\\",
    ])
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(|x| json!(x)),
        "[a-z'\"\\\\é中\\n\\t ]{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        let key = prop::sample::select(vec!["role", "content", "items", "a", ""]);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((key, inner), 0..4)
                .prop_map(|pairs| pairs.into_iter().map(|(k, v)| (k.to_owned(), v)).collect()),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_template_renders_or_fails(pieces in prop::collection::vec(piece(), 0..24), messages in any_json()) {
        if let Ok(template) = parse(&pieces.concat()) {
            let _ = template.render(&RenderInput::new(messages));
        }
    }

    #[test]
    fn any_expression_renders_or_fails(pieces in prop::collection::vec(piece(), 0..8), messages in any_json()) {
        if let Ok(template) = parse(&format!("{{{{ messages{} }}}}", pieces.concat())) {
            let _ = template.render(&RenderInput::new(messages));
        }
    }

    #[test]
    fn any_text_is_parsed_or_refused(source in "[{}%# a-z|.'\"\\-\\n~()é]{0,60}") {
        let _ = parse(&source);
    }

    #[test]
    fn any_string_survives(text in any::<String>()) {
        let template = parse("{{ messages[0].content }}").unwrap();
        prop_assert_eq!(template.render(&RenderInput::new(json!([{"role": "user", "content": text}]))).unwrap(), text.as_str());
    }

    #[test]
    fn tojson_is_json(value in any_json()) {
        let template = parse("{{ messages|tojson }}").unwrap();
        let text = template.render(&RenderInput::new(value.clone())).unwrap();
        let parsed: Value = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(parsed, value);
    }
}

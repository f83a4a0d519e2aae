use super::*;

fn message(text: &str) -> String {
    to_lark(text).unwrap_err().to_string()
}

#[test]
fn mistakes_are_named_with_their_place() {
    for (text, want) in [
        ("", "line 1, column 1: there is no rule 'root'"),
        ("root ::= x", "line 1, column 10: there is no rule 'x'"),
        ("root = \"a\"", "line 1, column 6: expected '::=', found '='"),
        ("root ::= \"a", "expected '\"', found the end"),
        ("root ::= (\"a\"", "expected ')', found the end"),
        ("root ::= [a", "expected ']', found the end"),
        ("root ::= \"a\"\nroot ::= \"b\"", "line 2, column 1: the rule 'root' is there already"),
        ("root ::= \"\\q\"", "'\\q' is no escape"),
        ("root ::= \"\\xg0\"", "expected 2 hexadecimal digits, found 'g'"),
        ("root ::= \"\\uD800\"", "U+D800 is no character"),
        ("root ::= \"a\"{2,1}", "at least 2 times cannot be at most 1 times"),
        ("root ::= \"a\"{}", "expected a number, found '}'"),
        ("root ::= \"a\"{1000000}", "a repetition has at most 100000 times"),
        ("root ::= [z-a]", "the range from 'z' to 'a' goes backwards"),
        ("root ::= \"a\" )", "expected the end of the rule, found ')'"),
        ("root ::= <think>", "tokens in angle brackets are not supported"),
        ("root ::= root", "the rule 'root' derives no text"),
        ("root ::= []", "the rule 'root' derives no text"),
        ("root ::= \"a\" root", "the rule 'root' derives no text"),
    ] {
        let found = message(text);
        assert!(found.contains(want), "{text:?}: {found} has not {want}");
    }
    let deep = format!("root ::= {}\"a\"{}", "(".repeat(200), ")".repeat(200));
    assert!(message(&deep).contains("nested more than 100 deep"));
    assert!(message(&format!("root ::= \"a\"{}", "*".repeat(200))).contains("more than 100 repetitions"));
}

#[test]
fn a_grammar_without_recursion_is_one_terminal() {
    let text =
        "# numbers\nroot ::= sign? digit+ (\".\" digit{1,3})? # end\nsign ::= [+-]\r\ndigit ::= [0-9]\n";
    let lark = to_lark(text).unwrap();
    assert_eq!(lark, "start: T0\nT0: /(?:[\\x{2B}\\x{2D}])?(?:[0-9])+(?:\\x{2E}(?:[0-9]){1,3})?/\n");
    assert_eq!(to_lark("root ::= \"\"").unwrap(), "start: \"\"\n");
    assert_eq!(to_lark("root ::= \"a\"?").unwrap(), "start: T0?\nT0: /(?:a)+/\n".replace(")+", "){1,1}"));
}

#[test]
fn alternatives_that_never_end_are_left_out() {
    let lark = to_lark("root ::= \"a\" x | \"b\"\nx ::= \"c\" x").unwrap();
    assert_eq!(lark, "start: T0\nT0: /b/\n");
}

#[test]
fn terminals_are_large_where_they_may_be() {
    // A word ends where a bracket or a comma begins, so it is one terminal; nothing depends on where it ends.
    let lark = to_lark("root ::= \"(\" (item (\",\" item)*)? \")\"\nitem ::= [a-z]+ | root").unwrap();
    assert!(lark.contains(": /(?:[a-z])+/"), "{lark}");
    // The comma of a list is taken away from the one before a key, and the text behind it stays whole.
    let pairs = "root ::= \"{\" pair (\",\" pair)* \"}\" | \"[\" item (\",\" item)* \"]\"\n\
                 pair ::= text \":\" root\nitem ::= text | root\ntext ::= \"'\" [a-z]* \"'\"";
    let lark = to_lark(pairs).unwrap();
    assert!(lark.contains(": /\\x{27}(?:[a-z])*\\x{27}\\x{3A}/\n"), "{lark}");
    assert!(lark.contains(": /\\x{27}(?:[a-z])*\\x{27}/\n"), "{lark}");
    // Here the letter after the word is one of its own letters, so it has to be cut.
    let lark = to_lark("root ::= \"(\" root \")\" | [a-z]+ \"x\" root?").unwrap();
    assert!(!lark.contains("[a-z])+"), "{lark}");
}

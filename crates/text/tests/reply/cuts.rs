//! Where a reply is cut into pieces makes no difference.

use minfer_text::reply::{ReplyOptions, ToolFormat};
use proptest::prelude::*;

use crate::formats::CALLS;
use crate::support::{format, read_pieces, tools};

/// Pieces of replies: whole calls, beginnings and ends of tags, and words.
fn fragments(name: &'static str) -> Vec<String> {
    let calls = CALLS.iter().find(|(row, _)| *row == name).unwrap().1;
    let mut all: Vec<String> = [
        "<think>",
        "</think>",
        " \n",
        "\n\n",
        "Wörds 🎉 ",
        "<",
        "{\"name\": \"now\", ",
        "{",
        "}",
        "\"",
        "[",
        ",",
        "\\",
    ]
    .map(str::to_owned)
    .to_vec();
    all.push(calls.to_owned());
    all.push(calls[..calls.floor_char_boundary(calls.len() * 2 / 3)].to_owned());
    all.push(calls[calls.floor_char_boundary(calls.len() / 3)..].to_owned());
    let row = ToolFormat::all().iter().find(|row| row.name == name).unwrap();
    for marker in row.markers() {
        all.push(marker.to_owned());
        all.push(marker[..marker.floor_char_boundary(marker.len() / 2)].to_owned());
    }
    all
}

/// A row, a text made for it, and places to cut the text at.
fn replies() -> impl Strategy<Value = (&'static str, String, Vec<usize>)> {
    (0..CALLS.len()).prop_flat_map(|row| {
        let name = CALLS[row].0;
        let text = proptest::collection::vec(proptest::sample::select(fragments(name)), 0..8);
        let cuts = proptest::collection::vec(0..2000_usize, 0..20);
        (Just(name), text.prop_map(|parts| parts.concat()), cuts)
    })
}

fn pieces<'a>(text: &'a str, cuts: &[usize]) -> Vec<&'a str> {
    let mut ends: Vec<usize> =
        cuts.iter().map(|at| text.floor_char_boundary(at % (text.len() + 1))).collect();
    ends.extend([0, text.len()]);
    ends.sort_unstable();
    ends.windows(2).map(|pair| &text[pair[0]..pair[1]]).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn any_cut_gives_the_same(given in replies(), in_reasoning: bool) {
        let (name, text, cuts) = given;
        let options = || ReplyOptions { tools: tools(), in_reasoning };
        let whole = read_pieces(format(name), options(), [text.as_str()]);
        prop_assert_eq!(&read_pieces(format(name), options(), pieces(&text, &cuts)), &whole);
        let each: Vec<&str> = text.split("").collect();
        prop_assert_eq!(&read_pieces(format(name), options(), each), &whole);
    }

    /// Of a text without calls, only whitespace beside reasoning may be missing.
    #[test]
    fn no_text_is_lost(given in replies()) {
        let (name, text, _) = given;
        let options = ReplyOptions { tools: tools(), in_reasoning: false };
        let reply = read_pieces(format(name), options, [text.as_str()]);
        if reply.calls.is_empty() && !text.trim_start().starts_with("<think>") {
            prop_assert_eq!(reply.content, text);
        }
    }
}

//! Splits text into the pieces that BPE works on, in time linear in the text.
//!
//! Published patterns end in `|\s+(?!\S)|\s+`: of a run of white space before a word, the last character goes with the
//! word. A finite automaton cannot look ahead, and a backtracking engine gives up on a megabyte of spaces, so that idiom
//! is taken off the pattern and done by hand: the run is matched whole, and gives its last character back unless the
//! text ends there or it is the only one. Nothing else in the table looks around; [`Splitter::new`] would refuse it.

use std::ops::Range;

use regex_automata::meta::{BuildError, Regex};
use regex_automata::{Anchored, Input, Match, PatternID};

use super::byte_letters::LETTERS;
use super::pre::{Pre, Stage};

/// What the published patterns end in.
const SPACES_BEFORE_A_WORD: &str = r"|\s+(?!\S)|\s+";

/// The compiled stages of one pre-tokenizer.
#[derive(Debug)]
pub(super) struct Splitter {
    stages: Vec<Compiled>,
}

#[derive(Debug)]
struct Compiled {
    /// Pattern 1, if there is one, is the run of spaces.
    regex: Regex,
    on_letters: bool,
}

impl Splitter {
    pub(super) fn new(pre: &Pre) -> Result<Self, Box<BuildError>> {
        let stages = pre.stages.iter().map(Compiled::new).collect::<Result<_, _>>()?;
        Ok(Splitter { stages })
    }

    /// Appends the pieces of `text`, as byte ranges that follow one another without gaps, to `pieces`.
    pub(super) fn split(&self, text: &str, pieces: &mut Vec<Range<usize>>) {
        pieces.clear();
        if !text.is_empty() {
            pieces.push(0..text.len());
        }
        let mut from = Vec::new();
        for stage in &self.stages {
            std::mem::swap(&mut from, pieces);
            pieces.clear();
            for piece in &from {
                stage.split(text, piece.clone(), pieces);
            }
        }
    }
}

impl Compiled {
    fn new(stage: &Stage) -> Result<Self, Box<BuildError>> {
        let (pattern, on_letters) = match *stage {
            Stage::Text(pattern) => (pattern, false),
            Stage::Letters(pattern) => (pattern, true),
        };
        let regex = match pattern.strip_suffix(SPACES_BEFORE_A_WORD) {
            Some(head) => Regex::new_many(&[head, r"\s+"]),
            None => Regex::new(pattern),
        };
        Ok(Compiled { regex: regex?, on_letters })
    }

    /// The first match from `at` on. A pattern that ends in the idiom matches nearly everywhere, and where it does, one
    /// pass over the match finds it; a search takes a second one, backwards.
    fn next(&self, text: &str, at: usize) -> Option<Match> {
        let input = Input::new(text).range(at..);
        let here = || self.regex.find(input.clone().anchored(Anchored::Yes));
        let found = if self.regex.pattern_len() > 1 { here() } else { None };
        found.or_else(|| self.regex.find(input))
    }

    fn split(&self, text: &str, piece: Range<usize>, pieces: &mut Vec<Range<usize>>) {
        if self.on_letters {
            self.split_letters(&text.as_bytes()[piece.clone()], piece.start, pieces);
        } else {
            // The piece alone is what a stage sees: its end is the end of the text to `$` and to the look-ahead.
            self.cut(&text[piece.clone()], |part| {
                pieces.push(piece.start + part.start..piece.start + part.end)
            });
        }
    }

    /// Splits by letters: one letter is one byte of the piece.
    fn split_letters(&self, piece: &[u8], start: usize, pieces: &mut Vec<Range<usize>>) {
        let letters: String = piece.iter().map(|&byte| LETTERS[usize::from(byte)]).collect();
        let mut at = start;
        self.cut(&letters, |part| {
            let n_bytes = letters[part].chars().count();
            pieces.push(at..at + n_bytes);
            at += n_bytes;
        });
    }

    /// Hands out the matches in `text` and what lies between them, in order.
    fn cut(&self, text: &str, mut emit: impl FnMut(Range<usize>)) {
        let mut at = 0;
        while at < text.len() {
            let Some(found) = self.next(text, at) else { break };
            let end = match found.pattern() {
                PatternID::ZERO => found.end(),
                _ => give_back(text, found.range()),
            };
            if found.start() > at {
                emit(at..found.start());
            }
            if end > found.start() {
                emit(found.start()..end);
            }
            // No pattern of the table matches the empty string; one that did would still get on.
            at = end.max(at + text[at..].chars().next().map_or(1, char::len_utf8));
        }
        if at < text.len() {
            emit(at..text.len());
        }
    }
}

/// Where a run of white space ends once its last character has been left to the word that follows.
fn give_back(text: &str, run: Range<usize>) -> usize {
    let last = text[run.clone()].chars().next_back().map_or(0, char::len_utf8);
    if run.end == text.len() || run.len() == last { run.end } else { run.end - last }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokenizer::pre;

    fn pieces<'t>(name: &str, text: &'t str) -> Vec<&'t [u8]> {
        let splitter = Splitter::new(pre::by_name(name).expect("a known name")).expect("a sound pattern");
        let mut pieces = Vec::new();
        splitter.split(text, &mut pieces);
        pieces.into_iter().map(|piece| &text.as_bytes()[piece]).collect()
    }

    /// Pieces as Hugging Face cuts them (`tests/data/make_splits.py`).
    #[test]
    fn pieces_are_those_of_the_reference() {
        let rows: serde_json::Value =
            serde_json::from_str(include_str!("../../tests/data/splits.json")).unwrap();
        let mut faults = Vec::new();
        for (name, cases) in rows.as_object().unwrap() {
            for case in cases.as_array().unwrap() {
                let text = case[0].as_str().unwrap();
                let expected: Vec<usize> = serde_json::from_value(case[1].clone()).unwrap();
                let ours: Vec<usize> = pieces(name, text).iter().map(|piece| piece.len()).collect();
                if ours != expected {
                    faults.push(format!("{name} {text:?}:\n {ours:?}, expected\n {expected:?}"));
                }
            }
        }
        assert!(faults.is_empty(), "{}", faults.join("\n"));
    }

    #[test]
    fn a_run_of_spaces_leaves_its_last_character_to_the_word() {
        let cut =
            |text| pieces("qwen2", text).into_iter().map(|p| str::from_utf8(p).unwrap()).collect::<Vec<_>>();
        assert_eq!(cut("a   b"), ["a", "  ", " b"]);
        assert_eq!(cut("a b  "), ["a", " b", "  "]);
        assert_eq!(cut("a \u{3000}1"), ["a", " ", "\u{3000}", "1"]);
        assert_eq!(cut("a \n b"), ["a", " \n", " b"]);
        assert_eq!(cut(""), [] as [&str; 0]);
    }
}

//! Short flags of two letters and more, as llama.cpp has them and the parser does not.
//!
//! Before parsing, `-ub 512` (and `-ub=512`) becomes `--ubatch-size 512`, by the table and only where a flag can stand:
//! not after `--`, and not as the value of a flag that takes any text.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};

/// What is typed, and the flag that it means.
pub(super) const SHORTS: [(&str, &str); 18] = [
    ("-ngl", "--gpu-layers"),
    ("-ub", "--ubatch-size"),
    ("-tb", "--threads-batch"),
    ("-pg", "--prompt-gen"),
    ("-ctk", "--cache-type-k"),
    ("-ctv", "--cache-type-v"),
    ("-sys", "--system-prompt"),
    ("-no-cnv", "--no-template"),
    ("-cnv", "--conversation"),
    ("-sp", "--special"),
    ("-np", "--parallel"),
    ("-to", "--timeout"),
    ("-jf", "--json-schema-file"),
    ("-md", "--model-draft"),
    ("-hf", "--hf-repo"),
    ("-hfr", "--hf-repo"),
    ("-hff", "--hf-file"),
    ("-mu", "--model-url"),
];

/// `argv` with the flags of the table spelled out.
pub(super) fn spell_out(argv: impl Iterator<Item = OsString>, definition: &clap::Command) -> Vec<OsString> {
    let takes_any_text = flags_that_take_any_text(definition);
    let (mut out, mut is_value, mut is_over) = (Vec::new(), false, false);
    for argument in argv {
        let is_flag_place = !is_value && !is_over;
        is_over |= is_flag_place && argument == "--";
        is_value = is_flag_place && argument.to_str().is_some_and(|it| takes_any_text.contains(it));
        out.push(if is_flag_place { long(&argument).unwrap_or(argument) } else { argument });
    }
    out
}

/// The long flag that `argument` means, with its value if it has one.
fn long(argument: &OsStr) -> Option<OsString> {
    let text = argument.to_str()?;
    let (short, value) = text.split_at(text.find('=').unwrap_or(text.len()));
    let (_, long) = SHORTS.iter().find(|row| row.0 == short)?;
    Some(format!("{long}{value}").into())
}

fn flags_that_take_any_text(definition: &clap::Command) -> HashSet<String> {
    let commands = definition.get_subcommands();
    let args = commands.flat_map(clap::Command::get_arguments).filter(|arg| arg.is_allow_hyphen_values_set());
    let spellings = args.flat_map(|arg| {
        let longs = arg.get_long_and_visible_aliases().unwrap_or_default();
        let short = arg.get_short().map(|letter| format!("-{letter}"));
        longs.into_iter().map(|long| format!("--{long}")).chain(short)
    });
    let spellings: Vec<_> = spellings.collect();
    let shorts =
        SHORTS.iter().filter(|row| spellings.iter().any(|it| it == row.1)).map(|row| row.0.to_owned());
    spellings.iter().cloned().chain(shorts).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spelled_out(argv: &[&str]) -> Vec<String> {
        let argv = argv.iter().map(OsString::from);
        let out = spell_out(argv, &super::super::definition());
        out.into_iter().map(|argument| argument.into_string().unwrap()).collect()
    }

    #[test]
    fn the_flags_of_the_table_are_spelled_out() {
        let out = spelled_out(&["minfer", "run", "-ub", "64", "-ctk=f32", "-sys", "x", "-c", "5", "-u"]);
        let want = [
            "minfer",
            "run",
            "--ubatch-size",
            "64",
            "--cache-type-k=f32",
            "--system-prompt",
            "x",
            "-c",
            "5",
            "-u",
        ];
        assert_eq!(out, want);
    }

    #[test]
    fn texts_stay_as_they_are() {
        for argv in
            [&["run", "-p", "-ub"][..], &["run", "--prompt", "-sys"], &["run", "--", "-ub", "-p", "-ctk"]]
        {
            assert_eq!(spelled_out(argv), argv);
        }
        assert_eq!(
            spelled_out(&["run", "-sys", "-ub", "-ub"]),
            ["run", "--system-prompt", "-ub", "--ubatch-size"]
        );
    }

    #[test]
    fn every_row_means_a_flag() {
        let definition = super::super::definition();
        let args: Vec<_> = definition.get_subcommands().flat_map(clap::Command::get_arguments).collect();
        for (short, long) in SHORTS {
            let is_there = args.iter().any(|arg| {
                let spellings = arg.get_long_and_visible_aliases().unwrap_or_default();
                spellings.iter().any(|it| Some(*it) == long.strip_prefix("--"))
            });
            assert!(is_there, "{short} means {long}");
        }
    }
}

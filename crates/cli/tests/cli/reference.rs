//! docs/cli.md is what the program says of itself.

use std::fs;

use crate::support::{minfer, stdout};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/cli.md");

#[test]
fn the_committed_reference_is_up_to_date() {
    let want = stdout(&minfer(["reference"]).assert().success());
    let page = fs::read_to_string(PAGE).unwrap_or_default();
    assert!(page == want, "docs/cli.md is out of date; run: cargo run -p minfer -- reference > docs/cli.md");
    for heading in ["\n## minfer\n", "\n## minfer info\n", "\n## minfer render\n"] {
        assert!(page.contains(heading), "{heading:?}");
    }
}

#[test]
fn the_reference_does_not_depend_on_the_terminal() {
    let narrow = minfer(["reference"]).env("COLUMNS", "40").assert().success();
    assert_eq!(stdout(&narrow), stdout(&minfer(["reference"]).assert().success()));
}

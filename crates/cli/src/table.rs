//! Columns that line up, for the commands that list things.

use std::io::{self, Write};

/// Which side the cells of a column keep to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Align {
    /// Text.
    Left,
    /// Figures.
    Right,
}

/// The widest that a column gets; a longer cell, which a model file may have, sticks out of it. Without a limit one such
/// cell would fill every row with spaces.
const MAX_WIDTH: usize = 100;

/// Rows of cells under a header.
pub(crate) struct Table<const N: usize> {
    align: [Align; N],
    rows: Vec<[String; N]>,
}

impl<const N: usize> Table<N> {
    /// A table with one row, the header.
    pub(crate) fn new(columns: [(&str, Align); N]) -> Self {
        Self { align: columns.map(|column| column.1), rows: vec![columns.map(|column| column.0.to_owned())] }
    }

    pub(crate) fn push(&mut self, row: [String; N]) {
        self.rows.push(row);
    }

    /// Writes the rows, each after `indent` spaces; no line ends in spaces.
    pub(crate) fn write(&self, out: &mut impl Write, indent: usize) -> io::Result<()> {
        let widths = self.widths();
        for row in &self.rows {
            let cells =
                row.iter().zip(widths).zip(self.align).map(|((cell, width), align)| pad(cell, width, align));
            let line = cells.collect::<Vec<_>>().join("  ");
            writeln!(out, "{:indent$}{}", "", line.trim_end())?;
        }
        Ok(())
    }

    fn widths(&self) -> [usize; N] {
        let widest = |i: usize| self.rows.iter().map(|row| row[i].chars().count()).max();
        std::array::from_fn(|i| widest(i).unwrap_or(0).min(MAX_WIDTH))
    }
}

fn pad(cell: &str, width: usize, align: Align) -> String {
    match align {
        Align::Left => format!("{cell:<width$}"),
        Align::Right => format!("{cell:>width$}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_nothing_trails() {
        let mut table = Table::new([("name", Align::Left), ("bytes", Align::Right), ("note", Align::Left)]);
        table.push(["é".into(), "1000".into(), String::new()]);
        table.push(["longer".into(), "7".into(), "x".into()]);
        let mut text = Vec::new();
        table.write(&mut text, 2).unwrap();
        let want = "  name    bytes  note\n  é        1000\n  longer      7  x\n";
        assert_eq!(String::from_utf8(text).unwrap(), want);
    }

    #[test]
    fn a_cell_of_any_length_widens_nothing_beyond_the_limit() {
        let mut table = Table::new([("name", Align::Left), ("bytes", Align::Right)]);
        table.push(["x".repeat(1 << 20), "9".repeat(1 << 20)]);
        table.push(["short".into(), "7".into()]);
        let mut text = Vec::new();
        table.write(&mut text, 0).unwrap();
        let last = text.split(|&b| b == b'\n').nth(2).unwrap();
        assert_eq!(last.len(), MAX_WIDTH + 2 + MAX_WIDTH);
    }
}

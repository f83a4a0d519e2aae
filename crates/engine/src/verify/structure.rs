//! What the reader of the format, which refuses most that can be wrong with it, has found; and bytes that belong to no
//! tensor.

use minfer_gguf::Gguf;

use super::{Check, Severity};

pub(super) fn check(file: &Gguf) -> Check {
    let mut check = Check::new("structure");
    let n_files = match file.files().len() {
        1 => String::new(),
        n => format!(" in {n} files"),
    };
    check.add(
        Severity::Note,
        format!(
            "GGUF version {}{n_files}, {} keys, {} tensors",
            file.version(),
            file.metadata().len(),
            file.tensors().len()
        ),
    );
    for (part, info) in file.files().enumerate() {
        let end = file.tensors().filter(|t| t.part() == part).map(|t| t.offset() + t.n_bytes()).max();
        let left = end.map_or(0, |end| info.n_bytes.saturating_sub(end as u64));
        if left >= file.alignment().max(1) {
            check.add(Severity::Note, format!("{left} bytes behind the last tensor belong to nothing"));
        }
    }
    check
}

//! `MINFER_TRACE`: the values of chosen nodes, step by step, as a NumPy archive.
//!
//! An entry is named `step/node`: `0/3.q_rope` is the rotated query of layer 3 in the first step. Names follow the float
//! reference's trace.

use std::cell::Cell;
use std::path::PathBuf;

use minfer_graph::{DType, Node, Observer};

use crate::error::EngineError;
use crate::npz::{Elements, NpzError, NpzWriter};

/// Where a trace goes and what is in it.
#[derive(Clone, Debug)]
pub struct TraceSettings {
    /// The archive to write.
    pub path: PathBuf,
    /// Node names to keep, with `*` for any run of characters; empty for all.
    pub nodes: Vec<String>,
}

pub(crate) struct Tracer {
    npz: NpzWriter,
    nodes: Vec<String>,
    /// Which of `nodes` some node fits.
    found: Vec<Cell<bool>>,
    step: Option<usize>,
    failed: Option<NpzError>,
}

impl Tracer {
    pub(crate) fn create(settings: &TraceSettings) -> Result<Tracer, EngineError> {
        let npz = NpzWriter::create(&settings.path, false)?;
        let found = vec![Cell::new(false); settings.nodes.len()];
        Ok(Tracer { npz, nodes: settings.nodes.clone(), found, step: None, failed: None })
    }

    /// The observer of the next step.
    pub(crate) fn next_step(&mut self) -> &mut dyn Observer {
        self.step = Some(self.step.map_or(0, |s| s + 1));
        self
    }

    /// Writes what is left. Names that no node of any step has are told, since what was wanted of them is not there.
    pub(crate) fn finish(self) -> Result<(), EngineError> {
        if let Some(error) = self.failed {
            return Err(error.into());
        }
        self.npz.finish()?;
        let lost = self.nodes.iter().zip(&self.found).find(|(_, found)| !found.get());
        match lost.filter(|_| self.step.is_some()) {
            Some((pattern, _)) => Err(EngineError::TraceNode { pattern: pattern.clone() }),
            None => Ok(()),
        }
    }
}

impl Observer for Tracer {
    fn wants(&self, node: &Node) -> bool {
        let mut is_wanted = self.nodes.is_empty();
        for (pattern, found) in self.nodes.iter().zip(&self.found) {
            if matches(pattern, &node.name) {
                found.set(true);
                is_wanted = true;
            }
        }
        is_wanted
    }

    fn value(&mut self, node: &Node, bytes: &[u8]) {
        if self.failed.is_some() {
            return;
        }
        let name = format!("{}/{}", self.step.unwrap_or(0), node.name);
        let words = bytes.chunks_exact(4).map(|b| [b[0], b[1], b[2], b[3]]);
        let written = match node.out_dtype {
            DType::F32 => {
                let values: Vec<f32> = words.map(f32::from_le_bytes).collect();
                self.npz.add(&name, &node.out_shape, Elements::F32(&values))
            }
            DType::I32 => {
                let values: Vec<i32> = words.map(i32::from_le_bytes).collect();
                self.npz.add(&name, &node.out_shape, Elements::I32(&values))
            }
            // Only the KV cache is f16, and its handles have no value to show.
            DType::F16 | DType::Q8_0 => Ok(()),
        };
        self.failed = written.err();
    }
}

/// Whether `name` fits `pattern`, where `*` stands for any run of characters.
fn matches(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or("");
    let Some(mut rest) = name.strip_prefix(first) else { return false };
    let mut tail: Vec<&str> = parts.collect();
    let Some(last) = tail.pop() else { return rest.is_empty() };
    for part in tail {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn a_star_stands_for_any_run() {
        for (pattern, name, fits) in [
            ("0.q", "0.q", true),
            ("0.q", "0.q_rope", false),
            ("*.q_rope", "12.q_rope", true),
            ("*.ffn_*", "3.ffn_inner", true),
            ("*.ffn_*r", "3.ffn_out", false),
            ("*", "logits", true),
            ("a*a", "a", false),
            ("", "x", false),
        ] {
            assert_eq!(matches(pattern, name), fits, "{pattern} {name}");
        }
    }
}

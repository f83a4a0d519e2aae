//! `MINFER_TRACE`: the values of chosen nodes, step by step, as a NumPy archive.
//!
//! An entry is named `step/node`: `0/3.q_rope` is the rotated query of layer 3 in the first step. Names follow the float
//! reference's trace.

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
    step: Option<usize>,
    failed: Option<NpzError>,
}

impl Tracer {
    pub(crate) fn create(settings: &TraceSettings) -> Result<Tracer, EngineError> {
        let npz = NpzWriter::create(&settings.path, false)?;
        Ok(Tracer { npz, nodes: settings.nodes.clone(), step: None, failed: None })
    }

    /// The observer of the next step.
    pub(crate) fn next_step(&mut self) -> &mut dyn Observer {
        self.step = Some(self.step.map_or(0, |s| s + 1));
        self
    }

    pub(crate) fn finish(self) -> Result<(), EngineError> {
        if let Some(error) = self.failed {
            return Err(error.into());
        }
        Ok(self.npz.finish()?)
    }
}

impl Observer for Tracer {
    fn wants(&self, node: &Node) -> bool {
        self.nodes.is_empty() || self.nodes.iter().any(|pattern| matches(pattern, &node.name))
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

//! WGSL kernels: a folder for each family, files with their contract in the header, and what is generated around them.
//!
//! A kernel's source says itself what it binds and which parameters it takes; the host reads both from there. Constants
//! and shared pieces go in front. Every kernel has a name of its own for every form of it: `q4_k-matmul-l8-c1`, `q4_k-matmul-tile`.

pub(crate) mod attention;
#[cfg(test)]
mod check;
pub(crate) mod dequant;
pub(crate) mod elementwise;
pub(crate) mod matmul;
#[cfg(test)]
mod msl;
pub(crate) mod rope;
pub(crate) mod rows;

use std::fmt::Write as _;

/// Most workgroups along one axis that any grid here has; the rest goes to another axis. Every device allows as many.
pub(crate) const MAX_X: u32 = 65_535;

/// Threads of a workgroup, in every kernel.
pub(crate) const THREADS: u32 = 64;

/// How a kernel uses an operand. Values are bound for reading and writing even where they are only read: all of a backend's
/// values lie in few buffers, and one buffer can't be bound in both ways at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    ReadWrite,
}

/// A kernel to be compiled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kernel {
    /// Unique for the source.
    pub(crate) name: String,
    /// WGSL; the entry point is `main`.
    pub(crate) source: String,
}

impl Kernel {
    /// The pieces one after the other, constants in front.
    fn new(name: String, constants: &[(&str, Constant)], pieces: &[&str]) -> Kernel {
        let mut source = format!("const MAX_X = {MAX_X}u;\n");
        for (name, value) in constants {
            let written = match value {
                Constant::U32(v) => writeln!(source, "const {name} = {v}u;"),
                Constant::Bool(v) => writeln!(source, "const {name} = {v};"),
            };
            debug_assert!(written.is_ok());
        }
        pieces.iter().for_each(|piece| source.push_str(piece));
        Kernel { name, source }
    }

    /// What it binds, in order.
    pub(crate) fn bindings(&self) -> Vec<Access> {
        let bound = self.source.lines().filter(|line| line.starts_with("@group(0) @binding("));
        let access = |line: &str| match line.contains("<storage, read>") {
            true => Access::Read,
            false => Access::ReadWrite,
        };
        bound.map(access).collect()
    }

    /// Words of its parameters: fields of `Params`, each a u32 or an f32.
    pub(crate) fn n_words(&self) -> usize {
        let body = self.source.split_once("struct Params {").map_or("", |(_, rest)| rest);
        let body = body.split_once('}').map_or("", |(body, _)| body);
        body.lines().filter(|line| line.split("//").next().is_some_and(|code| code.contains(':'))).count()
    }
}

/// A constant in front of a kernel.
#[derive(Clone, Copy, Debug)]
enum Constant {
    U32(u32),
    Bool(bool),
}

/// The grid for `n` workgroups in a row, with `y` of them beside each.
pub(crate) fn grid(n: usize, y: u32) -> [u32; 3] {
    let n = u32::try_from(n.max(1)).unwrap_or(u32::MAX);
    [n.min(MAX_X), y, n.div_ceil(MAX_X)]
}

/// The grid for `n` threads.
pub(crate) fn threads(n: usize) -> [u32; 3] {
    grid(n.div_ceil(THREADS as usize), 1)
}

/// Every kernel that there is, in every form that a graph can ask for.
#[cfg(test)]
pub(crate) fn all() -> Vec<Kernel> {
    let families = [attention::all(), elementwise::all(), matmul::all(), rope::all(), rows::all()];
    families.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_says_what_it_binds_and_takes() {
        let kernel = rows::pick();
        assert_eq!(kernel.bindings(), [Access::ReadWrite; 4]);
        assert_eq!(kernel.n_words(), 7);
        let (read, write) = (Access::Read, Access::ReadWrite);
        assert_eq!(rows::rms_norm().bindings(), [read, read, write, write]);
    }

    #[test]
    fn names_are_unique_and_parameters_fit() {
        let all = all();
        let names: std::collections::HashSet<_> = all.iter().map(|k| &k.name).collect();
        assert_eq!(names.len(), all.len());
        for kernel in &all {
            assert!(kernel.n_words() * 4 <= crate::device::IMMEDIATE_BYTES as usize, "{}", kernel.name);
            assert!(kernel.n_words() > 0 && !kernel.bindings().is_empty(), "{}", kernel.name);
        }
    }

    #[test]
    fn grids_spill_over_into_the_third_axis() {
        assert_eq!(grid(0, 3), [1, 3, 1]);
        assert_eq!(grid(65_535, 1), [65_535, 1, 1]);
        assert_eq!(grid(65_536, 1), [65_535, 1, 2]);
        assert_eq!(threads(65), [2, 1, 1]);
    }
}

//! Rotation, and the tables of angles that the layers of a model share.

use std::sync::Arc;

use minfer_graph::{KernelFault, RopeSpec};

use super::elementwise::all;
use super::{Cx, Step, Working, refused};
use crate::backend::memory::Span;
use crate::ops::{self, RopeTable};
use crate::pool::Cost;

const ROPE_PS: u64 = 300;

/// A table and what it was made from.
pub(in crate::backend) struct RopeSlot {
    spec: RopeSpec,
    factors: Option<Arc<Vec<f32>>>,
    pub(super) table: RopeTable,
}

impl Working {
    /// The index of the table for `spec`, made if it is new.
    pub(in crate::backend) fn rope_index(
        &mut self,
        spec: &RopeSpec,
        factors: Option<Arc<Vec<f32>>>,
    ) -> Result<usize, KernelFault> {
        let same = |s: &RopeSlot| s.spec == *spec && s.factors == factors;
        if let Some(i) = self.ropes.iter().position(same) {
            return Ok(i);
        }
        let table = RopeTable::new(spec, factors.as_ref().map(|f| f.as_slice())).map_err(refused)?;
        self.ropes.push(RopeSlot { spec: *spec, factors, table });
        Ok(self.ropes.len() - 1)
    }

    /// The table at `index`, filled for these positions.
    pub(super) fn rope_table(&mut self, index: usize, positions: &[i32]) -> Result<&RopeTable, KernelFault> {
        let table = &mut self.ropes[index].table;
        table.prepare(positions).map_err(refused)?;
        Ok(table)
    }
}

/// `out = rotated x`; without `x`, `out` holds the operand.
pub(in crate::backend) struct Rope {
    pub(in crate::backend) table: usize,
    pub(in crate::backend) head_dim: usize,
    /// Elements of a column.
    pub(in crate::backend) d: usize,
    pub(in crate::backend) x: Option<Span<f32>>,
    pub(in crate::backend) positions: Span<i32>,
    pub(in crate::backend) out: Span<f32>,
}

impl Step for Rope {
    fn run(&self, cx: &mut Cx<'_>) -> Result<(), KernelFault> {
        let table = cx.working.rope_table(self.table, self.positions.get(cx.access))?;
        let x = self.x.as_ref().map(|x| x.get(cx.access));
        let out = self.out.get_mut(cx.access);
        let (isa, d, head_dim) = (cx.isa, self.d, self.head_dim);
        let cost = Cost::of(out.len(), ROPE_PS);
        all(|failed| {
            cx.pool.run_rows(out, d, cost, |tokens, part| {
                failed.note(match x {
                    Some(x) => {
                        let x = &x[tokens.start * d..tokens.end * d];
                        ops::rope(isa, table, tokens, head_dim, x, part)
                    }
                    None => ops::rope_in_place(isa, table, tokens, head_dim, part),
                });
            });
        })
    }
}

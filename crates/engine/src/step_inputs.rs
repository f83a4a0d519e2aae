//! The inputs of a step's graph, from the rows that it runs and the blocks that their sequences hold.

use minfer_models::StepInput;

use crate::context::{KV_BLOCK, Row};
use crate::kv::KvTable;

/// Inputs of a step, kept so that a step allocates nothing.
#[derive(Default)]
pub(crate) struct StepInputs {
    tokens: Vec<i32>,
    positions: Vec<i32>,
    kv_slots: Vec<i32>,
    block_table: Vec<i32>,
    seq_rows: Vec<i32>,
    kv_lens: Vec<i32>,
    pub(crate) out_rows: Vec<i32>,
    /// New tokens of each sequence.
    pub(crate) lens: Vec<usize>,
}

impl StepInputs {
    /// Sets everything for `rows`, whose sequences have the blocks that they need; `lens` has an entry for each sequence.
    pub(crate) fn fill(&mut self, rows: &[Row], kv: &KvTable, blocks_per_seq: usize) {
        self.clear();
        for (i, row) in rows.iter().enumerate() {
            let (seq, blocks) = (row.seq.0, kv.blocks(row.seq.0));
            let position = kv.tokens(seq).len() + self.lens[seq];
            self.lens[seq] += 1;
            self.tokens.push(row.token as i32);
            self.positions.push(position as i32);
            let block = blocks[position / KV_BLOCK] as i32;
            self.kv_slots.push(block * KV_BLOCK as i32 + (position % KV_BLOCK) as i32);
            self.seq_rows.push(seq as i32);
            self.kv_lens.push(position as i32 + 1);
            if row.wants_logits {
                self.out_rows.push(i as i32);
            }
        }
        self.block_table.clear();
        self.block_table.resize(blocks_per_seq * kv.n_seq_max(), 0);
        for (seq, column) in self.block_table.chunks_mut(blocks_per_seq).enumerate() {
            for (to, from) in column.iter_mut().zip(kv.blocks(seq)) {
                *to = *from as i32;
            }
        }
    }

    /// The values of an input.
    pub(crate) fn of(&self, input: StepInput) -> &[i32] {
        match input {
            StepInput::Tokens => &self.tokens,
            StepInput::Positions => &self.positions,
            StepInput::KvSlots => &self.kv_slots,
            StepInput::BlockTable => &self.block_table,
            StepInput::SeqRows => &self.seq_rows,
            StepInput::KvLens => &self.kv_lens,
            StepInput::OutRows => &self.out_rows,
        }
    }

    fn clear(&mut self) {
        let inputs = [&mut self.tokens, &mut self.positions, &mut self.kv_slots, &mut self.seq_rows];
        inputs.into_iter().for_each(Vec::clear);
        self.kv_lens.clear();
        self.out_rows.clear();
        self.lens.fill(0);
    }
}

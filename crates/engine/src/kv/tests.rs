//! Random interleavings over a small pool, with a memory of tokens under it: every sequence must read back what it wrote.

use std::convert::Infallible;

use proptest::prelude::*;

use super::*;

const BLOCK_LEN: usize = 4;

/// A table with the memory that its blocks stand for: each position holds the token that was stored there.
struct Model {
    table: KvTable,
    memory: Vec<[Option<u32>; BLOCK_LEN]>,
    n_blocks: usize,
}

impl Model {
    fn new(n_blocks: usize, n_seq_max: usize) -> Self {
        let table = KvTable::new(BLOCK_LEN, n_blocks, n_seq_max);
        Model { table, memory: vec![[None; BLOCK_LEN]; n_blocks], n_blocks }
    }

    fn extend(&mut self, seq: usize, tokens: &[u32]) -> bool {
        let memory = &mut self.memory;
        let mut copy = |from: u32, to: u32| -> Result<(), Infallible> {
            memory[to as usize] = memory[from as usize];
            Ok(())
        };
        if self.table.reserve(seq, tokens.len(), &mut copy).is_err() {
            return false;
        }
        for &token in tokens {
            let at = self.table.tokens(seq).len();
            let block = self.table.blocks(seq)[at / BLOCK_LEN];
            self.memory[block as usize][at % BLOCK_LEN] = Some(token);
            self.table.push(seq, token);
        }
        true
    }

    fn restart(&mut self, seq: usize, prompt: &[u32]) -> PrefixMatch {
        let memory = &mut self.memory;
        let mut copy = |from: u32, to: u32| -> Result<(), Infallible> {
            memory[to as usize] = memory[from as usize];
            Ok(())
        };
        let Ok(found) = self.table.restart(seq, prompt, prompt.len().saturating_sub(1), &mut copy);
        found
    }

    fn live(&self) -> Vec<usize> {
        (0..self.table.n_seq_max()).filter(|seq| self.table.contains(*seq)).collect()
    }

    /// Every sequence reads its own tokens, and every block is accounted for.
    fn check(&self) -> Result<(), TestCaseError> {
        let mut n_holders = vec![0; self.n_blocks];
        for seq in self.live() {
            let (tokens, blocks) = (self.table.tokens(seq), self.table.blocks(seq));
            prop_assert!(blocks.len() >= tokens.len().div_ceil(BLOCK_LEN));
            blocks.iter().for_each(|block| n_holders[*block as usize] += 1);
            for (at, token) in tokens.iter().enumerate() {
                let stored = self.memory[blocks[at / BLOCK_LEN] as usize][at % BLOCK_LEN];
                prop_assert_eq!(stored, Some(*token), "sequence {}, position {}", seq, at);
            }
        }
        let in_use = n_holders.iter().filter(|n| **n > 0).count();
        let counts = self.table.counts();
        prop_assert_eq!(counts.in_use, in_use);
        prop_assert_eq!(counts.in_use + counts.cached + counts.free, self.n_blocks);
        prop_assert_eq!(self.table.pool.holders(), &n_holders[..]);
        Ok(())
    }
}

#[derive(Clone, Debug)]
enum Action {
    Create,
    Extend(usize, Vec<u32>),
    Restart(usize, Vec<u32>),
    Fork(usize),
    Truncate(usize, usize),
    End(usize),
    ClearCache,
}

/// Few tokens, so that texts often begin alike.
fn text(max: usize) -> impl Strategy<Value = Vec<u32>> {
    proptest::collection::vec(0..2u32, 1..max)
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        3 => Just(Action::Create),
        8 => (any::<usize>(), text(11)).prop_map(|(s, t)| Action::Extend(s, t)),
        5 => (any::<usize>(), text(25)).prop_map(|(s, t)| Action::Restart(s, t)),
        3 => any::<usize>().prop_map(Action::Fork),
        3 => (any::<usize>(), 0..20usize).prop_map(|(s, n)| Action::Truncate(s, n)),
        3 => any::<usize>().prop_map(Action::End),
        1 => Just(Action::ClearCache),
    ]
}

fn pick(live: &[usize], index: usize) -> Option<usize> {
    (!live.is_empty()).then(|| live[index % live.len()])
}

fn act(model: &mut Model, action: &Action) -> Result<(), TestCaseError> {
    let live = model.live();
    match action {
        Action::Create => drop(model.table.create()),
        Action::Extend(s, tokens) => {
            if let Some(seq) = pick(&live, *s) {
                let (before, counts) = (model.table.tokens(seq).to_vec(), model.table.counts());
                if model.extend(seq, tokens) {
                    prop_assert_eq!(model.table.tokens(seq), [&before[..], tokens].concat());
                } else {
                    prop_assert_eq!(model.table.tokens(seq), before);
                    let n_most = tokens.len().div_ceil(BLOCK_LEN) + 1;
                    prop_assert!(counts.free + counts.cached < n_most, "refused with {:?}", counts);
                }
            }
        }
        Action::Restart(s, prompt) => {
            if let Some(seq) = pick(&live, *s) {
                let found = model.restart(seq, prompt);
                prop_assert!(found.n_cached < prompt.len());
                prop_assert_eq!(model.table.tokens(seq), &prompt[..found.n_cached]);
                if let Some(d) = found.divergence {
                    prop_assert!(d.position >= found.n_cached && prompt[d.position] != d.cached);
                }
            }
        }
        Action::Fork(s) => {
            if let Some(seq) = pick(&live, *s)
                && let Some(fork) = model.table.fork(seq)
            {
                prop_assert_eq!(model.table.blocks(seq), model.table.blocks(fork));
            }
        }
        Action::Truncate(s, len) => {
            if let Some(seq) = pick(&live, *s) {
                model.table.truncate(seq, *len);
                prop_assert!(model.table.tokens(seq).len() <= *len);
            }
        }
        Action::End(s) => {
            if let Some(seq) = pick(&live, *s) {
                model.table.end(seq);
            }
        }
        Action::ClearCache => model.table.clear_cache(),
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 5000, ..ProptestConfig::default() })]

    #[test]
    fn no_interleaving_leaks_or_mixes_blocks(
        n_blocks in 1..12usize,
        actions in proptest::collection::vec(action(), 1..60),
    ) {
        let mut model = Model::new(n_blocks, 4);
        for action in &actions {
            act(&mut model, action)?;
            model.check()?;
        }
        model.live().into_iter().for_each(|seq| model.table.end(seq));
        prop_assert_eq!(model.table.counts().in_use, 0);
        model.table.clear_cache();
        prop_assert_eq!(model.table.counts(), BlockCounts { in_use: 0, cached: 0, free: n_blocks });
    }
}

fn filled(n_blocks: usize, tokens: &[u32]) -> (Model, usize) {
    let mut model = Model::new(n_blocks, 4);
    let seq = model.table.create().unwrap();
    assert!(model.extend(seq, tokens));
    (model, seq)
}

#[test]
fn blocks_go_out_lowest_first() {
    let (model, seq) = filled(5, &[0; 9]);
    assert_eq!(model.table.blocks(seq), [0, 1, 2]);
}

#[test]
fn a_prompt_begins_with_what_another_sequence_holds() {
    let (mut model, first) = filled(8, &[1, 2, 3, 4, 5, 6, 7, 8, 9]);
    let second = model.table.create().unwrap();
    // Whole blocks of the running sequence are shared, its unfinished last one is not known yet.
    let found = model.restart(second, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
    assert_eq!(found, PrefixMatch { n_cached: 8, divergence: None });
    assert_eq!(model.table.blocks(second), &model.table.blocks(first)[..2]);
    // Once the first has ended, its last part is known as well, and is copied.
    model.table.end(first);
    let found = model.restart(second, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
    assert_eq!(found, PrefixMatch { n_cached: 9, divergence: None });
    model.check().unwrap();
}

#[test]
fn the_place_where_a_prompt_departs_from_the_nearest_text_is_told() {
    let (mut model, first) = filled(8, &[1, 2, 3, 4, 5, 6, 7, 8]);
    model.table.end(first);
    let seq = model.table.create().unwrap();
    let found = model.restart(seq, &[1, 2, 3, 4, 5, 6, 9, 9, 9]);
    assert_eq!(found, PrefixMatch { n_cached: 6, divergence: Some(Divergence { position: 6, cached: 7 }) });
    // The same prompt as one that is cached differs nowhere; its last token is left to be read.
    let found = model.restart(seq, &[1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(found, PrefixMatch { n_cached: 7, divergence: None });
    // Nothing in common is no near match.
    assert_eq!(model.restart(seq, &[3, 3, 3]), PrefixMatch::default());
}

#[test]
fn a_fork_copies_only_the_block_it_writes_to() {
    let (mut model, seq) = filled(8, &[1, 2, 3, 4, 5]);
    let fork = model.table.fork(seq).unwrap();
    assert_eq!(model.table.counts().in_use, 2);
    assert!(model.extend(fork, &[6]));
    assert!(model.extend(seq, &[7]));
    assert_eq!(model.table.blocks(seq)[0], model.table.blocks(fork)[0]);
    assert_ne!(model.table.blocks(seq)[1], model.table.blocks(fork)[1]);
    assert_eq!(model.table.counts().in_use, 3);
    model.check().unwrap();
}

#[test]
fn equal_texts_end_up_in_the_same_blocks() {
    let (mut model, first) = filled(8, &[1, 2, 3, 4, 5]);
    let second = model.table.create().unwrap();
    assert!(model.extend(second, &[1, 2, 3, 4, 6]));
    assert_eq!(model.table.counts().in_use, 4);
    let third = model.table.create().unwrap();
    assert_eq!(model.restart(third, &[1, 2, 3, 4, 9]).n_cached, 4);
    assert_eq!(model.table.counts().in_use, 3);
    assert_eq!(model.table.blocks(first)[0], model.table.blocks(second)[0]);
    model.check().unwrap();
}

#[test]
fn what_was_used_least_recently_goes_first_and_ends_before_beginnings() {
    let (mut model, old) = filled(4, &[1, 1, 1, 1, 2, 2, 2, 2]);
    model.table.end(old);
    let new = model.table.create().unwrap();
    assert!(model.extend(new, &[3; 8]));
    model.table.end(new);
    assert_eq!(model.table.counts(), BlockCounts { in_use: 0, cached: 4, free: 0 });
    let seq = model.table.create().unwrap();
    assert!(model.extend(seq, &[4]));
    model.table.end(seq);
    let seq = model.table.create().unwrap();
    assert_eq!(model.restart(seq, &[3; 9]).n_cached, 8);
    // Of the older text only the beginning is left.
    assert_eq!(model.restart(seq, &[1, 1, 1, 1, 2, 2, 2, 2, 9]).n_cached, 4);
}

#[test]
fn a_full_pool_gives_up_a_cached_text_rather_than_refuse_its_continuation() {
    let (mut model, seq) = filled(2, &[1, 2, 3, 4, 5, 6]);
    model.table.end(seq);
    let seq = model.table.create().unwrap();
    assert_eq!(model.restart(seq, &[1, 2, 3, 4, 5, 9, 9, 9]).n_cached, 5);
    assert!(model.extend(seq, &[9, 9, 9]));
    assert!(!model.extend(seq, &[9]));
    assert_eq!(model.table.tokens(seq), [1, 2, 3, 4, 5, 9, 9, 9]);
    model.check().unwrap();
}

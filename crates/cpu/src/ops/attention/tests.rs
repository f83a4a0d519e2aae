use super::*;
use crate::ops::{RegionMut, store_kv};
use crate::testing::{Random, assert_close, assert_same_bits, same_bits_on_all};
use minfer_graph::KvPart;

/// Scores of up to about 8 are off by some units of 2^-21 and enter an exponential; each span adds up to 256 products,
/// and values are at most 1.
const ATTENTION_ABS: f64 = 3e-6;

#[derive(Clone, Copy, Debug)]
enum Type {
    F16,
    F32,
    Q8_0,
}

/// A sequence in a cache, with queries for its last tokens.
struct Case {
    n_heads: usize,
    layout: KvLayout,
    kv_type: Type,
    kv_len: usize,
    n_tokens: usize,
}

/// The inputs of a case: keys and values by position, and queries by token.
struct Inputs {
    k: Vec<f32>,
    v: Vec<f32>,
    q: Vec<f32>,
    table: Vec<i32>,
    n_blocks: usize,
}

impl Case {
    fn new(head_dim: usize, n_heads: usize, n_kv_heads: usize, kv_len: usize, n_tokens: usize) -> Case {
        let layout = KvLayout { block_size: 32, n_kv_heads, k_dim: head_dim, v_dim: head_dim };
        Case { n_heads, layout, kv_type: Type::F16, kv_len, n_tokens }
    }

    /// Blocks in a random order; two more exist than are used.
    fn inputs(&self, seed: u64) -> Inputs {
        let mut random = Random::new(seed);
        let KvLayout { block_size, n_kv_heads, k_dim, v_dim } = self.layout;
        let used = self.kv_len.div_ceil(block_size);
        let mut table: Vec<i32> = (0..used as i32 + 2).collect();
        (1..table.len()).rev().for_each(|i| table.swap(i, random.below(i + 1)));
        Inputs {
            k: random.units(self.kv_len * n_kv_heads * k_dim),
            v: random.units(self.kv_len * n_kv_heads * v_dim),
            q: random.units(self.n_tokens * self.n_heads * k_dim).iter().map(|x| x * 4.0).collect(),
            n_blocks: table.len(),
            table: table[..used].to_vec(),
        }
    }

    fn scale(&self) -> f32 {
        1.0 / (self.layout.k_dim as f32).sqrt()
    }

    /// Stores keys and values, then runs the last `n_tokens` in chunks of `chunk`. What is not stored is NaN.
    fn run(&self, isa: Isa, pool: &Pool, inputs: &Inputs, chunk: usize) -> Vec<f32> {
        match self.kv_type {
            Type::F16 => {
                let mut k = vec![f16::NAN; inputs.n_blocks * self.layout.k_block_elems()];
                let mut v = vec![f16::NAN; inputs.n_blocks * self.layout.v_block_elems()];
                self.store(isa, pool, inputs, RegionMut::F16(&mut k), RegionMut::F16(&mut v));
                self.attend(isa, pool, inputs, KvRegions::F16 { k: &k, v: &v }, chunk)
            }
            Type::F32 => {
                let mut k = vec![f32::NAN; inputs.n_blocks * self.layout.k_block_elems()];
                let mut v = vec![f32::NAN; inputs.n_blocks * self.layout.v_block_elems()];
                self.store(isa, pool, inputs, RegionMut::F32(&mut k), RegionMut::F32(&mut v));
                self.attend(isa, pool, inputs, KvRegions::F32 { k: &k, v: &v }, chunk)
            }
            Type::Q8_0 => {
                // Every scale is NaN.
                let mut k = vec![0xFF; inputs.n_blocks * self.layout.q8_0_block_bytes(KvPart::K)];
                let mut v = vec![0xFF; inputs.n_blocks * self.layout.q8_0_block_bytes(KvPart::V)];
                self.store(isa, pool, inputs, RegionMut::Q8_0(&mut k), RegionMut::Q8_0(&mut v));
                self.attend(isa, pool, inputs, KvRegions::Q8_0 { k: &k, v: &v }, chunk)
            }
        }
    }

    fn store(&self, isa: Isa, pool: &Pool, inputs: &Inputs, k: RegionMut<'_>, v: RegionMut<'_>) {
        let size = self.layout.block_size;
        let slots: Vec<i32> =
            (0..self.kv_len).map(|p| inputs.table[p / size] * size as i32 + (p % size) as i32).collect();
        store_kv(isa, pool, self.layout, KvPart::K, &inputs.k, &slots, k).unwrap();
        store_kv(isa, pool, self.layout, KvPart::V, &inputs.v, &slots, v).unwrap();
    }

    fn attend(
        &self,
        isa: Isa,
        pool: &Pool,
        inputs: &Inputs,
        regions: KvRegions<'_>,
        chunk: usize,
    ) -> Vec<f32> {
        let first = self.kv_len - self.n_tokens;
        let kv_len: Vec<i32> = (0..self.n_tokens).map(|t| (first + t + 1) as i32).collect();
        let (mut out, mut scratch) = (Vec::new(), AttentionScratch::default());
        for (q, kv_len) in inputs.q.chunks(chunk * self.n_heads * self.layout.k_dim).zip(kv_len.chunks(chunk))
        {
            let rows = vec![0; kv_len.len()];
            let sight =
                Sight { block_table: &inputs.table, row_len: inputs.table.len(), rows: &rows, kv_len };
            let attention =
                Attention::new(isa, q, self.n_heads, self.scale(), self.layout, regions, sight).unwrap();
            let mut part = vec![7.0; kv_len.len() * self.n_heads * self.layout.v_dim];
            attention.run(pool, &mut scratch, &mut part).unwrap();
            out.extend(part);
        }
        out
    }

    /// Rows of keys or values as they are read back.
    fn stored(&self, x: &[f32], dim: usize) -> Vec<f64> {
        let group = |x: &[f32]| -> Vec<f64> {
            let amax = x.iter().fold(0.0f32, |m, x| m.max(x.abs()));
            let scale = f16::from_f32(amax / 127.0).to_f32();
            x.iter().map(|x| f64::from(scale * (x / scale).round_ties_even().clamp(-127.0, 127.0))).collect()
        };
        match self.kv_type {
            Type::F16 => x.iter().map(|x| f16::from_f32(*x).to_f64()).collect(),
            Type::F32 => x.iter().map(|x| f64::from(*x)).collect(),
            Type::Q8_0 => x.chunks(dim).flat_map(|row| row.chunks(32)).flat_map(group).collect(),
        }
    }

    /// The formula in f64, with keys and values as stored.
    fn exact(&self, inputs: &Inputs) -> Vec<f64> {
        let KvLayout { n_kv_heads, k_dim, v_dim, .. } = self.layout;
        let (k, v) = (self.stored(&inputs.k, k_dim), self.stored(&inputs.v, v_dim));
        let mut out = Vec::new();
        for (row, q) in inputs.q.chunks(k_dim).enumerate() {
            let (token, head) = (row / self.n_heads, row % self.n_heads);
            let kv_head = head / (self.n_heads / n_kv_heads);
            let n_seen = self.kv_len - self.n_tokens + token + 1;
            let weights: Vec<f64> = (0..n_seen)
                .map(|p| {
                    let k = &k[(p * n_kv_heads + kv_head) * k_dim..][..k_dim];
                    let dot: f64 = q.iter().zip(k).map(|(&q, &k)| f64::from(q) * k).sum();
                    libm::exp(dot * f64::from(self.scale()))
                })
                .collect();
            let sum: f64 = weights.iter().sum();
            out.extend((0..v_dim).map(|i| {
                let value = |p: usize| v[(p * n_kv_heads + kv_head) * v_dim + i];
                weights.iter().enumerate().map(|(p, w)| w * value(p)).sum::<f64>() / sum
            }));
        }
        out
    }
}

fn cases() -> Vec<Case> {
    let f32_case = |case: Case| Case { kv_type: Type::F32, ..case };
    let q8_0_case = |case: Case| Case { kv_type: Type::Q8_0, ..case };
    let uneven = KvLayout { block_size: 16, n_kv_heads: 2, k_dim: 24, v_dim: 40 };
    vec![
        Case::new(64, 14, 2, 300, 40),
        Case::new(128, 4, 4, 33, 33),
        Case::new(40, 3, 1, 17, 5),
        Case::new(80, 8, 2, 530, 3),
        Case::new(256, 2, 1, 257, 2),
        Case::new(1, 1, 1, 1, 1),
        f32_case(Case::new(96, 6, 3, 256, 20)),
        f32_case(Case::new(64, 9, 3, 513, 1)),
        Case { layout: uneven, ..Case::new(24, 4, 2, 100, 50) },
        Case { layout: KvLayout { block_size: 256, ..uneven }, ..Case::new(24, 4, 2, 700, 7) },
        q8_0_case(Case::new(64, 14, 2, 300, 40)),
        q8_0_case(Case::new(80, 8, 2, 530, 3)),
        q8_0_case(Case::new(1, 1, 1, 1, 1)),
        q8_0_case(Case { layout: uneven, ..Case::new(24, 4, 2, 100, 50) }),
    ]
}

#[test]
fn attention_is_close_to_its_formula_and_the_same_everywhere() {
    let pool = Pool::new(2).unwrap();
    for case in cases() {
        let inputs = case.inputs(1);
        let out = same_bits_on_all("attention", |isa| case.run(isa, &pool, &inputs, case.n_tokens));
        assert_close("attention", &out, &case.exact(&inputs), 0.0, ATTENTION_ABS);
    }
}

#[test]
fn chunks_and_threads_change_no_bit() {
    let pools = [Pool::new(1).unwrap(), Pool::new(2).unwrap(), Pool::new(3).unwrap()];
    for case in cases() {
        let inputs = case.inputs(2);
        for isa in Isa::available() {
            let whole = case.run(isa, &pools[0], &inputs, case.n_tokens);
            for pool in &pools {
                for chunk in [1, 2, 7, 64] {
                    let what = format!("chunk {chunk} on {} threads, {isa}", pool.n_threads());
                    assert_same_bits(&what, &case.run(isa, pool, &inputs, chunk), &whole);
                }
            }
        }
    }
}

/// A long context for few tokens is spread over threads by spans.
#[test]
fn spans_spread_over_threads_give_the_bits_of_one_thread() {
    let case = Case::new(64, 2, 1, 5000, 2);
    let inputs = case.inputs(3);
    let one = case.run(Isa::detect(), &Pool::new(1).unwrap(), &inputs, 2);
    assert_close("attention", &one, &case.exact(&inputs), 0.0, ATTENTION_ABS);
    assert_same_bits("4 threads", &case.run(Isa::detect(), &Pool::new(4).unwrap(), &inputs, 2), &one);
}

#[test]
fn the_order_of_blocks_changes_no_bit() {
    let pool = Pool::new(2).unwrap();
    for case in cases() {
        let mut inputs = case.inputs(4);
        let out = case.run(Isa::detect(), &pool, &inputs, 64);
        inputs.table = (0..inputs.table.len() as i32).collect();
        assert_same_bits("in order", &case.run(Isa::detect(), &pool, &inputs, 64), &out);
    }
}

#[test]
fn keys_and_values_that_f16_holds_give_the_same_bits_in_f16_and_f32() {
    let pool = Pool::new(1).unwrap();
    for case in cases() {
        let mut inputs = case.inputs(5);
        inputs.k.iter_mut().chain(&mut inputs.v).for_each(|x| *x = f16::from_f32(*x).to_f32());
        let half = Case { kv_type: Type::F16, ..case }.run(Isa::detect(), &pool, &inputs, 64);
        let single = Case { kv_type: Type::F32, ..case }.run(Isa::detect(), &pool, &inputs, 64);
        assert_same_bits("f32 and f16", &single, &half);
    }
}

#[test]
fn sequences_of_one_batch_do_not_disturb_each_other() {
    let pool = Pool::new(2).unwrap();
    let layout = KvLayout { block_size: 32, n_kv_heads: 1, k_dim: 16, v_dim: 16 };
    let mut random = Random::new(6);
    let (k, v) = (random.units(4 * layout.k_block_elems()), random.units(4 * layout.v_block_elems()));
    let q = random.units(5 * 2 * 16);
    let regions = KvRegions::F32 { k: &k, v: &v };
    let (table, rows, kv_len) = ([3, 0, 1, 2], [0, 1, 1, 0, 0], [40, 1, 64, 7, 8]);
    let attend = |tokens: Range<usize>| {
        let sight = Sight {
            block_table: &table,
            row_len: 2,
            rows: &rows[tokens.clone()],
            kv_len: &kv_len[tokens.clone()],
        };
        let q = &q[tokens.start * 32..tokens.end * 32];
        let mut out = vec![0.0; tokens.len() * 32];
        Attention::new(Isa::detect(), q, 2, 0.25, layout, regions, sight)
            .unwrap()
            .run(&pool, &mut AttentionScratch::default(), &mut out)
            .unwrap();
        out
    };
    let together = attend(0..5);
    for token in 0..5 {
        assert_same_bits("alone", &attend(token..token + 1), &together[token * 32..(token + 1) * 32]);
    }
}

#[test]
fn what_points_outside_is_refused() {
    let layout = KvLayout { block_size: 32, n_kv_heads: 2, k_dim: 4, v_dim: 4 };
    let (k, v) = (vec![0.0; 3 * layout.k_block_elems()], vec![0.0; 3 * layout.v_block_elems()]);
    let regions = KvRegions::F32 { k: &k, v: &v };
    let check = |n_heads: usize, table: &[i32], rows: &[i32], kv_len: &[i32]| {
        let q = vec![0.0; rows.len() * n_heads * 4];
        let sight = Sight { block_table: table, row_len: 2, rows, kv_len };
        Attention::new(Isa::detect(), &q, n_heads, 1.0, layout, regions, sight).map(|_| ())
    };
    let index = |what, index, at, limit| Err(KernelError::Index { what, index, at, limit });
    assert_eq!(check(4, &[0, 1], &[0], &[64]), Ok(()));
    assert_eq!(check(4, &[0, 9], &[0], &[32]), Ok(()), "an entry that is not seen may be anything");
    assert_eq!(check(4, &[0, 3], &[0, 0], &[32, 33]), index("KV block", 3, 1, 3));
    assert_eq!(check(4, &[0, -1], &[0], &[33]), index("KV block", -1, 1, 3));
    assert_eq!(check(4, &[0, 1], &[0], &[0]), index("kv_len", 0, 0, 65));
    assert_eq!(check(4, &[0, 1], &[0], &[65]), index("kv_len", 65, 0, 65));
    assert_eq!(check(4, &[0, 1], &[1], &[1]), index("block table row", 1, 0, 1));
    assert!(matches!(check(3, &[0, 1], &[0], &[1]), Err(KernelError::Parameter { what: "query heads", .. })));
    assert!(matches!(check(0, &[0, 1], &[0], &[1]), Err(KernelError::Parameter { what: "query heads", .. })));
}

//! A block read back as plain numbers, for comparisons and reports. Attention never comes here.

use half::f16;
use minfer_graph::{KvPart, KvType};

use super::{KvLayout, q8_0};

/// The elements of a block in f32, `[position][kv head][element]` without padding; nothing if `block` has another size.
pub(crate) fn block_values(
    layout: &KvLayout,
    part: KvPart,
    kv_type: KvType,
    block: &[u8],
) -> Option<Vec<f32>> {
    let n_heads = layout.n_kv_heads;
    if n_heads == 0 || block.is_empty() || !block.len().is_multiple_of(n_heads) {
        return None;
    }
    let heads: Vec<Vec<f32>> = block
        .chunks_exact(block.len() / n_heads)
        .map(|head| head_values(layout, part, kv_type, head))
        .collect::<Option<_>>()?;
    let dim = layout.head_dim(part);
    let at = |position: usize| heads.iter().flat_map(move |head| &head[position * dim..(position + 1) * dim]);
    Some((0..layout.block_size).flat_map(at).copied().collect())
}

/// One head, `[position][element]`.
fn head_values(layout: &KvLayout, part: KvPart, kv_type: KvType, head: &[u8]) -> Option<Vec<f32>> {
    let (dim, size) = (layout.head_dim(part), layout.block_size);
    let (row, sizes) = (layout.v_row(), q8_0::Head::of(layout, part));
    let place = |position: usize, i: usize| match part {
        KvPart::K => i * size + position,
        KvPart::V => position * row + i,
    };
    let n_elems = size * if part == KvPart::K { dim } else { row };
    let n_bytes = match kv_type {
        KvType::F16 => n_elems * size_of::<f16>(),
        KvType::F32 => n_elems * size_of::<f32>(),
        KvType::Q8_0 => sizes.bytes(),
    };
    if head.len() != n_bytes {
        return None;
    }
    let element = |position: usize, i: usize| match kv_type {
        KvType::F16 => f16::from_le_bytes(head.as_chunks().0[place(position, i)]).to_f32(),
        KvType::F32 => f32::from_le_bytes(head.as_chunks().0[place(position, i)]),
        KvType::Q8_0 => sizes.element(head, position, i),
    };
    Some(
        (0..size)
            .flat_map(|position| (0..dim).map(move |i| (position, i)))
            .map(|(p, i)| element(p, i))
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::Isa;
    use crate::ops::{RegionMut, store_kv};
    use crate::pool::Pool;
    use crate::testing::Random;

    const LAYOUT: KvLayout = KvLayout { block_size: 32, n_kv_heads: 3, k_dim: 20, v_dim: 37 };

    fn stored(part: KvPart, kv_type: KvType, x: &[f32], slots: &[i32]) -> Vec<u8> {
        let (pool, isa) = (Pool::new(1).unwrap(), Isa::detect());
        let n = match part {
            KvPart::K => LAYOUT.k_block_elems(),
            KvPart::V => LAYOUT.v_block_elems(),
        };
        match kv_type {
            KvType::F16 => {
                let mut to = vec![f16::ZERO; n];
                store_kv(isa, &pool, LAYOUT, part, x, slots, RegionMut::F16(&mut to)).unwrap();
                to.iter().flat_map(|x| x.to_le_bytes()).collect()
            }
            KvType::F32 => {
                let mut to = vec![0.0; n];
                store_kv(isa, &pool, LAYOUT, part, x, slots, RegionMut::F32(&mut to)).unwrap();
                to.iter().flat_map(|x: &f32| x.to_le_bytes()).collect()
            }
            KvType::Q8_0 => {
                let mut to = vec![0; LAYOUT.q8_0_block_bytes(part)];
                store_kv(isa, &pool, LAYOUT, part, x, slots, RegionMut::Q8_0(&mut to)).unwrap();
                to
            }
        }
    }

    #[test]
    fn what_was_stored_is_found_at_its_position() {
        let slots = [5, 31, 0, 16];
        for (part, dim) in [(KvPart::K, 20), (KvPart::V, 37)] {
            let width = 3 * dim;
            let x = Random::new(7).units(slots.len() * width);
            for (kv_type, tolerance) in [(KvType::F32, 0.0), (KvType::F16, 5e-4), (KvType::Q8_0, 5e-3)] {
                let block = stored(part, kv_type, &x, &slots);
                let values = block_values(&LAYOUT, part, kv_type, &block).unwrap();
                assert_eq!(values.len(), 32 * width);
                for (token, slot) in slots.iter().enumerate() {
                    let got = &values[*slot as usize * width..][..width];
                    let far = x[token * width..][..width]
                        .iter()
                        .zip(got)
                        .find(|(x, got)| (*x - *got).abs() > tolerance);
                    assert_eq!(far, None, "{part:?} {kv_type:?} slot {slot}");
                }
                assert!(
                    values[width..2 * width].iter().all(|x| *x == 0.0),
                    "nothing was stored at position 1"
                );
                assert_eq!(block_values(&LAYOUT, part, kv_type, &block[1..]), None);
                assert_eq!(block_values(&LAYOUT, part, kv_type, &[]), None);
            }
        }
    }
}

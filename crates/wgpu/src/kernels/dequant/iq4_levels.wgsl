// The sixteen levels of IQ4_NL and IQ4_XS, as signed bytes with their sign bit turned over: 128 more than they stand for.

var<private> levels: array<u32, 4> = array<u32, 4>(0x3f2d1801u, 0x766a5d4fu, 0xa6998d81u, 0xf1d9c5b5u);

fn level(nibble: u32) -> f32 {
  return f32((levels[nibble >> 2u] >> ((nibble & 3u) * 8u)) & 0xffu) - 128.0;
}

// The levels of the low nibbles of four bytes.
fn four_levels(word: u32) -> vec4f {
  return vec4f(
    level(word & 15u), level((word >> 8u) & 15u), level((word >> 16u) & 15u), level((word >> 24u) & 15u));
}

// The twelve bytes of eight scales and eight minimums of six bits, as Q4_K and Q5_K have them.

// Scale and minimum `j` of those at byte `at`.
fn scale_and_min(at: u32, j: u32) -> vec2f {
  if (j < 4u) {
    return vec2f(f32(load_u8(at + j) & 63u), f32(load_u8(at + j + 4u) & 63u));
  }
  let low = load_u8(at + j + 4u);
  let scale = (low & 15u) | ((load_u8(at + j - 4u) >> 6u) << 4u);
  let minimum = (low >> 4u) | ((load_u8(at + j) >> 6u) << 4u);
  return vec2f(f32(scale), f32(minimum));
}

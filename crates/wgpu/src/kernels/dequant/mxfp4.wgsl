// MXFP4, 17 bytes for 32 elements: exponent byte e (E8M0), 16 bytes of FP4 (E2M1). Element: 2^(e - 127) fp4.

// The eight magnitudes of FP4, doubled so that all are whole: 0, 1, 2, 3, 4, 6, 8, 12.
fn fp4_doubled(nibble: u32) -> f32 {
  let word = select(0x0c080604u, 0x03020100u, (nibble & 4u) == 0u);
  let magnitude = f32((word >> ((nibble & 3u) * 8u)) & 0xffu);
  return select(magnitude, -magnitude, (nibble & 8u) != 0u);
}

fn four_fp4(word: u32) -> vec4f {
  return vec4f(
    fp4_doubled(word & 15u), fp4_doubled((word >> 8u) & 15u),
    fp4_doubled((word >> 16u) & 15u), fp4_doubled((word >> 24u) & 15u));
}

// 2^(e - 128): half of what the exponent says, since the elements are doubled. The two smallest are subnormal.
fn half_power_of_two(e: u32) -> f32 {
  if (e < 2u) {
    return bitcast<f32>(0x00200000u << e);
  }
  return bitcast<f32>((e - 1u) << 23u);
}

fn dequant(row: u32, g: u32) -> array<vec4f, 8> {
  let block = row + g * 17u;
  let scale = half_power_of_two(load_u8(block));
  var out: array<vec4f, 8>;
  for (var i = 0u; i < 4u; i++) {
    let q = load_u32(block + 1u + 4u * i);
    out[i] = four_fp4(q) * scale;
    out[i + 4u] = four_fp4(q >> 4u) * scale;
  }
  return out;
}

// Q3_K, 110 bytes for 256 elements: 32 bytes of third bits, 64 bytes of low bit pairs, 12 bytes of 6-bit scales for each 16
// elements, d (f16). Element: (d (scale - 32)) (q - 4).

// Scale `k`: its low nibble lies in the first 8 bytes (low nibbles are 0 to 7), two more bits in the last 4.
fn scale(at: u32, k: u32) -> f32 {
  let low = (load_u8(at + k % 8u) >> (4u * (k / 8u))) & 15u;
  let high = (load_u8(at + 8u + k % 4u) >> (2u * (k / 4u))) & 3u;
  return f32(low | (high << 4u)) - 32.0;
}

fn dequant(row: u32, g: u32) -> array<vec4f, 8> {
  let block = row + (g / 8u) * 110u;
  let j = g % 8u;
  let d = load_f16(block + 108u);
  var out: array<vec4f, 8>;
  for (var i = 0u; i < 8u; i++) {
    let low = (load_u32(block + 32u + (j / 4u) * 32u + 4u * i) >> (2u * (j % 4u))) & 0x03030303u;
    let third = (load_u32(block + 4u * i) >> j) & 0x01010101u;
    out[i] = (bytes(low | (third << 2u)) - 4.0) * (d * scale(block + 96u, 2u * j + i / 4u));
  }
  return out;
}

// Q2_K, 84 bytes for 256 elements: for each 16 of them a scale (low nibble) and a minimum (high nibble), 64 bytes of 2-bit
// q, d and m (f16). Element: (d scale) q - (m minimum).

fn dequant(row: u32, g: u32) -> array<vec4f, 8> {
  let block = row + (g / 8u) * 84u;
  let j = g % 8u;
  let dm = unpack2x16float(load_u32(block + 80u));
  var out: array<vec4f, 8>;
  for (var i = 0u; i < 8u; i++) {
    let s = load_u8(block + 2u * j + i / 4u);
    let q = (load_u32(block + 16u + (j / 4u) * 32u + 4u * i) >> (2u * (j % 4u))) & 0x03030303u;
    out[i] = bytes(q) * (dm.x * f32(s & 15u)) - dm.y * f32(s >> 4u);
  }
  return out;
}

// IQ4_XS, 136 bytes for 256 elements: d (f16), high bit pairs of the scales (u16), their low nibbles (4 bytes), 128 bytes of
// nibbles laid out as in IQ4_NL. Element: (d (scale - 32)) level.

fn dequant(row: u32, g: u32) -> array<vec4f, 8> {
  let block = row + (g / 8u) * 136u;
  let j = g % 8u;
  let head = load_u32(block);
  let low = (load_u32(block + 4u) >> (4u * j)) & 15u;
  let high = (head >> (16u + 2u * j)) & 3u;
  let d = unpack2x16float(head).x * (f32(low | (high << 4u)) - 32.0);
  var out: array<vec4f, 8>;
  for (var i = 0u; i < 4u; i++) {
    let q = load_u32(block + 8u + 16u * j + 4u * i);
    out[i] = four_levels(q) * d;
    out[i + 4u] = four_levels(q >> 4u) * d;
  }
  return out;
}

// Q4_K, 144 bytes for 256 elements: d, m (f16), 12 bytes of 6-bit scales and minimums for each 32 elements, 128 bytes of
// nibbles. Element: (d scale) q - (m minimum).

fn dequant(row: u32, g: u32) -> array<vec4f, 8> {
  let block = row + (g / 8u) * 144u;
  let j = g % 8u;
  let sm = unpack2x16float(load_u32(block)) * scale_and_min(block + 4u, j);
  var out: array<vec4f, 8>;
  for (var i = 0u; i < 8u; i++) {
    // Two groups share 32 bytes: the even one has the low nibbles.
    let q = load_u32(block + 16u + (j / 2u) * 32u + 4u * i) >> (4u * (j % 2u));
    out[i] = low_nibbles(q) * sm.x - sm.y;
  }
  return out;
}

// Q4_0, 18 bytes for 32 elements: scale d (f16), 16 bytes of nibbles q. Element: (q - 8) d.

fn dequant(row: u32, g: u32) -> array<vec4f, 8> {
  let block = row + g * 18u;
  let d = load_f16(block);
  var out: array<vec4f, 8>;
  for (var i = 0u; i < 4u; i++) {
    let q = load_u32(block + 2u + 4u * i);
    out[i] = (low_nibbles(q) - 8.0) * d;
    out[i + 4u] = (high_nibbles(q) - 8.0) * d;
  }
  return out;
}

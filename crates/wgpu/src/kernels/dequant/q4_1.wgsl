// Q4_1, 20 bytes for 32 elements: scale d, offset m (f16), 16 bytes of nibbles q. Element: q d + m.

fn dequant(row: u32, g: u32) -> array<vec4f, 8> {
  let block = row + g * 20u;
  let dm = unpack2x16float(load_u32(block));
  var out: array<vec4f, 8>;
  for (var i = 0u; i < 4u; i++) {
    let q = load_u32(block + 4u + 4u * i);
    out[i] = low_nibbles(q) * dm.x + dm.y;
    out[i + 4u] = high_nibbles(q) * dm.x + dm.y;
  }
  return out;
}

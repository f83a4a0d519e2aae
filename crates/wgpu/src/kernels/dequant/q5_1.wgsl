// Q5_1, 24 bytes for 32 elements: scale d, offset m (f16), 32 fifth bits, 16 bytes of nibbles. Element: q d + m.

fn dequant(row: u32, g: u32) -> array<vec4f, 8> {
  let block = row + g * 24u;
  let dm = unpack2x16float(load_u32(block));
  let fifth = load_u32(block + 4u);
  var out: array<vec4f, 8>;
  for (var i = 0u; i < 4u; i++) {
    let q = load_u32(block + 8u + 4u * i);
    let low = (q & 0x0f0f0f0fu) | (spread_bits(fifth, 4u * i) << 4u);
    let high = ((q >> 4u) & 0x0f0f0f0fu) | (spread_bits(fifth, 16u + 4u * i) << 4u);
    out[i] = bytes(low) * dm.x + dm.y;
    out[i + 4u] = bytes(high) * dm.x + dm.y;
  }
  return out;
}

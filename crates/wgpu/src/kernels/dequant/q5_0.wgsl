// Q5_0, 22 bytes for 32 elements: scale d (f16), 32 fifth bits, 16 bytes of nibbles. Element: (q - 16) d.

fn dequant(row: u32, g: u32) -> array<vec4f, 8> {
  let block = row + g * 22u;
  let d = load_f16(block);
  let fifth = load_u32(block + 2u);
  var out: array<vec4f, 8>;
  for (var i = 0u; i < 4u; i++) {
    let q = load_u32(block + 6u + 4u * i);
    let low = (q & 0x0f0f0f0fu) | (spread_bits(fifth, 4u * i) << 4u);
    let high = ((q >> 4u) & 0x0f0f0f0fu) | (spread_bits(fifth, 16u + 4u * i) << 4u);
    out[i] = (bytes(low) - 16.0) * d;
    out[i + 4u] = (bytes(high) - 16.0) * d;
  }
  return out;
}

// IQ4_NL, 18 bytes for 32 elements: scale d (f16), 16 bytes of nibbles that index sixteen uneven levels. Element: d level.

fn dequant(row: u32, g: u32) -> array<vec4f, 8> {
  let block = row + g * 18u;
  let d = load_f16(block);
  var out: array<vec4f, 8>;
  for (var i = 0u; i < 4u; i++) {
    let q = load_u32(block + 2u + 4u * i);
    out[i] = four_levels(q) * d;
    out[i + 4u] = four_levels(q >> 4u) * d;
  }
  return out;
}

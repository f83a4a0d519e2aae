// Q8_0, 34 bytes for 32 elements: scale d (f16), 32 signed bytes q. Element: q d.

fn dequant(row: u32, g: u32) -> array<vec4f, 8> {
  let block = row + g * 34u;
  let d = load_f16(block);
  var out: array<vec4f, 8>;
  for (var i = 0u; i < 8u; i++) {
    // Bytes with their sign bit turned over are 128 more than they stand for.
    out[i] = (bytes(load_u32(block + 2u + 4u * i) ^ 0x80808080u) - 128.0) * d;
  }
  return out;
}

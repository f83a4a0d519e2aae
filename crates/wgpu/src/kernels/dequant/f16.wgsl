// F16: elements of half precision. Those behind the last of a row are 0.

fn dequant(row: u32, g: u32) -> array<vec4f, 8> {
  var out: array<vec4f, 8>;
  for (var i = 0u; i < 8u; i++) {
    for (var j = 0u; j < 4u; j++) {
      let at = g * 32u + i * 4u + j;
      if (at < p.k) {
        out[i][j] = load_f16(row + 2u * at);
      }
    }
  }
  return out;
}

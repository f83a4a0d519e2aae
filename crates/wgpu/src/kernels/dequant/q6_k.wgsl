// Q6_K, 210 bytes for 256 elements: 128 bytes of low nibbles, 64 bytes of high bit pairs, 16 signed byte scales, d (f16).
// Element: (d scale) (q - 32).

fn dequant(row: u32, g: u32) -> array<vec4f, 8> {
  let block = row + (g / 8u) * 210u;
  let j = g % 8u;
  // A half of 128 elements has 64 bytes of nibbles and 32 bytes of bit pairs, in four quarters of 32 elements.
  let nibbles = block + (j / 4u) * 64u + (j % 2u) * 32u;
  let pairs = block + 128u + (j / 4u) * 32u;
  let d = load_f16(block + 208u);
  var out: array<vec4f, 8>;
  for (var i = 0u; i < 8u; i++) {
    let low = (load_u32(nibbles + 4u * i) >> (4u * ((j % 4u) / 2u))) & 0x0f0f0f0fu;
    let high = (load_u32(pairs + 4u * i) >> (2u * (j % 4u))) & 0x03030303u;
    let scale = f32(load_u8(block + 192u + 2u * j + i / 4u) ^ 0x80u) - 128.0;
    out[i] = (bytes(low | (high << 4u)) - 32.0) * (d * scale);
  }
  return out;
}

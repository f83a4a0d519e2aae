// Q5_K, 176 bytes for 256 elements: as Q4_K, with 32 bytes of fifth bits before the nibbles: bit j of byte i belongs to
// element i of group j.

fn dequant(row: u32, g: u32) -> array<vec4f, 8> {
  let block = row + (g / 8u) * 176u;
  let j = g % 8u;
  let sm = unpack2x16float(load_u32(block)) * scale_and_min(block + 4u, j);
  var out: array<vec4f, 8>;
  for (var i = 0u; i < 8u; i++) {
    let nibbles = (load_u32(block + 48u + (j / 2u) * 32u + 4u * i) >> (4u * (j % 2u))) & 0x0f0f0f0fu;
    let fifth = (load_u32(block + 16u + 4u * i) >> j) & 0x01010101u;
    out[i] = bytes(nibbles | (fifth << 4u)) * sm.x - sm.y;
  }
  return out;
}

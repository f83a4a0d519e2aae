// Fields of blocks as they lie in a GGUF file. Needs: `word(i)`, the words of the matrix (little-endian bytes, one word more
// than it takes). Addresses are bytes; nothing is assumed of their alignment.

fn load_u8(at: u32) -> u32 {
  return (word(at >> 2u) >> ((at & 3u) * 8u)) & 0xffu;
}

fn load_u32(at: u32) -> u32 {
  let i = at >> 2u;
  let shift = (at & 3u) * 8u;
  if (shift == 0u) {
    return word(i);
  }
  return (word(i) >> shift) | (word(i + 1u) << (32u - shift));
}

fn load_u16(at: u32) -> u32 {
  return load_u32(at) & 0xffffu;
}

fn load_f16(at: u32) -> f32 {
  return unpack2x16float(load_u32(at)).x;
}

// The four bytes of a word, the lowest first.
fn bytes(word: u32) -> vec4f {
  return vec4f(f32(word & 0xffu), f32((word >> 8u) & 0xffu), f32((word >> 16u) & 0xffu), f32(word >> 24u));
}

// The low, or the high nibbles of four bytes.
fn low_nibbles(word: u32) -> vec4f {
  return bytes(word & 0x0f0f0f0fu);
}

fn high_nibbles(word: u32) -> vec4f {
  return bytes((word >> 4u) & 0x0f0f0f0fu);
}

// Four bits, each in the lowest place of a byte: bits `first` to `first + 3` of a word.
fn spread_bits(word: u32, first: u32) -> u32 {
  let b = word >> first;
  return (b & 1u) | ((b & 2u) << 7u) | ((b & 4u) << 14u) | ((b & 8u) << 21u);
}

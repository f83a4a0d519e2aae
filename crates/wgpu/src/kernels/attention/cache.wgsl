// Where keys and values lie in the region of a layer, and how a pair of elements is read and written.
//
// A region is cut into blocks of `block_len` positions. Within a block: keys [kv head][pair of elements][position], values
// [kv head][position][pair of elements]. A pair is one word of two halves in an F16 cache, two words in an F32 cache.
// A region that is larger than a binding lies in PIECES of them, `piece_blocks` blocks in each but the last.
// Needs: `p.n_kv_heads`, `p.head_dim` (even), `p.block_len`, `p.piece_blocks`; the constants F16, PIECES. For each region NAME
// that a kernel binds, `NAME_word(piece, i)` and `set_NAME_word(piece, i, word)` are generated.

fn piece_of(slot: u32) -> u32 {
  if (PIECES == 1u) {
    return 0u;
  }
  return (slot / p.block_len) / p.piece_blocks;
}

// The block of a slot within its piece.
fn block_of(slot: u32) -> u32 {
  let block = slot / p.block_len;
  if (PIECES == 1u) {
    return block;
  }
  return block % p.piece_blocks;
}

fn key_pair(slot: u32, head: u32, pair: u32) -> u32 {
  let pairs = p.head_dim / 2u;
  return ((block_of(slot) * p.n_kv_heads + head) * pairs + pair) * p.block_len + slot % p.block_len;
}

fn value_pair(slot: u32, head: u32, pair: u32) -> u32 {
  let pairs = p.head_dim / 2u;
  return ((block_of(slot) * p.n_kv_heads + head) * p.block_len + slot % p.block_len) * pairs + pair;
}

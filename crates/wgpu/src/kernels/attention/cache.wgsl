// Where keys and values lie in the region of a layer, and how a pair of elements is read and written.
//
// A region is cut into blocks of `block_len` positions. Within a block: keys [kv head][pair of elements][position], values
// [kv head][position][pair of elements]. A pair is one word of two halves in an F16 cache, two words in an F32 cache.
// Needs: `p.n_kv_heads`, `p.head_dim` (even), `p.block_len`; the constant F16.

fn key_pair(slot: u32, head: u32, pair: u32) -> u32 {
  let pairs = p.head_dim / 2u;
  return (((slot / p.block_len) * p.n_kv_heads + head) * pairs + pair) * p.block_len + slot % p.block_len;
}

fn value_pair(slot: u32, head: u32, pair: u32) -> u32 {
  let pairs = p.head_dim / 2u;
  return (((slot / p.block_len) * p.n_kv_heads + head) * p.block_len + slot % p.block_len) * pairs + pair;
}

// Writes columns into their slots of a layer's region of keys or values.
//
// Shapes: x: [n_kv_heads * head_dim, n] f32, slots: [n] i32, region: as cache.wgsl says. Threads: each writes a pair of
// elements. A slot outside `0..n_slots` is reported and nothing is written for it.
// Generated constants: KEYS, F16, PIECES, MAX_X; region: region. Needs: cache, report.

struct Params {
  node: u32,
  n: u32,
  n_kv_heads: u32,
  head_dim: u32,
  block_len: u32,
  n_slots: u32,
  x_start: u32,
  slots_start: u32,
  piece_blocks: u32,
}

var<immediate> p: Params;
@group(0) @binding(0) var<storage, read_write> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> slots: array<i32>;
@group(0) @binding(2) var<storage, read_write> status: array<atomic<u32>>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) wg: vec3u, @builtin(local_invocation_index) thread: u32) {
  let pairs = p.head_dim / 2u;
  let per_column = p.n_kv_heads * pairs;
  let item = (wg.x + wg.z * MAX_X) * 64u + thread;
  let t = item / per_column;
  if (t >= p.n) {
    return;
  }
  let head = (item % per_column) / pairs;
  let pair = item % pairs;
  let slot = u32(slots[p.slots_start + t]);
  if (slot >= p.n_slots) {
    report(slot);
    return;
  }
  let from_at = p.x_start + (t * per_column + head * pairs + pair) * 2u;
  var to_at = value_pair(slot, head, pair);
  if (KEYS) {
    to_at = key_pair(slot, head, pair);
  }
  write_pair(piece_of(slot), to_at, vec2f(x[from_at], x[from_at + 1u]));
}

fn write_pair(piece: u32, at: u32, v: vec2f) {
  if (F16) {
    set_region_word(piece, at, pack2x16float(v));
  } else {
    set_region_word(piece, 2u * at, bitcast<u32>(v.x));
    set_region_word(piece, 2u * at + 1u, bitcast<u32>(v.y));
  }
}

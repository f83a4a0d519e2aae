// Biases, rotation and stores behind a fused projection: what add, rope and store do one after the other, to the bit.
//
// Shapes: qkv: [q + 2 kv, n] f32, positions, slots: [n] i32, biases: [q + 2 kv] f32, keys and values: as cache.wgsl says,
// out: [q, n] f32, the rotated query. Threads: each makes a pair of neighbours of the query, the key or the value.
// A negative position or a slot outside `0..n_slots` is reported.
// Generated constants: NEOX, BIAS, F16, PIECES, MAX_X; regions: keys, values. Needs: cos_sin, turn, cache, report.

struct Params {
  node: u32,
  n: u32,
  q_dim: u32,
  n_kv_heads: u32,
  head_dim: u32,
  n_rot: u32,
  block_len: u32,
  n_slots: u32,
  qkv_start: u32,
  positions_start: u32,
  slots_start: u32,
  out_start: u32,
  magnitude: f32,
  piece_blocks: u32,
}

var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> turns: array<u32>;
@group(0) @binding(1) var<storage, read> biases: array<f32>;
@group(0) @binding(2) var<storage, read_write> qkv: array<f32>;
@group(0) @binding(3) var<storage, read_write> positions: array<i32>;
@group(0) @binding(4) var<storage, read_write> slots: array<i32>;
@group(0) @binding(5) var<storage, read_write> out: array<f32>;
@group(0) @binding(6) var<storage, read_write> status: array<atomic<u32>>;

// An element of the projection with its bias.
fn biased(column: u32, i: u32) -> f32 {
  let v = qkv[p.qkv_start + column + i];
  if (BIAS) {
    return v + biases[i];
  }
  return v;
}

// Element `i` of the head that begins at `head_at`, rotated.
fn rotated(column: u32, head_at: u32, i: u32, position: u32) -> f32 {
  if (i >= p.n_rot) {
    return biased(column, head_at + i);
  }
  var pair = i / 2u;
  var first = 2u * pair;
  var second = first + 1u;
  if (NEOX) {
    pair = i % (p.n_rot / 2u);
    first = pair;
    second = pair + p.n_rot / 2u;
  }
  let cs = cos_sin(position, pair) * p.magnitude;
  let turned = turn(biased(column, head_at + first), biased(column, head_at + second), cs);
  return select(turned.y, turned.x, i == first);
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) wg: vec3u, @builtin(local_invocation_index) thread: u32) {
  let kv_dim = p.n_kv_heads * p.head_dim;
  let total = p.q_dim + 2u * kv_dim;
  let item = (wg.x + wg.z * MAX_X) * 64u + thread;
  let t = item / (total / 2u);
  if (t >= p.n) {
    return;
  }
  let element = (item % (total / 2u)) * 2u;
  let column = t * total;
  let position = positions[p.positions_start + t];
  let slot = u32(slots[p.slots_start + t]);
  if (position < 0) {
    report(u32(position));
    return;
  }
  if (slot >= p.n_slots) {
    report(slot);
    return;
  }
  let i = element % p.head_dim;
  if (element >= p.q_dim + kv_dim) {
    let head = (element - p.q_dim - kv_dim) / p.head_dim;
    let v = vec2f(biased(column, element), biased(column, element + 1u));
    write_value(piece_of(slot), value_pair(slot, head, i / 2u), v);
    return;
  }
  let head_at = element - i;
  let v = vec2f(rotated(column, head_at, i, u32(position)), rotated(column, head_at, i + 1u, u32(position)));
  if (element < p.q_dim) {
    out[p.out_start + t * p.q_dim + element] = v.x;
    out[p.out_start + t * p.q_dim + element + 1u] = v.y;
    return;
  }
  write_key(piece_of(slot), key_pair(slot, (element - p.q_dim) / p.head_dim, i / 2u), v);
}

fn write_key(piece: u32, at: u32, v: vec2f) {
  if (F16) {
    set_keys_word(piece, at, pack2x16float(v));
  } else {
    set_keys_word(piece, 2u * at, bitcast<u32>(v.x));
    set_keys_word(piece, 2u * at + 1u, bitcast<u32>(v.y));
  }
}

fn write_value(piece: u32, at: u32, v: vec2f) {
  if (F16) {
    set_values_word(piece, at, pack2x16float(v));
  } else {
    set_values_word(piece, 2u * at, bitcast<u32>(v.x));
    set_values_word(piece, 2u * at + 1u, bitcast<u32>(v.y));
  }
}

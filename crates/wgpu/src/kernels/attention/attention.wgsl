// Causal attention of every query head over the cached positions that its token sees, through the block table.
//
// Shapes: q, out: [n_heads * head_dim, n] f32; keys, values: as cache.wgsl says; table: [blocks_per_seq, sequences] i32;
// seq_rows, kv_lens: [n] i32. Threads: a workgroup of 64 has one head of one token: first each thread has a position of a
// span of 64, then pairs of output elements. Grid: tokens over x and z, heads over y.
// Order, which depends on nothing but the position: spans are counted from position 0; within a span scores are summed by
// element, weights and weighted values by position; spans are merged one after the other.
// Limits: head_dim even, at most 256. What points outside is reported, and then the token's output means nothing.
// Generated constants: F16, PIECES, MAX_X; regions: keys, values. Needs: cache, report.

struct Params {
  node: u32,
  n: u32,
  n_heads: u32,
  n_kv_heads: u32,
  head_dim: u32,
  block_len: u32,
  n_blocks: u32,
  blocks_per_seq: u32,
  n_seqs: u32,
  q_start: u32,
  table_start: u32,
  rows_start: u32,
  lens_start: u32,
  out_start: u32,
  scale: f32,
  piece_blocks: u32,
}

var<immediate> p: Params;
@group(0) @binding(0) var<storage, read_write> q: array<f32>;
@group(0) @binding(1) var<storage, read_write> table: array<i32>;
@group(0) @binding(2) var<storage, read_write> seq_rows: array<i32>;
@group(0) @binding(3) var<storage, read_write> kv_lens: array<i32>;
@group(0) @binding(4) var<storage, read_write> out: array<f32>;
@group(0) @binding(5) var<storage, read_write> status: array<atomic<u32>>;

const SPAN = 64u;

var<workgroup> query: array<f32, 256>;
var<workgroup> scores: array<f32, SPAN>;
var<workgroup> slots: array<u32, SPAN>;
var<workgroup> bounds: vec2u;

fn read_key(piece: u32, at: u32) -> vec2f {
  if (F16) {
    return unpack2x16float(keys_word(piece, at));
  }
  return vec2f(bitcast<f32>(keys_word(piece, 2u * at)), bitcast<f32>(keys_word(piece, 2u * at + 1u)));
}

fn read_value(piece: u32, at: u32) -> vec2f {
  if (F16) {
    return unpack2x16float(values_word(piece, at));
  }
  return vec2f(bitcast<f32>(values_word(piece, 2u * at)), bitcast<f32>(values_word(piece, 2u * at + 1u)));
}

// Column of the table and positions seen, within what there is.
fn checked_bounds(t: u32) -> vec2u {
  let row = u32(seq_rows[p.rows_start + t]);
  let len = u32(kv_lens[p.lens_start + t]);
  if (row >= p.n_seqs) {
    report(row);
    return vec2u(0u, 0u);
  }
  if (len > p.blocks_per_seq * p.block_len) {
    report(len);
    return vec2u(0u, 0u);
  }
  return vec2u(row, len);
}

fn slot_of(row: u32, position: u32) -> u32 {
  let block = u32(table[p.table_start + row * p.blocks_per_seq + position / p.block_len]);
  if (block >= p.n_blocks) {
    report(block);
    return 0u;
  }
  return block * p.block_len + position % p.block_len;
}

fn score(slot: u32, kv_head: u32) -> f32 {
  let piece = piece_of(slot);
  let first = key_pair(slot, kv_head, 0u);
  var sum = vec2f(0.0);
  for (var i = 0u; i < p.head_dim / 2u; i++) {
    sum = fma(vec2f(query[2u * i], query[2u * i + 1u]), read_key(piece, first + i * p.block_len), sum);
  }
  return (sum.x + sum.y) * p.scale;
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) wg: vec3u, @builtin(local_invocation_index) thread: u32) {
  // Workgroups behind the last token work on it once more, and write nothing.
  let t = min(wg.x + wg.z * MAX_X, p.n - 1u);
  let head = wg.y;
  let kv_head = head / (p.n_heads / p.n_kv_heads);
  let q_at = (t * p.n_heads + head) * p.head_dim;
  for (var i = thread; i < p.head_dim; i += 64u) {
    query[i] = q[p.q_start + q_at + i];
  }
  if (thread == 0u) {
    bounds = checked_bounds(t);
  }
  let row_len = workgroupUniformLoad(&bounds);
  let len = row_len.y;
  var most = -3.4e38;
  var weight = 0.0;
  var sums = array<vec2f, 2>(vec2f(0.0), vec2f(0.0));
  for (var first = 0u; first < len; first += SPAN) {
    let n_seen = min(SPAN, len - first);
    if (thread < n_seen) {
      let slot = slot_of(row_len.x, first + thread);
      slots[thread] = slot;
      scores[thread] = score(slot, kv_head);
    }
    workgroupBarrier();
    var span_most = scores[0];
    for (var i = 1u; i < n_seen; i++) {
      span_most = max(span_most, scores[i]);
    }
    workgroupBarrier();
    if (thread < n_seen) {
      scores[thread] = exp(scores[thread] - span_most);
    }
    workgroupBarrier();
    let next_most = max(most, span_most);
    let keep = exp(most - next_most);
    let take = exp(span_most - next_most);
    var span_weight = 0.0;
    for (var i = 0u; i < n_seen; i++) {
      span_weight += scores[i];
    }
    weight = fma(weight, keep, span_weight * take);
    for (var j = 0u; j < 2u; j++) {
      let pair = thread + j * 64u;
      if (pair < p.head_dim / 2u) {
        var span_sum = vec2f(0.0);
        for (var i = 0u; i < n_seen; i++) {
          let v = read_value(piece_of(slots[i]), value_pair(slots[i], kv_head, pair));
          span_sum = fma(vec2f(scores[i]), v, span_sum);
        }
        sums[j] = fma(sums[j], vec2f(keep), span_sum * take);
      }
    }
    most = next_most;
    workgroupBarrier();
  }
  if (wg.x + wg.z * MAX_X < p.n) {
    for (var j = 0u; j < 2u; j++) {
      let pair = thread + j * 64u;
      if (pair < p.head_dim / 2u) {
        let o = select(sums[j] / weight, vec2f(0.0), len == 0u);
        out[p.out_start + q_at + 2u * pair] = o.x;
        out[p.out_start + q_at + 2u * pair + 1u] = o.y;
      }
    }
  }
}

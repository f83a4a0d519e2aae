// out[., t] = row ids[t] of a table of weights.
//
// Shapes: table: rows of `row_bytes` bytes that stand for k elements, ids: [n] i32, out: [k, n] f32. A table that lies in
// several parts is read part by part: this dispatch writes the columns whose id is in `first_row..first_row + n_rows`.
// Threads: each writes 32 elements. An id outside `0..all_rows` is reported and its column left alone.
// Generated constants: MAX_X. Needs: dequant, report.

struct Params {
  node: u32,
  k: u32,
  row_bytes: u32,
  w_start: u32,
  first_row: u32,
  n_rows: u32,
  all_rows: u32,
  n: u32,
  ids_start: u32,
  out_start: u32,
}

var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> w: array<u32>;
@group(0) @binding(1) var<storage, read_write> ids: array<i32>;
@group(0) @binding(2) var<storage, read_write> out: array<f32>;
@group(0) @binding(3) var<storage, read_write> status: array<atomic<u32>>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) wg: vec3u, @builtin(local_invocation_index) thread: u32) {
  let n_groups = (p.k + 31u) / 32u;
  let item = (wg.x + wg.z * MAX_X) * 64u + thread;
  let t = item / n_groups;
  let g = item % n_groups;
  if (t >= p.n) {
    return;
  }
  let id = u32(ids[p.ids_start + t]);
  if (id >= p.all_rows) {
    report(id);
    return;
  }
  if (id < p.first_row || id - p.first_row >= p.n_rows) {
    return;
  }
  let values = dequant(p.w_start + (id - p.first_row) * p.row_bytes, g);
  for (var i = 0u; i < 8u; i++) {
    for (var j = 0u; j < 4u; j++) {
      let at = g * 32u + i * 4u + j;
      if (at < p.k) {
        out[p.out_start + t * p.k + at] = values[i][j];
      }
    }
  }
}

// out[., t] = x[., ids[t]]: columns of a value by index.
//
// Shapes: x: [d, n_columns] f32, ids: [n] i32, out: [d, n] f32. Threads: each writes one element. An id outside
// `0..n_columns` is reported and its column left alone.
// Generated constants: MAX_X. Needs: report.

struct Params {
  node: u32,
  d: u32,
  n_columns: u32,
  n: u32,
  x_start: u32,
  ids_start: u32,
  out_start: u32,
}

var<immediate> p: Params;
@group(0) @binding(0) var<storage, read_write> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> ids: array<i32>;
@group(0) @binding(2) var<storage, read_write> out: array<f32>;
@group(0) @binding(3) var<storage, read_write> status: array<atomic<u32>>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) wg: vec3u, @builtin(local_invocation_index) thread: u32) {
  let item = (wg.x + wg.z * MAX_X) * 64u + thread;
  let t = item / p.d;
  let i = item % p.d;
  if (t >= p.n) {
    return;
  }
  let id = u32(ids[p.ids_start + t]);
  if (id >= p.n_columns) {
    report(id);
    return;
  }
  out[p.out_start + t * p.d + i] = x[p.x_start + id * p.d + i];
}

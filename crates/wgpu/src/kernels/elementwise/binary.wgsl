// out[i] = a[i] OP b[i % b_len].
//
// Shapes: a, out: [n] f32; b: [b_len] f32, n elements or one column that is repeated. Threads: each writes one element.
// Generated: `combine(a, b)`, MAX_X.

struct Params {
  n: u32,
  b_len: u32,
  a_start: u32,
  b_start: u32,
  out_start: u32,
}

var<immediate> p: Params;
@group(0) @binding(0) var<storage, read_write> a: array<f32>;
@group(0) @binding(1) var<storage, B_ACCESS> b: array<f32>;
@group(0) @binding(2) var<storage, read_write> out: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) wg: vec3u, @builtin(local_invocation_index) thread: u32) {
  let i = (wg.x + wg.z * MAX_X) * 64u + thread;
  if (i < p.n) {
    out[p.out_start + i] = combine(a[p.a_start + i], b[p.b_start + i % p.b_len]);
  }
}

// out[i] = OP(x[i]).
//
// Shapes: x, out: [n] f32, which may be the same memory. Threads: each writes one element.
// Generated: `apply(x)`, MAX_X.

struct Params {
  n: u32,
  x_start: u32,
  out_start: u32,
  factor: f32,
}

var<immediate> p: Params;
@group(0) @binding(0) var<storage, read_write> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> out: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) wg: vec3u, @builtin(local_invocation_index) thread: u32) {
  let i = (wg.x + wg.z * MAX_X) * 64u + thread;
  if (i < p.n) {
    out[p.out_start + i] = apply(x[p.x_start + i]);
  }
}

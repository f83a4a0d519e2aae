// Rotates the first n_rot elements of every head by the position of its column, and copies the rest.
//
// Shapes: x and out: [d, n] f32, heads of head_dim elements (even), which may be the same memory; positions: [n] i32.
// Pair i of a head: elements 2i and 2i + 1, or i and i + n_rot / 2 (NEOX). Threads: each writes two elements of a head, a
// pair or two that are copied. A negative position is reported.
// Generated constants: NEOX, MAX_X. Needs: cos_sin, turn, report.

struct Params {
  node: u32,
  d: u32,
  n: u32,
  head_dim: u32,
  n_rot: u32,
  x_start: u32,
  positions_start: u32,
  out_start: u32,
  magnitude: f32,
}

var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> turns: array<u32>;
@group(0) @binding(1) var<storage, read_write> x: array<f32>;
@group(0) @binding(2) var<storage, read_write> positions: array<i32>;
@group(0) @binding(3) var<storage, read_write> out: array<f32>;
@group(0) @binding(4) var<storage, read_write> status: array<atomic<u32>>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) wg: vec3u, @builtin(local_invocation_index) thread: u32) {
  let item = (wg.x + wg.z * MAX_X) * 64u + thread;
  let t = item / (p.d / 2u);
  if (t >= p.n) {
    return;
  }
  let head = (item % (p.d / 2u)) / (p.head_dim / 2u);
  let i = item % (p.head_dim / 2u);
  let position = positions[p.positions_start + t];
  if (position < 0) {
    report(u32(position));
    return;
  }
  let at = t * p.d + head * p.head_dim;
  if (i >= p.n_rot / 2u) {
    out[p.out_start + at + 2u * i] = x[p.x_start + at + 2u * i];
    out[p.out_start + at + 2u * i + 1u] = x[p.x_start + at + 2u * i + 1u];
    return;
  }
  var first = at + 2u * i;
  var second = first + 1u;
  if (NEOX) {
    first = at + i;
    second = first + p.n_rot / 2u;
  }
  let turned = turn(x[p.x_start + first], x[p.x_start + second], cos_sin(u32(position), i) * p.magnitude);
  out[p.out_start + first] = turned.x;
  out[p.out_start + second] = turned.y;
}

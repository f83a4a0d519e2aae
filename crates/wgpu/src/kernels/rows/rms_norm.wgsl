// out = x / sqrt(mean(x^2) + eps) * weight, for every stretch of d elements.
//
// Shapes: x and out: `n_columns` columns of `per_column` stretches of d elements, `x_stride` and `out_stride` elements a
// column; weights: [d] f32, the second for stretches of a column from `n_first` on. `x` and `out` may be the same memory. A
// stretch is a whole column for RMSNorm, a head for QkNorm; behind a fused projection those of the query come first, then
// those of the key. Threads: a workgroup of 64 has one stretch. Order of additions, which depends on nothing but d: thread
// i adds the squares of elements i, i + 64, ...; the 64 sums are added in a tree.
// Generated constants: MAX_X.

struct Params {
  d: u32,
  per_column: u32,
  n_columns: u32,
  n_first: u32,
  x_start: u32,
  x_stride: u32,
  out_start: u32,
  out_stride: u32,
  eps: f32,
}

var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> weight: array<f32>;
@group(0) @binding(1) var<storage, read> second_weight: array<f32>;
@group(0) @binding(2) var<storage, read_write> x: array<f32>;
@group(0) @binding(3) var<storage, read_write> out: array<f32>;

var<workgroup> sums: array<f32, 64>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) wg: vec3u, @builtin(local_invocation_index) thread: u32) {
  // Workgroups behind the last work on it once more, and write nothing.
  let item = wg.x + wg.z * MAX_X;
  let last = p.per_column * p.n_columns - 1u;
  let stretch = min(item, last);
  let column = stretch / p.per_column;
  let place = stretch % p.per_column;
  let offset = place * p.d;
  let from_at = p.x_start + column * p.x_stride + offset;
  let to_at = p.out_start + column * p.out_stride + offset;
  var sum = 0.0;
  for (var i = thread; i < p.d; i += 64u) {
    let v = x[from_at + i];
    sum = fma(v, v, sum);
  }
  sums[thread] = sum;
  for (var half = 32u; half > 0u; half /= 2u) {
    workgroupBarrier();
    if (thread < half) {
      sums[thread] += sums[thread + half];
    }
  }
  workgroupBarrier();
  let scale = 1.0 / sqrt(sums[0] / f32(p.d) + p.eps);
  if (item <= last) {
    for (var i = thread; i < p.d; i += 64u) {
      let w = select(weight[i], second_weight[i], place >= p.n_first);
      out[to_at + i] = (x[from_at + i] * scale) * w;
    }
  }
}

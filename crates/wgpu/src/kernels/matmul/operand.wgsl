// Activations, and the sum of one group: the arithmetic that every product shares, whoever computes it.
//
// Order of additions, which depends on nothing but k, for one element of the result: the 32 products of a group go into four
// sums by their place modulo 4, each with fused multiply-adds in order; the four are added in pairs; four groups make a
// quad, added in pairs, groups behind the last being 0; quads are added one after the other, from 0.
// Generated constant: TAIL (k is no multiple of 32). Needs: `x`, `p.k`.

fn load_x(column: u32, at: u32) -> vec4f {
  let i = column + at;
  if (TAIL) {
    return vec4f(
      select(0.0, x[i], at < p.k), select(0.0, x[i + 1u], at + 1u < p.k),
      select(0.0, x[i + 2u], at + 2u < p.k), select(0.0, x[i + 3u], at + 3u < p.k));
  }
  return vec4f(x[i], x[i + 1u], x[i + 2u], x[i + 3u]);
}

fn add_up(s: vec4f) -> f32 {
  return (s.x + s.y) + (s.z + s.w);
}

fn group_sum(weights: array<vec4f, 8>, column: u32, g: u32) -> f32 {
  var q = weights;
  var sum = vec4f(0.0);
  for (var i = 0u; i < 8u; i++) {
    sum = fma(q[i], load_x(column, g * 32u + i * 4u), sum);
  }
  return add_up(sum);
}

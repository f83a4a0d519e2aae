// Sine and cosine of `position * frequency`, as exact for late positions as for early ones.
//
// Frequencies are fractions of a turn per position, as fixed-point numbers of 64 bits: `turns[2 i]` has the upper 32 bits,
// `turns[2 i + 1]` the lower. Whole turns fall off at the top, so what is left is exact to 2^-32 of a turn.
// Needs: `turns` (array<u32>).

// The upper half of the product.
fn mul_high(a: u32, b: u32) -> u32 {
  let a_low = a & 0xffffu;
  let b_low = b & 0xffffu;
  let middle = (a >> 16u) * b_low + ((a_low * b_low) >> 16u);
  let other = a_low * (b >> 16u) + (middle & 0xffffu);
  return (a >> 16u) * (b >> 16u) + (middle >> 16u) + (other >> 16u);
}

// (cos, sin) of pair `i` at `position`.
fn cos_sin(position: u32, i: u32) -> vec2f {
  let phase = position * turns[2u * i] + mul_high(position, turns[2u * i + 1u]);
  let quarter = (phase + 0x20000000u) >> 30u;
  // Within an eighth of a turn to either side of the nearest quarter.
  let a = f32(bitcast<i32>(phase - (quarter << 30u))) * 1.4629180792671596e-9;
  let b = a * a;
  let s = fma(a * b, fma(b, fma(b, fma(b, 2.7557319e-6, -1.9841270e-4), 8.3333333e-3), -1.6666667e-1), a);
  let c = fma(b, fma(b, fma(b, fma(b, fma(b, -2.7557319e-7, 2.4801587e-5), -1.3888889e-3), 4.1666667e-2), -0.5), 1.0);
  switch (quarter) {
    case 0u: { return vec2f(c, s); }
    case 1u: { return vec2f(-s, c); }
    case 2u: { return vec2f(-c, -s); }
    default: { return vec2f(s, -c); }
  }
}

// The two elements of a pair, turned.
fn turn(a: f32, b: f32, cs: vec2f) -> vec2f {
  return vec2f(fma(a, cs.x, -(b * cs.y)), fma(a, cs.y, b * cs.x));
}

// Of each column the place of an element, as a number, and the element: the first that is NaN or positive infinity; without one,
// the largest, the first among equals.
//
// Shapes: x: [d, n] f32, d at most 2^24; out: [2, n] f32. Threads: a workgroup of 64 has one column; thread i looks at elements
// i, i + 64, ...; what they found is compared in a tree. Elements are compared as integers in the order of the numbers, since
// a device may take for granted that there is no NaN.
// Generated constants: MAX_X.

struct Params {
  d: u32,
  n: u32,
  x_start: u32,
  out_start: u32,
}

var<immediate> p: Params;
@group(0) @binding(0) var<storage, read_write> x: array<u32>;
@group(0) @binding(1) var<storage, read_write> out: array<u32>;

// Key and place of the best that a thread has seen.
var<workgroup> seen: array<vec2u, 64>;

// Larger for larger numbers, equal for zeros of both signs, the largest for what is no finite number and not negative infinity;
// never 0.
fn key(bits: u32) -> u32 {
  let size = bits & 0x7fffffffu;
  if (size > 0x7f800000u || bits == 0x7f800000u) {
    return 0xffffffffu;
  }
  if (bits == size || size == 0u) {
    return size | 0x80000000u;
  }
  return ~bits;
}

fn better(a: vec2u, b: vec2u) -> vec2u {
  let takes_b = b.x > a.x || (b.x == a.x && b.y < a.y);
  return select(a, b, takes_b);
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) wg: vec3u, @builtin(local_invocation_index) thread: u32) {
  // Workgroups behind the last column work on it once more, and write nothing.
  let item = wg.x + wg.z * MAX_X;
  let column = p.x_start + min(item, p.n - 1u) * p.d;
  var best = vec2u(0u, 0xffffffffu);
  for (var i = thread; i < p.d; i += 64u) {
    best = better(best, vec2u(key(x[column + i]), i));
  }
  seen[thread] = best;
  for (var half = 32u; half > 0u; half /= 2u) {
    workgroupBarrier();
    if (thread < half) {
      seen[thread] = better(seen[thread], seen[thread + half]);
    }
  }
  if (thread == 0u && item < p.n) {
    let place = seen[0].y;
    out[p.out_start + 2u * item] = bitcast<u32>(f32(place));
    out[p.out_start + 2u * item + 1u] = x[column + place];
  }
}

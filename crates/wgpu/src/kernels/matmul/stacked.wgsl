// As matmul.wgsl, for matrices of one type whose rows follow one another in the result: query, key and value.
//
// Shapes: w, w1, w2: `end0`, `end1 - end0` and `end2 - end1` rows of `row_bytes` bytes; two matrices have `end2 = end1`.
// x: [k, n_cols] f32, out: [end2, n_cols] f32 with `out_stride` elements a column.
// Generated constants: MAX_X, and those of few.wgsl. Needs: product.

struct Params {
  k: u32,
  row_bytes: u32,
  w_start: u32,
  w1_start: u32,
  w2_start: u32,
  end0: u32,
  end1: u32,
  end2: u32,
  n_cols: u32,
  x_start: u32,
  x_stride: u32,
  out_start: u32,
  out_stride: u32,
}

var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> w: array<u32>;
@group(0) @binding(1) var<storage, read> w1: array<u32>;
@group(0) @binding(2) var<storage, read> w2: array<u32>;
@group(0) @binding(3) var<storage, read_write> x: array<f32>;
@group(0) @binding(4) var<storage, read_write> out: array<f32>;

// The matrix that the thread's row is in.
var<private> matrix: u32;

fn word(i: u32) -> u32 {
  switch matrix {
    case 0u: { return w[i]; }
    case 1u: { return w1[i]; }
    default: { return w2[i]; }
  }
}

// Chooses the matrix of a row; gives the byte where the row begins in it.
fn find_row(row: u32) -> u32 {
  if (row < p.end0) {
    matrix = 0u;
    return p.w_start + row * p.row_bytes;
  }
  if (row < p.end1) {
    matrix = 1u;
    return p.w1_start + (row - p.end0) * p.row_bytes;
  }
  matrix = 2u;
  return p.w2_start + (row - p.end1) * p.row_bytes;
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) wg: vec3u, THREAD_INPUTS) {
  let thread = THREAD_INDEX;
  let first_row = (wg.x + wg.z * MAX_X) * ROWS;
  let first_col = wg.y * COLS;
  let row_at = find_row(min(first_row + thread / LANES, p.end2 - 1u));
  let total = product(row_at, first_col, thread);
  let row = first_row + thread / COLS;
  let col = first_col + thread % COLS;
  if (thread < ROWS * COLS && row < p.end2 && col < p.n_cols) {
    out[p.out_start + col * p.out_stride + row] = total;
  }
}

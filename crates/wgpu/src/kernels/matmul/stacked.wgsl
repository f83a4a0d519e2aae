// As matmul.wgsl, for matrices of one type whose rows follow one another in the result: query, key and value.
//
// Shapes: w, w1, w2: rows of `row_bytes` bytes, rows `0..w1_row`, `w1_row..w2_row` and `w2_row..n_rows` of the result; of two
// matrices the third has none. x: [k, n_cols] f32, out: [n_rows, n_cols] f32 with `out_stride` elements a column.
// Generated constants: MAX_X, and those of few.wgsl. Needs: params, product.

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
  if (row < p.w1_row) {
    matrix = 0u;
    return p.w_start + row * p.row_bytes;
  }
  if (row < p.w2_row) {
    matrix = 1u;
    return p.w1_start + (row - p.w1_row) * p.row_bytes;
  }
  matrix = 2u;
  return p.w2_start + (row - p.w2_row) * p.row_bytes;
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) wg: vec3u, THREAD_INPUTS) {
  let thread = THREAD_INDEX;
  let first_row = (wg.x + wg.z * MAX_X) * ROWS;
  let first_col = wg.y * COLS;
  let row_at = find_row(min(first_row + thread / LANES, p.n_rows - 1u));
  let total = product(row_at, first_col, thread);
  let row = first_row + thread / COLS;
  let col = first_col + thread % COLS;
  if (thread < ROWS * COLS && row < p.n_rows && col < p.n_cols) {
    out[p.out_start + col * p.out_stride + row] = total;
  }
}

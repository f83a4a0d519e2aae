// out[row, col] = sum over k of w[row, k] x[k, col], for a few columns: decode steps.
//
// Shapes: w: rows of `row_bytes` bytes, x: [k, n_cols] f32 with `x_stride` elements a column, out: [rows, n_cols] f32 with
// `out_stride` elements a column. Writes every element of rows `0..n_rows` of columns `0..n_cols`.
// Threads and order of additions: few.wgsl, operand.wgsl. Grid: row tiles over x and z, column tiles over y.
// Generated constants: MAX_X, and those of few.wgsl. Needs: params, product.

@group(0) @binding(1) var<storage, read_write> x: array<f32>;
@group(0) @binding(2) var<storage, read_write> out: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) wg: vec3u, THREAD_INPUTS) {
  let thread = THREAD_INDEX;
  let first_row = (wg.x + wg.z * MAX_X) * ROWS;
  let first_col = wg.y * COLS;
  // Rows behind the last are worked on once more, and not written.
  let row_at = p.w_start + min(first_row + thread / LANES, p.n_rows - 1u) * p.row_bytes;
  let total = product(row_at, first_col, thread);
  let row = first_row + thread / COLS;
  let col = first_col + thread % COLS;
  if (thread < ROWS * COLS && row < p.n_rows && col < p.n_cols) {
    out[p.out_start + col * p.out_stride + row] = total;
  }
}

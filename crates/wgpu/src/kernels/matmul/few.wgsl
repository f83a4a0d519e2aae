// The products of a workgroup's rows with a few columns.
//
// A workgroup of 64 has ROWS rows and COLS columns; LANES threads share a row. Weights go from memory straight into sums.
// Generated constants: LANES (at least 4, a power of two), ROWS (64 / LANES), COLS (at most LANES).
// Needs: quads, `p.k`, `p.n_cols`, `p.x_start`, `p.x_stride`.

var<workgroup> parts: array<f32, 64 * COLS>;

// Gives thread `row * COLS + column` of the workgroup its element; `row_at` is the byte of the row of thread / LANES.
fn product(row_at: u32, first_col: u32, thread: u32) -> f32 {
  let n_groups = (p.k + 31u) / 32u;
  var columns: array<u32, COLS>;
  for (var c = 0u; c < COLS; c++) {
    columns[c] = p.x_start + min(first_col + c, p.n_cols - 1u) * p.x_stride;
  }
  var total = 0.0;
  for (var first = 0u; first < n_groups; first += 4u * LANES) {
    quads(row_at, columns, first, n_groups, thread);
    workgroupBarrier();
    if (thread < ROWS * COLS) {
      for (var i = 0u; i < min(LANES, (n_groups - first + 3u) / 4u); i++) {
        total += parts[i * ROWS * COLS + thread];
      }
    }
    workgroupBarrier();
  }
  return total;
}

// out[row, col] = sum over k of w[row, k] x[k, col], for any number of columns: decode steps and prompts alike.
//
// Shapes: w: rows of `row_bytes` bytes, x: [k, n_cols] f32 with `x_stride` elements a column, out: [rows, n_cols] f32 with
// `out_stride` elements a column. Writes every element of rows `0..n_rows` of columns `0..n_cols`.
// Threads: a workgroup of 64 has ROWS rows and COLS columns; each thread dequantizes a stretch of 128 elements of one row
// and multiplies it with all columns. Grid: row tiles over x and z, column tiles over y.
// Order of additions, which depends on nothing but k: four sums by the place of an element modulo 4 within a stretch, these
// four added in pairs, stretches added one after the other.
// Generated constants: LANES (stretches at once), ROWS (64 / LANES), COLS, TAIL (k is no multiple of 32), MAX_X.
// Needs: dequant.

struct Params {
  k: u32,
  row_bytes: u32,
  w_start: u32,    // byte of the first row in its binding
  n_rows: u32,
  n_cols: u32,
  x_start: u32,
  x_stride: u32,
  out_start: u32,
  out_stride: u32,
}

var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> w: array<u32>;
@group(0) @binding(1) var<storage, read_write> x: array<f32>;
@group(0) @binding(2) var<storage, read_write> out: array<f32>;

var<workgroup> parts: array<f32, 64 * COLS>;

fn load_x(column: u32, at: u32) -> vec4f {
  let i = column + at;
  if (TAIL) {
    return vec4f(
      select(0.0, x[i], at < p.k), select(0.0, x[i + 1u], at + 1u < p.k),
      select(0.0, x[i + 2u], at + 2u < p.k), select(0.0, x[i + 3u], at + 3u < p.k));
  }
  return vec4f(x[i], x[i + 1u], x[i + 2u], x[i + 3u]);
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) wg: vec3u, @builtin(local_invocation_index) thread: u32) {
  let first_row = (wg.x + wg.z * MAX_X) * ROWS;
  let row = first_row + thread / LANES;
  let lane = thread % LANES;
  let first_col = wg.y * COLS;
  let n_stretches = (p.k + 127u) / 128u;
  let row_at = p.w_start + row * p.row_bytes;
  var columns: array<u32, COLS>;
  for (var c = 0u; c < COLS; c++) {
    columns[c] = p.x_start + min(first_col + c, p.n_cols - 1u) * p.x_stride;
  }
  var total = 0.0;
  for (var first = 0u; first < n_stretches; first += LANES) {
    let stretch = first + lane;
    if (row < p.n_rows && stretch < n_stretches) {
      var sums: array<vec4f, COLS>;
      for (var g = stretch * 4u; g < min(stretch * 4u + 4u, (p.k + 31u) / 32u); g++) {
        let q = dequant(row_at, g);
        for (var c = 0u; c < COLS; c++) {
          for (var i = 0u; i < 8u; i++) {
            sums[c] = fma(q[i], load_x(columns[c], g * 32u + i * 4u), sums[c]);
          }
        }
      }
      for (var c = 0u; c < COLS; c++) {
        let s = sums[c];
        parts[((thread / LANES) * COLS + c) * LANES + lane] = (s.x + s.y) + (s.z + s.w);
      }
    }
    workgroupBarrier();
    if (thread < ROWS * COLS) {
      for (var i = 0u; i < min(LANES, n_stretches - first); i++) {
        total += parts[thread * LANES + i];
      }
    }
    workgroupBarrier();
  }
  let out_row = first_row + thread / COLS;
  let out_col = first_col + thread % COLS;
  if (thread < ROWS * COLS && out_row < p.n_rows && out_col < p.n_cols) {
    out[p.out_start + out_col * p.out_stride + out_row] = total;
  }
}

// out = silu(w x) * (w1 x), for two matrices of one type and size: gate and up of a feed-forward network.
//
// Shapes: w, w1: rows of `row_bytes` bytes, x: [k, n_cols] f32, out: [n_rows, n_cols] f32.
// The workgroup makes an element of the one product, then of the other, as matmul.wgsl does.
// Generated constants: MAX_X, and those of few.wgsl. Needs: params, product, silu.

@group(0) @binding(1) var<storage, read> w1: array<u32>;
@group(0) @binding(2) var<storage, read_write> x: array<f32>;
@group(0) @binding(3) var<storage, read_write> out: array<f32>;

var<private> is_up: bool;

fn word(i: u32) -> u32 {
  if (is_up) {
    return w1[i];
  }
  return w[i];
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) wg: vec3u, THREAD_INPUTS) {
  let thread = THREAD_INDEX;
  let first_row = (wg.x + wg.z * MAX_X) * ROWS;
  let first_col = wg.y * COLS;
  let offset = min(first_row + thread / LANES, p.n_rows - 1u) * p.row_bytes;
  is_up = false;
  let gate = product(p.w_start + offset, first_col, thread);
  is_up = true;
  let up = product(p.w1_start + offset, first_col, thread);
  let row = first_row + thread / COLS;
  let col = first_col + thread % COLS;
  if (thread < ROWS * COLS && row < p.n_rows && col < p.n_cols) {
    out[p.out_start + col * p.out_stride + row] = silu(gate) * up;
  }
}

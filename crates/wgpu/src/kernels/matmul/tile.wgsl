// As matmul.wgsl, for many columns: prompts. Every weight is dequantized once for 16 columns.
//
// Shapes: as there. A workgroup of 64 has a tile of 64 rows and 16 columns and walks along k by groups of 32: each thread
// dequantizes a group of one row into workgroup memory, all load the activations beside it, and each thread adds to 4 x 4
// elements of the tile. Grid: row tiles over x and z, column tiles over y.
// Order of additions: operand.wgsl, to the bit.
// Generated constants: TAIL, MAX_X. Needs: params, dequant, load_x, add_up.

@group(0) @binding(1) var<storage, read_write> x: array<f32>;
@group(0) @binding(2) var<storage, read_write> out: array<f32>;

// By fours along k, then rows, or columns.
var<workgroup> rows: array<vec4f, 8 * 64>;
var<workgroup> columns: array<vec4f, 8 * 16>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) wg: vec3u, @builtin(local_invocation_index) thread: u32) {
  let first_row = (wg.x + wg.z * MAX_X) * 64u;
  let first_col = wg.y * 16u;
  // Rows and columns behind the last are worked on once more, and not written.
  let row_at = p.w_start + min(first_row + thread, p.n_rows - 1u) * p.row_bytes;
  let column_at = p.x_start + min(first_col + thread % 16u, p.n_cols - 1u) * p.x_stride;
  let own_row = thread % 16u;
  let own_col = (thread / 16u) * 4u;
  var left: array<f32, 16>;
  var right: array<f32, 16>;
  var totals: array<f32, 16>;
  let n_groups = (p.k + 31u) / 32u;
  for (var g = 0u; g < n_groups; g++) {
    var weights = dequant(row_at, g);
    for (var i = 0u; i < 8u; i++) {
      rows[i * 64u + thread] = weights[i];
    }
    for (var i = thread / 16u; i < 8u; i += 4u) {
      columns[i * 16u + thread % 16u] = load_x(column_at, g * 32u + i * 4u);
    }
    workgroupBarrier();
    var sums: array<vec4f, 16>;
    for (var i = 0u; i < 8u; i++) {
      for (var c = 0u; c < 4u; c++) {
        let v = columns[i * 16u + own_col + c];
        for (var r = 0u; r < 4u; r++) {
          sums[c * 4u + r] = fma(rows[i * 64u + own_row + r * 16u], v, sums[c * 4u + r]);
        }
      }
    }
    workgroupBarrier();
    for (var e = 0u; e < 16u; e++) {
      let sum = add_up(sums[e]);
      if (g % 4u < 2u) {
        left[e] += sum;
      } else {
        right[e] += sum;
      }
    }
    if (g % 4u == 3u || g + 1u == n_groups) {
      for (var e = 0u; e < 16u; e++) {
        totals[e] += left[e] + right[e];
        left[e] = 0.0;
        right[e] = 0.0;
      }
    }
  }
  for (var e = 0u; e < 16u; e++) {
    let row = first_row + own_row + (e % 4u) * 16u;
    let col = first_col + own_col + e / 4u;
    if (row < p.n_rows && col < p.n_cols) {
      out[p.out_start + col * p.out_stride + row] = totals[e];
    }
  }
}

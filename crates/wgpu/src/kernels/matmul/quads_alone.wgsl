// Quads of LANES lanes for COLS columns, each lane with a quad of its own: for devices without subgroup operations, and the
// definition that `quads_shared.wgsl` is tested against. Needs: dequant, group_sum, `parts`.

fn quads(row_at: u32, columns: array<u32, COLS>, first: u32, n_groups: u32, thread: u32) {
  let row = thread / LANES;
  let lane = thread % LANES;
  var column = columns;
  var left: array<f32, COLS>;
  var right: array<f32, COLS>;
  for (var i = 0u; i < 4u; i++) {
    let g = first + lane * 4u + i;
    if (g < n_groups) {
      let weights = dequant(row_at, g);
      for (var c = 0u; c < COLS; c++) {
        let sum = group_sum(weights, column[c], g);
        if (i < 2u) {
          left[c] += sum;
        } else {
          right[c] += sum;
        }
      }
    }
  }
  for (var c = 0u; c < COLS; c++) {
    parts[lane * ROWS * COLS + row * COLS + c] = left[c] + right[c];
  }
}

// Quads of LANES lanes for COLS columns, four neighbouring lanes to a quad, a group each: neighbours read neighbouring bytes,
// and pass their sums to one another within the subgroup. Subgroups may have any width that is a multiple of 4.
// Needs: dequant, group_sum, `parts`.

fn quads(row_at: u32, columns: array<u32, COLS>, first: u32, n_groups: u32, thread: u32) {
  let row = thread / LANES;
  let lane = thread % LANES;
  var column = columns;
  for (var round = 0u; round < 4u; round++) {
    let from_group = first + round * LANES;
    if (from_group >= n_groups) {
      break;
    }
    // Lanes behind the last group work on it once more, since all of a subgroup have to take part.
    let g = min(from_group + lane, n_groups - 1u);
    let weights = dequant(row_at, g);
    for (var c = 0u; c < COLS; c++) {
      var sum = select(0.0, group_sum(weights, column[c], g), from_group + lane < n_groups);
      sum += subgroupShuffleXor(sum, 1u);
      sum += subgroupShuffleXor(sum, 2u);
      if (lane % 4u == 0u) {
        parts[((round * LANES + lane) / 4u) * ROWS * COLS + row * COLS + c] = sum;
      }
    }
  }
}

// What every product takes, and the matrix that every product reads.

struct Params {
  k: u32,          // elements of a row
  row_bytes: u32,
  n_rows: u32,     // of the result
  n_cols: u32,
  x_start: u32,
  x_stride: u32,   // elements of a column
  out_start: u32,
  out_stride: u32,
  w_start: u32,    // byte of the first row in its binding
  w1_start: u32,   // the same of a second and a third matrix, where a kernel has them
  w2_start: u32,
  w1_row: u32,     // row of the result that the second, and the third begins with, where they follow one another
  w2_row: u32,
}

var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> w: array<u32>;


// The arithmetic of one element, written once, so that fused kernels have the same bits as their parts.

fn silu(v: f32) -> f32 {
  return v / (1.0 + exp(-v));
}

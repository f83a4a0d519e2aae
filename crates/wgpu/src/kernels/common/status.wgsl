// Where a kernel says that an input points outside. Needs: `status` (array<atomic<u32>>, bound by the kernel) and `p.node`.
//
// status[0] is 0, or 1 + the place in the step of the first node that found something; status[1] is the value it found.
// Dispatches run one after the other, so only the first node that finds something says so.

fn report(value: u32) {
  if (atomicLoad(&status[0]) == 0u) {
    atomicStore(&status[1], value);
    atomicMax(&status[0], p.node + 1u);
  }
}

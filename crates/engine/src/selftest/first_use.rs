//! What a device has to show before a model runs on it.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use minfer_gguf::TensorType;
use minfer_graph::{Backend, BackendDriver, Compiled, OpKind, kernel_dtypes};

use super::wanted::Wanted;
use super::{Device, Outcome, test};
use crate::error::EngineError;

/// Kernels that have passed in this process: device, op and type.
static PASSED: Mutex<BTreeSet<(String, OpKind, TensorType)>> = Mutex::new(BTreeSet::new());

/// Tests every kernel that these graphs use on `driver` and that this process has not tested on it yet; the error names the
/// first that fails.
pub(crate) fn first_use(driver: &Arc<dyn BackendDriver>, graphs: &[Compiled]) -> Result<(), EngineError> {
    let name = driver.describe();
    let used = graphs.iter().flat_map(|compiled| kernels(compiled, driver.backend()));
    let mut new: BTreeSet<(OpKind, TensorType)> = used.collect();
    {
        let passed = PASSED.lock().unwrap_or_else(PoisonError::into_inner);
        new.retain(|(kind, dtype)| !passed.contains(&(name.clone(), *kind, *dtype)));
    }
    if new.is_empty() {
        return Ok(());
    }
    let wanted = Wanted { kernel: &|kind, dtype| new.contains(&(kind, dtype)), quick: true };
    let device = Device { name: name.clone(), driver: driver.clone() };
    for result in test(&[device], &wanted, &mut |_, _| {})? {
        if let Outcome::Failed { first, .. } = result.outcome {
            let (op, dtype) = (result.op, result.dtype);
            return Err(EngineError::SelfTest { device: name, op, dtype, what: first });
        }
    }
    let mut passed = PASSED.lock().unwrap_or_else(PoisonError::into_inner);
    passed.extend(new.into_iter().map(|(kind, dtype)| (name.clone(), kind, dtype)));
    Ok(())
}

/// What a graph runs on a backend.
fn kernels(compiled: &Compiled, backend: Backend) -> BTreeSet<(OpKind, TensorType)> {
    let splits = compiled.splits.iter().filter(|split| split.backend == backend);
    let nodes = splits.flat_map(|split| &split.nodes).map(|id| compiled.graph.node(*id));
    let kv = compiled.params.cparams.kv_type;
    let of_node = |node| kernel_dtypes(node, kv).into_iter().map(move |dtype| (node.op.kind(), dtype));
    nodes.flat_map(of_node).collect()
}

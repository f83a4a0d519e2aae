//! A model file as the source of weights.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use minfer_gguf::{Gguf, MappedBytes};
use minfer_graph::{WeightData, WeightSource};

static NEXT_VERSION: AtomicU64 = AtomicU64::new(1);

/// A version that no other weights of this process have.
pub(crate) fn next_version() -> u64 {
    NEXT_VERSION.fetch_add(1, Ordering::Relaxed)
}

/// Weights of an open file; every loaded model has a version of its own.
pub(crate) struct FileWeights {
    file: Arc<Gguf>,
    version: u64,
    origin: Option<Vec<u8>>,
}

impl FileWeights {
    pub(crate) fn new(file: Arc<Gguf>) -> Self {
        FileWeights { origin: file.identity(), file, version: next_version() }
    }
}

impl WeightSource for FileWeights {
    fn version(&self) -> u64 {
        self.version
    }

    fn weight(&self, name: &str) -> Option<WeightData<'_>> {
        let tensor = self.file.tensor(name)?;
        let mut shape = [1; 4];
        for (to, from) in shape.iter_mut().zip(&tensor.shape) {
            *to = *from;
        }
        Some(WeightData { dtype: tensor.dtype, shape, bytes: self.file.data(tensor) })
    }

    fn origin(&self) -> Option<&[u8]> {
        self.origin.as_deref()
    }

    fn mapped(&self, name: &str) -> Option<MappedBytes> {
        self.file.mapped(self.file.tensor(name)?)
    }

    fn release(&self, name: &str, bytes: Range<usize>) {
        if let Some(tensor) = self.file.tensor(name) {
            self.file.release(tensor, bytes);
        }
    }
}

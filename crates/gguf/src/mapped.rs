//! A file that stays mapped, for devices that read it in place.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use crate::mapping::Mapping;

/// The map of one file of a model. The pages stay where they are, readable and never written to by this process, for as long
/// as any clone of this lives, whatever becomes of the model. A file that another program cuts short meanwhile takes its pages
/// away all the same: reading them is then a fault of the processor, or of the device.
#[derive(Clone)]
pub struct MappedFile(Arc<Mapping>);

/// Where a tensor's bytes lie in a mapped file.
#[derive(Clone, Debug)]
pub struct MappedBytes {
    /// The file.
    pub file: MappedFile,
    /// Bytes of it.
    pub range: Range<usize>,
}

impl MappedFile {
    pub(crate) fn new(mapping: Arc<Mapping>) -> Self {
        MappedFile(mapping)
    }

    /// The file's bytes. They begin where a page of memory begins.
    pub fn bytes(&self) -> &[u8] {
        self.0.bytes()
    }

    /// Bytes in whole pages, from the first byte of the file on: what lies behind its end, in its last page, is readable and
    /// zero. `None` where the system does not say how large a page is.
    pub fn page_len(&self) -> Option<usize> {
        self.0.page_len()
    }

    /// Whether both are the same map.
    pub fn is(&self, other: &MappedFile) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for MappedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MappedFile({} bytes)", self.bytes().len())
    }
}

//! Packed weights kept on disk from one process to the next.
//!
//! Packing a matrix costs reading it, rearranging it, and as much new memory; a start is mostly that. A second start of the
//! same model finds the packed bytes in a file and maps it: nothing is rearranged, the memory is the page cache's, which all
//! processes share and the system can take back.
//!
//! - **Which file.** Its name is a digest of the origin of the weights (the model file's device, number, size and times of
//!   change), of the layout of panels, and of the list of matrices. So a file that is there fits, or is not found.
//! - **Whether it is whole.** Every 2 MiB have a checksum, all of which are checked while the pages are touched for the first
//!   time. A file that fails is removed with a warning, and the weights are packed again.
//! - **When it is written.** Beside the first load, under a temporary name, and renamed when complete: a kill leaves either
//!   the whole file or a temporary one, which a later start removes.
//! - **How much.** Files that were not used for longest go when all together would pass the limit, and none is written that
//!   takes more than a quarter of the free disk space.
//! - **How it is read.** In place where the system has it on huge pages, which is what products need to read at full speed;
//!   elsewhere it is copied into memory that has them. A file of which some is on huge pages had them all when it was written,
//!   and lost them as the system took pages back: it is written again, for the next start.
//!
//! The bytes are those that packing gives, so no result depends on any of it.

mod contents;
mod file;
mod folder;
mod mapping;

use std::path::PathBuf;
use std::sync::Arc;

use minfer_gguf::TensorType;
use minfer_graph::LoadNote;

use self::contents::Contents;
pub(crate) use self::contents::Matrix;
use self::file::{OpenError, Writer};
pub use self::mapping::FilePart;
use self::mapping::MappedFile;
use crate::pool::Pool;

/// Where packed weights are kept, and how many.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackedCacheOptions {
    /// The folder; made if it is not there.
    pub folder: PathBuf,
    /// Most bytes of all files in it; a model that takes more is not kept.
    pub max_bytes: u64,
    /// A model that takes fewer bytes is not kept: it is packed as fast as found.
    pub min_bytes: u64,
}

impl PackedCacheOptions {
    /// Packed as fast as a file of this size is opened and checked.
    pub const MIN_BYTES: u64 = 32 << 20;
}

/// What is kept of the weights that are being loaded.
#[derive(Default)]
pub(crate) struct Keeper {
    options: Option<PackedCacheOptions>,
    load: Option<Load>,
    notes: Vec<LoadNote>,
}

/// The matrices of one load.
struct Load {
    contents: Contents,
    path: PathBuf,
    /// The file, if there is one.
    found: Option<Arc<MappedFile>>,
    in_place: bool,
    /// Where it is being written, if it is.
    writer: Option<Writer>,
}

/// From this share on huge pages a file is used where it is: at 87 % generation was 6 % slower than from memory.
const MOSTLY_HUGE: f64 = 0.95;

/// From this share on the file system can give huge pages.
const SOME_HUGE: f64 = 0.05;

/// Packed bytes that were kept.
pub(crate) enum Found {
    /// To be used where they are.
    InPlace(FilePart),
    /// To be copied into memory.
    Copy(FilePart),
}

impl Keeper {
    pub(crate) fn new(options: Option<PackedCacheOptions>) -> Keeper {
        Keeper { options: options.filter(|o| o.max_bytes > 0), ..Keeper::default() }
    }

    /// Looks for a file with these matrices, or starts to write one.
    pub(crate) fn begin(&mut self, origin: Option<&[u8]>, matrices: &[Matrix<'_>], pool: &Pool) {
        self.load = None;
        let (Some(options), Some(origin)) = (self.options.clone(), origin) else { return };
        let Some(contents) = Contents::new(origin, matrices) else { return };
        let path = options.folder.join(contents.file_name());
        if contents.file_bytes() < options.min_bytes {
            return;
        }
        let load = Load { contents, path, found: None, in_place: false, writer: None };
        match file::open(&load.path, &load.contents, pool) {
            Ok(map) => self.found(load, map, &options),
            Err(OpenError::Missing) => self.start_writing(load, &options),
            Err(OpenError::Io(e)) => {
                self.info(format!("packed weights cannot be read from {}: {e}", load.path.display()));
            }
            Err(OpenError::Damaged) => {
                let path = load.path.display();
                self.warn(format!("the packed weights kept in {path} are damaged; they are packed again"));
                let _ = std::fs::remove_file(&load.path);
                self.start_writing(load, &options);
            }
        }
    }

    fn found(&mut self, mut load: Load, map: MappedFile, options: &PackedCacheOptions) {
        folder::touch(&load.path);
        let huge = map.huge_share();
        load.in_place = huge >= MOSTLY_HUGE;
        let how = if load.in_place { "mapped" } else { "copied" };
        self.info(format!("packed weights {how} from {}", load.path.display()));
        if !load.in_place {
            // Checking has brought all of it into memory, where the copy is to go.
            map.release(0..map.bytes().len());
        }
        load.found = Some(Arc::new(map));
        match load.in_place || huge < SOME_HUGE {
            true => self.load = Some(load),
            false => self.start_writing(load, options),
        }
    }

    fn start_writing(&mut self, mut load: Load, options: &PackedCacheOptions) {
        let ready = folder::make_room(options, &load.path, load.contents.file_bytes())
            .and_then(|()| Ok(Writer::create(&options.folder)?));
        match ready {
            Ok(writer) => load.writer = Some(writer),
            Err(e) => self.not_kept(&e),
        }
        self.load = Some(load);
    }

    /// The packed bytes of a matrix, if they were kept.
    pub(crate) fn find(&self, name: &str, dtype: TensorType, rows: usize, k: usize) -> Option<Found> {
        let load = self.load.as_ref()?;
        let piece = load.contents.piece(&Matrix { name, dtype, rows, k })?;
        let part = FilePart::new(load.found.clone()?, piece.offset..piece.offset + piece.len)?;
        Some(if load.in_place { Found::InPlace(part) } else { Found::Copy(part) })
    }

    /// Keeps a matrix that is in memory.
    pub(crate) fn add(&mut self, name: &str, packed: &[u8]) {
        let Some(Load { contents, writer: Some(writer), .. }) = &mut self.load else { return };
        if let Err(e) = writer.append(contents, name, packed) {
            self.stop_writing();
            self.not_kept(&e);
        }
    }

    fn stop_writing(&mut self) {
        if let Some(load) = &mut self.load {
            load.writer = None;
        }
    }

    /// Completes what was begun.
    pub(crate) fn end(&mut self) {
        let Some(Load { contents, path, writer: Some(writer), .. }) = self.load.take() else { return };
        match writer.finish(&contents, &path) {
            Ok(()) => self.info(format!("packed weights kept in {} for the next start", path.display())),
            Err(e) => self.not_kept(&e),
        }
    }

    pub(crate) fn take_notes(&mut self) -> Vec<LoadNote> {
        std::mem::take(&mut self.notes)
    }

    fn not_kept(&mut self, reason: &dyn std::fmt::Display) {
        self.info(format!("packed weights are not kept: {reason}"));
    }

    fn info(&mut self, text: String) {
        self.notes.push(LoadNote::Info(text));
    }

    fn warn(&mut self, text: String) {
        self.notes.push(LoadNote::Warning(text));
    }
}

#[cfg(test)]
mod tests;

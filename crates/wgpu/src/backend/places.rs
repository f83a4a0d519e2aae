//! Mapped files that the device reads in place: whether it does, and the windows that it was given.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use minfer_gguf::{MappedBytes, MappedFile};
use minfer_graph::{Buffer, InPlace, KernelFault};

use super::windows::{self, Pages};
use crate::device::{Device, GpuBuffer};

/// The files of every source of weights, by its version.
#[derive(Default)]
pub(super) struct Places(Mutex<HashMap<u64, Source>>);

struct Source {
    answer: InPlace,
    windows: Vec<Window>,
}

/// A stretch of a file, taken when a weight in it is first loaded.
struct Window {
    file: MappedFile,
    range: Range<usize>,
    buffer: Option<Arc<GpuBuffer>>,
}

impl Window {
    fn holds(&self, bytes: &MappedBytes) -> bool {
        let within = self.range.start <= bytes.range.start && bytes.range.end <= self.range.end;
        within && self.file.is(&bytes.file)
    }
}

/// What weights of a source will take.
pub(super) struct Planned {
    /// Windows that are not there yet.
    windows: Vec<(MappedFile, Range<usize>)>,
}

impl Planned {
    /// Bytes of the new windows.
    pub(super) fn bytes(&self) -> usize {
        self.windows.iter().fold(0, |sum, (_, range)| sum.saturating_add(range.len()))
    }
}

impl Places {
    /// Whether weights of the source are read in place, asked once with any of them: then the device has to take the first
    /// page that one lies in, and read there what the file has.
    pub(super) fn answer(&self, device: &Arc<Device>, version: u64, any: Option<&MappedBytes>) -> InPlace {
        let mut sources = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = sources.get(&version) {
            return known.answer.clone();
        }
        let answer = match (device.import_alignment(), any) {
            (Err(reason), _) => InPlace::No(reason.into()),
            (_, None) => return InPlace::No("the file is not mapped".into()),
            (_, Some(bytes)) => probe(device, bytes).map_or_else(InPlace::No, |()| InPlace::Yes),
        };
        sources.insert(version, Source { answer: answer.clone(), windows: Vec::new() });
        answer
    }

    /// Windows for these bytes; with `keep`, they are there from now on. `is_in` is told whether each lies in a window, old or
    /// new.
    pub(super) fn plan(
        &self,
        device: &Device,
        version: u64,
        all: &[MappedBytes],
        keep: bool,
        mut is_in: impl FnMut(usize, bool),
    ) -> Planned {
        let mut sources = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = sources.get_mut(&version).filter(|source| source.answer == InPlace::Yes);
        let Some(source) = known else {
            (0..all.len()).for_each(|i| is_in(i, false));
            return Planned { windows: Vec::new() };
        };
        let mut new = Vec::new();
        let missing: Vec<_> = all.iter().filter(|b| !source.windows.iter().any(|w| w.holds(b))).collect();
        for of_file in by_file(&missing) {
            let file = &of_file[0].file;
            let Some(pages) = pages(device, file) else { continue };
            let mine = source.windows.iter().filter(|w| w.file.is(file));
            let taken: Vec<_> = mine.map(|w| w.range.clone()).collect();
            let ranges = of_file.iter().map(|b| b.range.clone()).collect();
            new.extend(windows::plan(&pages, ranges, &taken).into_iter().map(|range| (file.clone(), range)));
        }
        let as_window = |(file, range): &(MappedFile, Range<usize>)| Window {
            file: file.clone(),
            range: range.clone(),
            buffer: None,
        };
        let n_old = source.windows.len();
        source.windows.extend(new.iter().map(as_window));
        all.iter().enumerate().for_each(|(i, b)| is_in(i, source.windows.iter().any(|w| w.holds(b))));
        if !keep {
            source.windows.truncate(n_old);
        }
        Planned { windows: new }
    }

    /// The buffer in which these bytes can be read, and where they begin in it; `None` for those that have to be copied.
    pub(super) fn find(
        &self,
        device: &Arc<Device>,
        version: u64,
        bytes: &MappedBytes,
    ) -> Result<Option<(Arc<GpuBuffer>, usize)>, KernelFault> {
        let mut sources = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let windows = sources.get_mut(&version).map(|source| &mut source.windows);
        let Some(window) = windows.and_then(|all| all.iter_mut().find(|w| w.holds(bytes))) else {
            return Ok(None);
        };
        let buffer = match &window.buffer {
            Some(buffer) => buffer.clone(),
            None => {
                let new = Arc::new(GpuBuffer::imported(device, &window.file, window.range.clone())?);
                window.buffer.insert(new).clone()
            }
        };
        Ok(Some((buffer, bytes.range.start - window.range.start)))
    }
}

fn by_file<'b>(all: &[&'b MappedBytes]) -> Vec<Vec<&'b MappedBytes>> {
    let mut files: Vec<Vec<&MappedBytes>> = Vec::new();
    for bytes in all {
        match files.iter_mut().find(|file| file[0].file.is(&bytes.file)) {
            Some(file) => file.push(bytes),
            None => files.push(vec![bytes]),
        }
    }
    files
}

fn pages(device: &Device, file: &MappedFile) -> Option<Pages> {
    let alignment = device.import_alignment().ok()?;
    let most = device.max_import_bytes() / alignment * alignment;
    let address = file.bytes().as_ptr() as usize;
    Some(Pages { address, len: file.page_len()?, alignment, most })
}

/// Has the device take the first page of a weight and read it, so that a driver that refuses pages of files, or sees something
/// else there, is known before anything is planned.
fn probe(device: &Arc<Device>, bytes: &MappedBytes) -> Result<(), String> {
    let file = &bytes.file;
    let pages = pages(device, file).ok_or("the system does not say how large its pages are")?;
    let first = bytes.range.start..bytes.range.start + 1;
    let piece = pages.widened(&first).ok_or("its pages do not lie as the device asks")?;
    let end = piece.end.min(file.bytes().len());
    let expected = &file.bytes()[piece.start..end];
    let buffer = GpuBuffer::imported(device, file, piece).map_err(|fault| fault.to_string())?;
    let mut seen = vec![0; expected.len()];
    buffer.read(0, &mut seen).map_err(|fault| fault.to_string())?;
    if seen == expected { Ok(()) } else { Err("the device reads something else there".into()) }
}

//! What tells the content of an open file from every other, without reading it.

use std::fs::Metadata;
use std::time::{Duration, SystemTime};

/// A file that changed less than this before it was opened may change again without its times telling: file systems count
/// time in steps of up to two seconds.
const SETTLED: Duration = Duration::from_secs(2);

/// Device, number, size, and the times of the last change of content and of the file itself. Nobody but the system sets the
/// latter, so a file that was written to, or replaced, has another identity. `None` where the system has no such numbers, or
/// the file is too new to be sure.
#[cfg(unix)]
pub(crate) fn of(about: &Metadata) -> Option<[u8; 48]> {
    use std::os::unix::fs::MetadataExt;

    let changed = SystemTime::UNIX_EPOCH + Duration::from_secs(u64::try_from(about.ctime()).ok()?);
    if SystemTime::now().duration_since(changed).ok()? < SETTLED {
        return None;
    }
    let nanoseconds = about.mtime_nsec() << 32 | about.ctime_nsec();
    let numbers = [
        about.dev(),
        about.ino(),
        about.size(),
        about.mtime().cast_unsigned(),
        about.ctime().cast_unsigned(),
        nanoseconds.cast_unsigned(),
    ];
    let mut bytes = [0; 48];
    for (to, from) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(numbers) {
        *to = from.to_le_bytes();
    }
    Some(bytes)
}

#[cfg(not(unix))]
pub(crate) fn of(_about: &Metadata) -> Option<[u8; 48]> {
    None
}

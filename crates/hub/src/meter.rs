//! How far a fetch is.

use crate::Progress;

/// Passes events on, and counts bytes over all parts, never backwards and never past the end.
pub(crate) struct Meter<'a> {
    progress: &'a mut dyn FnMut(Progress),
    total: Option<u64>,
    /// Bytes of the parts that are finished.
    finished: u64,
    shown: Option<u64>,
}

impl<'a> Meter<'a> {
    /// `total` is the size of the whole file in bytes, where it is known.
    pub(crate) fn new(total: Option<u64>, progress: &'a mut dyn FnMut(Progress)) -> Self {
        Self { progress, total, finished: 0, shown: None }
    }

    pub(crate) fn say(&mut self, event: Progress) {
        (self.progress)(event);
    }

    /// The parts up to here have `bytes`; what is counted from now on comes on top.
    pub(crate) fn finish_part(&mut self, bytes: u64) {
        self.finished = bytes;
    }

    /// `bytes` of the current part have arrived, be it in a package or out of it.
    pub(crate) fn arrived(&mut self, bytes: u64) {
        let done = self.finished.saturating_add(bytes);
        let done = self.total.map_or(done, |total| done.min(total));
        if self.shown.is_none_or(|shown| shown < done) {
            self.shown = Some(done);
            self.say(Progress::Bytes { done, total: self.total });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_never_goes_back_nor_past_the_end() {
        let mut seen = Vec::new();
        let mut note = |event| match event {
            Progress::Bytes { done, total: Some(10) } => seen.push(done),
            other => panic!("{other:?}"),
        };
        let mut meter = Meter::new(Some(10), &mut note);
        for bytes in [0, 4, 2, 4] {
            meter.arrived(bytes);
        }
        meter.finish_part(3);
        for bytes in [0, 4, 12, 6, u64::MAX] {
            meter.arrived(bytes);
        }
        assert_eq!(seen, [0, 4, 7, 10]);
    }
}

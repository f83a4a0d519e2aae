//! One order for all tokens: by logit, equal logits by id.

/// A token with its logit, packed so that the greater integer is the better token: the higher logit, then the lower id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ranked(u64);

const SIGN: u32 = 1 << 31;

impl Ranked {
    /// `logit` must not be NaN; -0 becomes 0, so that they tie.
    pub(super) fn new(id: u32, logit: f32) -> Self {
        let bits = (logit + 0.0).to_bits();
        // Positive floats order as their bits do, negative ones the other way round and below.
        let ordered = if bits & SIGN == 0 { bits | SIGN } else { !bits };
        Ranked(u64::from(ordered) << 32 | u64::from(!id))
    }

    pub(super) fn id(self) -> u32 {
        !(self.0 as u32)
    }

    pub(super) fn logit(self) -> f32 {
        let ordered = (self.0 >> 32) as u32;
        f32::from_bits(if ordered & SIGN != 0 { ordered & !SIGN } else { !ordered })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_by_logit_then_lower_id_and_gives_both_back() {
        let logits = [f32::NEG_INFINITY, f32::MIN, -1.0, -1e-40, 0.0, 1e-40, 1.0, f32::MAX];
        for pair in logits.windows(2) {
            assert!(Ranked::new(9, pair[0]) < Ranked::new(9, pair[1]), "{pair:?}");
        }
        assert!(Ranked::new(3, 1.0) > Ranked::new(4, 1.0));
        assert!(Ranked::new(3, -0.0) > Ranked::new(4, 0.0));
        for logit in logits {
            let r = Ranked::new(u32::MAX - 1, logit);
            assert_eq!((r.id(), r.logit()), (u32::MAX - 1, logit));
        }
    }
}

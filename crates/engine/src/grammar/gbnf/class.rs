//! Sets of characters.

/// The last character before, and the first after, the gap of the surrogates.
const GAP: (u32, u32) = (0xD7FF, 0xE000);
const LAST: u32 = 0x10_FFFF;

/// Characters, as ranges of code points that are sorted, not empty and do not touch.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Class(Vec<(u32, u32)>);

impl Class {
    pub(super) fn of_char(c: char) -> Class {
        Class(vec![(c.into(), c.into())])
    }

    /// Any character, line breaks too.
    pub(super) fn any() -> Class {
        Class(vec![(0, GAP.0), (GAP.1, LAST)])
    }

    pub(super) fn of_ranges(mut ranges: Vec<(u32, u32)>) -> Class {
        ranges.sort_unstable();
        let mut merged: Vec<(u32, u32)> = Vec::with_capacity(ranges.len());
        for (first, last) in ranges {
            match merged.last_mut() {
                Some(before) if first <= before.1.saturating_add(1) => before.1 = before.1.max(last),
                _ => merged.push((first, last)),
            }
        }
        Class(merged).without_surrogates()
    }

    fn without_surrogates(&self) -> Class {
        let below = self.0.iter().map(|&(first, last)| (first, last.min(GAP.0)));
        let above = self.0.iter().map(|&(first, last)| (first.max(GAP.1), last.min(LAST)));
        Class(below.filter(|r| r.0 <= r.1).chain(above.filter(|r| r.0 <= r.1)).collect())
    }

    pub(super) fn negated(&self) -> Class {
        let mut ranges = Vec::with_capacity(self.0.len() + 1);
        let mut next = 0;
        for &(first, last) in &self.0 {
            if first > next {
                ranges.push((next, first - 1));
            }
            next = last + 1;
        }
        if next <= LAST {
            ranges.push((next, LAST));
        }
        Class(ranges).without_surrogates()
    }

    pub(super) fn ranges(&self) -> &[(u32, u32)] {
        &self.0
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn meets(&self, other: &Class) -> bool {
        self.0.iter().any(|a| other.0.iter().any(|b| a.0 <= b.1 && b.0 <= a.1))
    }

    #[cfg(test)]
    pub(super) fn has(&self, c: char) -> bool {
        self.0.iter().any(|r| (r.0..=r.1).contains(&c.into()))
    }

    /// The first bytes that its characters have in UTF-8.
    pub(super) fn first_bytes(&self) -> Bytes {
        let mut bytes = Bytes::default();
        for &(first, last) in &self.0 {
            (first_byte(first)..=first_byte(last)).for_each(|b| bytes.add(b));
        }
        bytes
    }
}

/// First bytes rise with their characters.
fn first_byte(c: u32) -> u8 {
    match c {
        0..0x80 => c as u8,
        0x80..0x800 => 0xC0 | (c >> 6) as u8,
        0x800..0x1_0000 => 0xE0 | (c >> 12) as u8,
        _ => 0xF0 | (c >> 18) as u8,
    }
}

/// A set of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Bytes([u128; 2]);

impl Bytes {
    fn add(&mut self, byte: u8) {
        self.0[usize::from(byte >> 7)] |= 1 << (byte & 127);
    }

    /// Adds all of `other`; says whether there was something new.
    pub(super) fn extend(&mut self, other: Bytes) -> bool {
        let before = *self;
        self.0[0] |= other.0[0];
        self.0[1] |= other.0[1];
        *self != before
    }

    pub(super) fn meets(self, other: Bytes) -> bool {
        self.0[0] & other.0[0] != 0 || self.0[1] & other.0[1] != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_and_its_negation_share_nothing_and_leave_nothing_out() {
        for ranges in
            [vec![], vec![(97, 122)], vec![(0, 5), (4, 9), (11, 11)], vec![(0, LAST)], vec![(0xD000, 0xE001)]]
        {
            let class = Class::of_ranges(ranges);
            let other = class.negated();
            assert!(!class.meets(&other));
            let all = Class::of_ranges([class.ranges(), other.ranges()].concat());
            assert_eq!(all, Class::any());
        }
    }

    #[test]
    fn first_bytes_are_those_of_utf_8() {
        for c in ['a', '\u{7f}', '\u{80}', 'é', '\u{7ff}', '\u{800}', '語', '\u{ffff}', '🎉', '\u{10ffff}']
        {
            assert_eq!(first_byte(c.into()), c.to_string().as_bytes()[0]);
        }
    }
}

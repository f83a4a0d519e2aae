//! From a text to the id of its token.
//!
//! A vocabulary is looked up hundreds of thousands of times while it is loaded, in places all over it. So a place of the table
//! has all that most lookups need: the text itself, if it is short.

use std::hash::BuildHasher;

use hashbrown::hash_table::Entry;
use hashbrown::{DefaultHashBuilder, HashTable};
use minfer_gguf::Strings;

/// The ids of all texts; of a text that several tokens have, the lowest.
#[derive(Debug, Default)]
pub(super) struct Index {
    places: HashTable<Place>,
    hasher: DefaultHashBuilder,
    /// Ids whose text a lower one has, rising.
    repeats: Vec<u32>,
}

/// What a place of the table holds.
#[derive(Clone, Copy, Debug)]
struct Place {
    key: Key,
    id: u32,
}

/// The first bytes of a text, and its length as far as it fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Key(u64, u32);

/// Bytes of a text that its key has.
const HEAD: usize = 11;

impl Key {
    fn of(text: &str) -> Key {
        let bytes = text.as_bytes();
        let n_bytes = (bytes.len().min(255) as u32) << 24;
        // Few branches, as lengths come in no order: reads that overlap put the same bytes in the same places.
        if let Some((first, _)) = bytes.split_first_chunk::<8>() {
            let head = &bytes[..bytes.len().min(HEAD)];
            let last = head.last_chunk::<4>().map_or(0, |last| u64::from(u32::from_le_bytes(*last)));
            let rest = last >> (8 * (HEAD + 1 - head.len()));
            return Key(u64::from_le_bytes(*first), rest as u32 | n_bytes);
        }
        if let (Some(first), Some(last)) = (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
            let word = |word: &[u8; 4]| u64::from(u32::from_le_bytes(*word));
            return Key(word(first) | word(last) << (8 * (bytes.len() - 4)), n_bytes);
        }
        let few = bytes.iter().rev().fold(0, |few, &byte| few << 8 | u64::from(byte));
        Key(few, n_bytes)
    }

    /// Whether it is the key of no other text.
    fn is_whole(self) -> bool {
        self.1 >> 24 <= HEAD as u32
    }
}

impl Index {
    pub(super) fn new(texts: &Strings) -> Index {
        let mut index = Index { places: HashTable::with_capacity(texts.len()), ..Index::default() };
        let Index { places, hasher, repeats } = &mut index;
        for (id, text) in (0..).zip(texts.iter()) {
            let key = Key::of(text);
            let rehash = |place: &Place| hash(hasher, place.key, text_of(place, texts));
            match places.entry(hash(hasher, key, text), |place| is_it(place, key, text, texts), rehash) {
                Entry::Occupied(_) => repeats.push(id),
                Entry::Vacant(entry) => drop(entry.insert(Place { key, id })),
            }
        }
        index
    }

    /// The id of `text`, if it is one of `texts`, which the index was made of.
    pub(super) fn find(&self, text: &str, texts: &Strings) -> Option<u32> {
        let key = Key::of(text);
        let place = self.places.find(hash(&self.hasher, key, text), |place| is_it(place, key, text, texts));
        place.map(|place| place.id)
    }

    /// Whether no lower id has the same text as `id`.
    pub(super) fn is_first(&self, id: u32) -> bool {
        self.repeats.binary_search(&id).is_err()
    }
}

fn hash(hasher: &DefaultHashBuilder, key: Key, text: &str) -> u64 {
    if key.is_whole() { hasher.hash_one((key.0, key.1)) } else { hasher.hash_one(text) }
}

fn is_it(place: &Place, key: Key, text: &str, texts: &Strings) -> bool {
    place.key == key && (key.is_whole() || text_of(place, texts) == text)
}

fn text_of<'t>(place: &Place, texts: &'t Strings) -> &'t str {
    texts.get(place.id as usize).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_the_first_bytes_and_the_length() {
        let text: String = ('a'..='z').cycle().take(300).collect();
        for n in 0..=text.len() {
            let (text, mut key) = (&text[..n], [0; 12]);
            let head = n.min(HEAD);
            key[..head].copy_from_slice(&text.as_bytes()[..head]);
            key[HEAD] = n.min(255) as u8;
            let Key(low, high) = Key::of(text);
            assert_eq!([&low.to_le_bytes()[..], &high.to_le_bytes()].concat(), key, "{text}");
        }
    }

    #[test]
    fn texts_of_any_length_are_told_apart() {
        // Lengths around that of a key and of its counter, equal but for the last byte, and with zeros at the end.
        let lengths = [0, 1, 10, 11, 12, 13, 254, 255, 256, 300];
        let mut texts: Vec<String> = Vec::new();
        for n in lengths {
            for end in ["", "a", "b", "\0", "\0\0"] {
                texts.push("x".repeat(n) + end);
            }
        }
        let all: Strings = texts.iter().collect();
        let index = Index::new(&all);
        for (id, text) in texts.iter().enumerate() {
            let first = texts.iter().position(|other| other == text).unwrap();
            assert_eq!(index.find(text, &all), Some(first as u32), "{text:?}");
            assert_eq!(index.is_first(id as u32), first == id, "{text:?}");
        }
        for absent in ["y", "xxy", "x\0\0\0", &"x".repeat(299), &"x".repeat(302)] {
            assert_eq!(index.find(absent, &all), None, "{absent:?}");
        }
        assert_eq!(Index::default().find("", &Strings::default()), None);
    }
}

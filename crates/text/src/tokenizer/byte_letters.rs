//! GPT-2's printable stand-in for every byte: the spelling of tokens in a byte-level vocabulary.
//!
//! A byte that is a visible Latin-1 character stands for itself; the other 68 are numbered from U+0100 in order. So a
//! space is `Ġ` and a newline `Ċ`. Every letter is one byte and takes one or two bytes in UTF-8.

/// The letter of each byte.
pub(super) const LETTERS: [char; 256] = letters();

const fn letters() -> [char; 256] {
    let mut table = ['\0'; 256];
    let (mut byte, mut next) = (0u8, 0x100u32);
    loop {
        let visible = matches!(byte, 33..=126 | 161..=172 | 174..=255);
        table[byte as usize] = if visible {
            byte as char
        } else {
            next += 1;
            char::from_u32(next - 1).expect("U+0100 to U+0143 are characters")
        };
        if byte == 255 {
            return table;
        }
        byte += 1;
    }
}

/// The byte that `letter` stands for.
pub(super) fn byte_of(letter: char) -> Option<u8> {
    let code = u32::from(letter);
    match code {
        33..=126 | 161..=172 | 174..=255 => Some(code as u8),
        0x100..=0x143 => Some(HIDDEN[(code - 0x100) as usize]),
        _ => None,
    }
}

/// The bytes without a visible character, in order.
const HIDDEN: [u8; 68] = {
    let mut table = [0; 68];
    let mut byte = 0;
    while byte < 256 {
        let code = LETTERS[byte] as usize;
        if code >= 0x100 {
            table[code - 0x100] = byte as u8;
        }
        byte += 1;
    }
    table
};

/// Appends the bytes that `text` spells, or nothing and `false` if a character of it is no letter.
pub(super) fn spelled_bytes(text: &str, out: &mut Vec<u8>) -> bool {
    let before = out.len();
    for letter in text.chars() {
        match byte_of(letter) {
            Some(byte) => out.push(byte),
            None => {
                out.truncate(before);
                return false;
            }
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_its_own_letter() {
        for byte in 0..=255u8 {
            assert_eq!(byte_of(LETTERS[usize::from(byte)]), Some(byte));
        }
        assert_eq!((LETTERS[32], LETTERS[10], LETTERS[0], LETTERS[173]), ('Ġ', 'Ċ', 'Ā', 'Ń'));
        assert_eq!((byte_of(' '), byte_of('Ń'), byte_of('ń')), (None, Some(173), None));
    }
}

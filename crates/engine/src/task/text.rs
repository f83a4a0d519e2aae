//! The answer as text: whole characters only, and nothing that a stop string may still claim.

use minfer_text::tokenizer::{StreamDecoder, Tokenizer};

use crate::error::EngineError;
use crate::request::GenerateParams;
use crate::stop::StopStrings;

pub(super) struct TextOut {
    stops: StopStrings,
    decoder: StreamDecoder,
    text: String,
    piece: String,
}

impl TextOut {
    pub(super) fn new(params: &GenerateParams) -> Result<Self, EngineError> {
        let decoder = StreamDecoder::continuing(params.special).showing(&params.shown);
        Ok(TextOut {
            stops: StopStrings::new(&params.stop)?,
            decoder,
            text: String::new(),
            piece: String::new(),
        })
    }

    /// Takes a token; gives what can be shown now, and whether a stop string has come up.
    pub(super) fn push(&mut self, tokenizer: &Tokenizer, token: u32) -> Result<(&str, bool), EngineError> {
        self.piece.clear();
        self.decoder.push(tokenizer, token, &mut self.piece)?;
        let before = self.text.len();
        let stopped = self.stops.push(&self.piece, &mut self.text).is_some();
        Ok((&self.text[before..], stopped))
    }

    /// Gives what was held back.
    pub(super) fn finish(&mut self) -> &str {
        self.piece.clear();
        self.decoder.finish(&mut self.piece);
        let before = self.text.len();
        if self.stops.push(&self.piece, &mut self.text).is_none() {
            self.stops.finish(&mut self.text);
        }
        &self.text[before..]
    }

    /// The stop string that ended the text, if one did.
    pub(super) fn stop(&self) -> Option<&str> {
        self.stops.matched()
    }

    /// All that was given.
    pub(super) fn into_text(self) -> String {
        self.text
    }
}

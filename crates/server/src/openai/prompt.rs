//! `prompt` of a completion: one text or several, or their tokens.

use minfer_engine::Model;
use serde_json::Value;

use crate::error::ApiError;
use crate::fields::Fields;

/// A prompt that goes to the model as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Prompt {
    /// A text.
    Text(String),
    /// Tokens.
    Tokens(Vec<u32>),
}

impl Prompt {
    /// Its tokens.
    pub fn encode(&self, model: &Model) -> Result<Vec<u32>, ApiError> {
        match self {
            Prompt::Text(text) => Ok(model.encode(text)?),
            Prompt::Tokens(tokens) => Ok(tokens.clone()),
        }
    }

    /// Bytes of its text; none of tokens.
    pub fn n_bytes(&self) -> usize {
        match self {
            Prompt::Text(text) => text.len(),
            Prompt::Tokens(_) => 0,
        }
    }

    /// Whether there is nothing to read.
    pub fn is_empty(&self) -> bool {
        match self {
            Prompt::Text(text) => text.is_empty(),
            Prompt::Tokens(tokens) => tokens.is_empty(),
        }
    }

    /// Reads a field that holds one, or several up to `max`.
    pub fn read(fields: &mut Fields, name: &str, max: usize) -> Result<Vec<Prompt>, ApiError> {
        let value = fields.take(name);
        let prompts = match value {
            Some(Value::String(text)) => Some(vec![Prompt::Text(text)]),
            Some(Value::Array(list)) if list.first().is_some_and(Value::is_number) => {
                tokens(&list).map(|tokens| vec![Prompt::Tokens(tokens)])
            }
            Some(Value::Array(list)) if (1..=max).contains(&list.len()) => {
                list.into_iter().map(one).collect()
            }
            _ => None,
        };
        prompts.ok_or_else(|| {
            let most = format_args!("a text, a list of token ids, or a list of at most {max} of these");
            fields.wrong(name, most)
        })
    }
}

fn one(value: Value) -> Option<Prompt> {
    match value {
        Value::String(text) => Some(Prompt::Text(text)),
        Value::Array(list) => tokens(&list).map(Prompt::Tokens),
        _ => None,
    }
}

fn tokens(list: &[Value]) -> Option<Vec<u32>> {
    list.iter().map(|id| u32::try_from(id.as_u64()?).ok()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn prompts(value: Value) -> Option<Vec<Prompt>> {
        Prompt::read(&mut Fields::of_body(json!({ "prompt": value })).unwrap(), "prompt", 4).ok()
    }

    #[test]
    fn texts_and_tokens_one_or_several() {
        let (text, tokens) = (|t: &str| Prompt::Text(t.into()), |t: &[u32]| Prompt::Tokens(t.to_vec()));
        assert_eq!(prompts(json!("a")), Some(vec![text("a")]));
        assert_eq!(prompts(json!([1, 2])), Some(vec![tokens(&[1, 2])]));
        assert_eq!(prompts(json!(["a", "b"])), Some(vec![text("a"), text("b")]));
        assert_eq!(prompts(json!([[1], [2]])), Some(vec![tokens(&[1]), tokens(&[2])]));
        for bad in [
            json!(null),
            json!([]),
            json!(3),
            json!([1, "a"]),
            json!([-1]),
            json!([1.5]),
            json!({}),
            json!([null]),
        ] {
            assert_eq!(prompts(bad.clone()), None, "{bad}");
        }
    }
}

//! A response as it is made: named events, numbered from 0.

use serde_json::{Value, json};

use super::items::Items;
use super::object::Object;
use crate::answer::{AnswerEvent, Answers, Finished, Render};
use crate::error::ApiError;
use crate::frames::Frames;

pub(super) struct ResponseStream {
    object: Object,
    items: Items,
    finished: Option<Box<Finished>>,
    n_events: u64,
}

impl ResponseStream {
    pub(super) fn new(object: Object, items: Items) -> Self {
        Self { object, items, finished: None, n_events: 0 }
    }

    fn whole(&mut self, name: &'static str, response: Value, out: &mut Frames) {
        write(&mut self.n_events, name, json!({ "response": response }), out);
    }
}

fn write(n_events: &mut u64, name: &'static str, event: Value, out: &mut Frames) {
    let mut numbered = json!({ "type": name, "sequence_number": *n_events });
    if let (Value::Object(numbered), Value::Object(event)) = (&mut numbered, event) {
        numbered.extend(event);
    }
    *n_events += 1;
    out.event(name, &numbered);
}

impl Render for ResponseStream {
    fn begin(&mut self, _: &Answers, out: &mut Frames) {
        self.whole("response.created", self.object.value(), out);
        self.whole("response.in_progress", self.object.value(), out);
    }

    fn event(&mut self, _: usize, event: AnswerEvent, out: &mut Frames) {
        let n_events = &mut self.n_events;
        self.items.add(event, &mut self.finished, &mut |name, event| write(n_events, name, event, out));
    }

    fn error(&mut self, error: &ApiError, out: &mut Frames) {
        let failed = self.object.failed(&self.items, error);
        self.whole("response.failed", failed, out);
    }

    fn end(&mut self, out: &mut Frames) {
        let object = self.object.finished(&self.items, self.finished.as_deref());
        let is_cut = object["status"] == "incomplete";
        let name = if is_cut { "response.incomplete" } else { "response.completed" };
        self.whole(name, object, out);
    }
}

// What the reader does within a conversation.
import { answer, stop } from "./live.ts";
import { change, talkById } from "./store.ts";
import { append } from "./tree.ts";
import { type Attachment, type Message, newId } from "./types.ts";

/** Says something as the next message, and has it answered. */
export function say(talkId: string, content: string, attachments: Attachment[]): void {
  const talk = talkById(talkId);
  if (talk) sayAfter(talkId, talk.leaf, content, attachments);
}

/** Says something else in place of `message`; what was said before stays as another version. */
export function sayInstead(talkId: string, message: Message, content: string): void {
  stop(talkId);
  sayAfter(talkId, message.parent, content, message.attachments ?? []);
}

function sayAfter(talkId: string, parent: string | null, content: string, attachments: Attachment[]): void {
  const message: Message = { id: newId(), parent, role: "user", content, at: Date.now() };
  if (attachments.length > 0) message.attachments = attachments;
  change(talkId, (talk) => append(talk, message));
  answer(talkId, message.id);
}

/** Gives the model the result of one of its calls; with the last one it goes on. */
export function giveResult(talkId: string, parent: string, callId: string, content: string, complete: boolean): void {
  const message: Message = { id: newId(), parent, role: "tool", toolCallId: callId, content, at: Date.now() };
  change(talkId, (talk) => append(talk, message));
  if (complete) answer(talkId, message.id);
}

/** Has another answer written beside this one. */
export function answerAgain(talkId: string, message: Message): void {
  if (message.parent !== null) answer(talkId, message.parent);
}

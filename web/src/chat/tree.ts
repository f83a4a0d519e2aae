// A conversation is a tree: an edited question or another answer is a sibling of the first. One path through it is shown.
import { type Message, newId, type Talk } from "./types.ts";

const TITLE_LENGTH = 60;

export function newTalk(system: string, now: number): Talk {
  return { id: newId(), title: "New conversation", named: false, created: now, changed: now, system, messages: [], leaf: null };
}

/** The messages shown, first to last. */
export function path(talk: Talk): Message[] {
  return pathTo(talk, talk.leaf);
}

export function pathTo(talk: Talk, leaf: string | null): Message[] {
  const byId = new Map(talk.messages.map((message) => [message.id, message]));
  const messages: Message[] = [];
  // A file that was imported might go in circles.
  for (let at = leaf; at !== null && messages.length <= byId.size; ) {
    const message = byId.get(at);
    if (!message) break;
    messages.push(message);
    at = message.parent;
  }
  return messages.reverse();
}

/** The ids of messages by what they follow: those that follow the same are versions of each other. */
export function versions(talk: Talk): Map<string | null, string[]> {
  const byParent = new Map<string | null, string[]>();
  for (const { id, parent } of talk.messages) byParent.set(parent, [...(byParent.get(parent) ?? []), id]);
  return byParent;
}

/** Shows a version and what was last said after it. */
export function showVersion(talk: Talk, id: string): Talk {
  let leaf = id;
  for (let n = 0; n < talk.messages.length; n++) {
    const next = talk.messages.findLast((message) => message.parent === leaf);
    if (!next) break;
    leaf = next.id;
  }
  return { ...talk, leaf };
}

/** Appends a message; it is the last that is shown. The first question gives the title. */
export function append(talk: Talk, message: Message): Talk {
  const title = talk.named || message.role !== "user" || message.parent !== null ? talk.title : titleOf(message);
  return { ...talk, title, messages: [...talk.messages, message], leaf: message.id, changed: message.at };
}

/** Replaces the message that has the same id. */
export function replace(talk: Talk, message: Message): Talk {
  const messages = talk.messages.map((other) => (other.id === message.id ? message : other));
  return { ...talk, messages };
}

export function titleOf(message: Message): string {
  const text = message.content.replace(/\s+/g, " ").trim() || message.attachments?.[0]?.name || "New conversation";
  const characters = [...text];
  return characters.length > TITLE_LENGTH ? `${characters.slice(0, TITLE_LENGTH - 1).join("").trimEnd()}…` : text;
}

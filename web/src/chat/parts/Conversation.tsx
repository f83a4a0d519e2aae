// The messages, and the way they scroll: the newest stays in sight until the reader scrolls away from it.
import { useMemo } from "preact/hooks";
import { Icon } from "../../common/icons.tsx";
import { copyCode } from "../markdown/copy.ts";
import { lives } from "../live.ts";
import { path, versions } from "../tree.ts";
import type { Message, Talk } from "../types.ts";
import { Answer } from "./Answer.tsx";
import { Question } from "./Question.tsx";
import { useFollowing } from "./following.ts";
import { Welcome } from "./Welcome.tsx";
import "./message.css";

export function Conversation({ talk }: { talk: Talk }) {
  const messages = useMemo(() => path(talk), [talk.messages, talk.leaf]);
  const siblings = useMemo(() => versions(talk), [talk.messages]);
  const { scroller, content, following, toNewest } = useFollowing(talk.leaf);
  if (messages.length === 0) return <Welcome talkId={talk.id} />;
  return (
    <div class="scroll-place">
      <div class="scroller" ref={scroller} tabIndex={0} role="region" aria-label="Messages">
        <ol class="messages" ref={content} onClick={copyCode}>
          {messages.map((message) => (
            <Entry key={message.id} talk={talk} message={message} messages={messages} siblings={siblings} />
          ))}
        </ol>
      </div>
      {!following && (
        <button type="button" class="button to-newest" onClick={toNewest}>
          <Icon name="down" />
          <span>Newest</span>
        </button>
      )}
    </div>
  );
}

interface EntryProps {
  talk: Talk;
  message: Message;
  messages: Message[];
  siblings: ReadonlyMap<string | null, string[]>;
}

function Entry({ talk, message, messages, siblings }: EntryProps) {
  const live = lives.value.get(talk.id);
  const ids = siblings.get(message.parent) ?? NO_IDS;
  // The same array as long as it says the same, so that finished messages are not drawn anew.
  const place = useMemo(() => ({ all: ids, index: ids.indexOf(message.id) }), [ids.join(), message.id]);
  if (message.role === "tool") return null;
  if (message.role === "user") {
    return <Question talkId={talk.id} message={message} versions={place.all} index={place.index} />;
  }
  return (
    <Answer
      talkId={talk.id}
      message={message}
      versions={place.all}
      index={place.index}
      results={message.toolCalls ? messages.filter(({ role }) => role === "tool") : NONE}
      last={message.id === messages.at(-1)?.id || messages.at(-1)?.role === "tool"}
      live={live?.messageId === message.id ? live : undefined}
      busy={live !== undefined}
    />
  );
}

const NONE: Message[] = [];
const NO_IDS: string[] = [];

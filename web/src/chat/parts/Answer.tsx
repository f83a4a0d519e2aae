import { memo } from "preact/compat";
import { IconButton } from "../../common/Button.tsx";
import { answerAgain } from "../actions.ts";
import type { Live } from "../live.ts";
import { Markdown } from "../markdown/Markdown.tsx";
import type { Message } from "../types.ts";
import { CopyButton } from "./CopyButton.tsx";
import { EndNote } from "./EndNote.tsx";
import { Reasoning } from "./Reasoning.tsx";
import { Figures } from "./Figures.tsx";
import { ToolCalls } from "./ToolCalls.tsx";
import { Versions } from "./Versions.tsx";

interface AnswerProps {
  talkId: string;
  message: Message;
  versions: string[];
  index: number;
  /** Results of tools that are shown with the calls. */
  results: Message[];
  /** Whether nothing was said after it. */
  last: boolean;
  /** While it is being written. */
  live: Live | undefined;
  /** Whether an answer is being written in this conversation. */
  busy: boolean;
}

/** What the model said. */
export const Answer = memo((props: AnswerProps) => (
  <li class={`message answer ${props.last ? "last" : ""}`} aria-label="Answer" aria-busy={props.live !== undefined}>
    {props.live ? <Growing live={props.live} /> : <Finished {...props} />}
  </li>
));

function Growing({ live }: { live: Live }) {
  const content = live.content.value;
  const reasoning = live.reasoning.value;
  const calls = live.toolCalls.value;
  const waiting = content === "" && reasoning === "" && calls.length === 0;
  return (
    <>
      {reasoning !== "" && <Reasoning text={reasoning} growing={content === ""} />}
      {content !== "" && <Markdown text={content} growing />}
      {calls.length > 0 && <ToolCalls calls={calls} results={[]} />}
      {waiting && (
        <div class="waiting">
          <span class="dot" />
          <span class="dot" />
          <span class="dot" />
          <span class="hidden-label">Reading the conversation</span>
        </div>
      )}
    </>
  );
}

function Finished({ talkId, message, versions, index, results, last, busy }: AnswerProps) {
  return (
    <>
      {message.reasoning && <Reasoning text={message.reasoning} />}
      {message.content !== "" && <Markdown text={message.content} />}
      {message.toolCalls && (
        <ToolCalls
          calls={message.toolCalls}
          results={results}
          {...(last && !busy ? { giveTo: { talkId, parent: results.at(-1)?.id ?? message.id } } : {})}
        />
      )}
      <EndNote message={message} onAgain={busy ? undefined : () => answerAgain(talkId, message)} />
      <div class="message-actions">
        <Versions talkId={talkId} versions={versions} index={index} />
        {message.content !== "" && <CopyButton text={message.content} label="Copy this answer" />}
        <IconButton
          icon="redo"
          look="quiet small regenerate"
          label="Write another answer"
          disabled={busy}
          onClick={() => answerAgain(talkId, message)}
        />
        {message.stats && <Figures stats={message.stats} />}
      </div>
    </>
  );
}

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
    <Body {...props} />
    {!props.live && <Foot {...props} />}
  </li>
));

/** The same parts while it is written and afterwards, so that the page keeps what it shows when an answer is complete. */
function Body({ talkId, message, results, last, live, busy }: AnswerProps) {
  const content = live ? live.content.value : message.content;
  const reasoning = live ? live.reasoning.value : (message.reasoning ?? "");
  const calls = live ? live.toolCalls.value : (message.toolCalls ?? []);
  const giveTo = last && !busy ? { talkId, parent: results.at(-1)?.id ?? message.id } : undefined;
  return (
    <>
      {reasoning !== "" && <Reasoning key="reasoning" text={reasoning} growing={live !== undefined && content === ""} />}
      {content !== "" && <Markdown key="content" text={content} growing={live !== undefined} />}
      {calls.length > 0 && <ToolCalls key="calls" calls={calls} results={results} giveTo={giveTo} />}
      {live && content === "" && reasoning === "" && calls.length === 0 && <Waiting />}
    </>
  );
}

function Waiting() {
  return (
    <div class="waiting">
      <span class="dot" />
      <span class="dot" />
      <span class="dot" />
      <span class="hidden-label">Reading the conversation</span>
    </div>
  );
}

function Foot({ talkId, message, versions, index, busy }: AnswerProps) {
  return (
    <>
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

import { useState } from "preact/hooks";
import { Button } from "../../common/Button.tsx";
import { Icon } from "../../common/icons.tsx";
import { giveResult } from "../actions.ts";
import type { Message, ToolCall } from "../types.ts";

interface ToolCallsProps {
  calls: ToolCall[];
  results: Message[];
  /** Where results go, if they may be given now. */
  giveTo: { talkId: string; parent: string } | undefined;
}

/** Calls of tools that the model wants made. The page makes none: the reader may say what came of them. */
export function ToolCalls({ calls, results, giveTo }: ToolCallsProps) {
  const resultOf = (call: ToolCall) => results.find((result) => result.toolCallId === call.id);
  const open = calls.filter((call) => !resultOf(call));
  return (
    <ul class="tool-calls">
      {calls.map((call, at) => {
        const result = resultOf(call);
        return (
          <li key={at}>
            <details class="tool-call" open>
              <summary>
                <Icon name="tool" />
                <span>
                  Calls <code>{call.name}</code>
                </span>
              </summary>
              <pre tabIndex={0}>{pretty(call.arguments)}</pre>
              {result && (
                <>
                  <p class="tool-call-label">Result</p>
                  <pre tabIndex={0}>{pretty(result.content)}</pre>
                </>
              )}
              {!result && giveTo && open[0] === call && (
                <ResultForm onGive={(text) => giveResult(giveTo.talkId, giveTo.parent, call.id, text, open.length === 1)} />
              )}
            </details>
          </li>
        );
      })}
    </ul>
  );
}

function ResultForm({ onGive }: { onGive: (text: string) => void }) {
  const [text, setText] = useState("");
  return (
    <form
      class="tool-result"
      onSubmit={(event) => {
        event.preventDefault();
        onGive(text);
      }}
    >
      <textarea
        class="input"
        rows={2}
        aria-label="Result of this call"
        placeholder="What the tool returned"
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
      />
      <Button type="submit" look="small">
        Give the result
      </Button>
    </form>
  );
}

function pretty(json: string): string {
  try {
    return JSON.stringify(JSON.parse(json), null, 2);
  } catch {
    return json;
  }
}

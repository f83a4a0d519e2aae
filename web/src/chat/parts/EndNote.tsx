import { Button } from "../../common/Button.tsx";
import type { Message } from "../types.ts";
import { dialog } from "../ui.ts";

/** Why an answer is not as it might be, and what to do; nothing if it ended as the model wished. */
export function EndNote({ message, onAgain }: { message: Message; onAgain: (() => void) | undefined }) {
  const { problem, end } = message;
  if (problem) {
    return (
      <div class="notice danger" role="alert">
        <div class="notice-text">
          <strong>{problem.title}</strong> {problem.advice}
          {problem.detail && <p class="notice-detail">{problem.detail}</p>}
        </div>
        {problem.kind === "key" && (
          <Button look="small" onClick={() => (dialog.value = "settings")}>
            Enter a key
          </Button>
        )}
        {onAgain && (
          <Button look="small" onClick={onAgain}>
            Try again
          </Button>
        )}
      </div>
    );
  }
  if (end === "length") {
    return (
      <div class="notice">
        <div class="notice-text">The answer ends here because it reached its longest length, or the end of the context.</div>
        <Button look="small" onClick={() => (dialog.value = "settings")}>
          Change the length
        </Button>
      </div>
    );
  }
  if (end === "stopped") return <p class="end-note">Stopped.</p>;
  if (end === "writing") return <p class="end-note">The page was left before the answer was complete.</p>;
  return null;
}

import { Button } from "../../common/Button.tsx";
import { meetServer, facts, serverProblem } from "../server.ts";
import { say } from "../actions.ts";
import { dialog } from "../ui.ts";

const IDEAS = [
  "Explain how a hash map works, with a small example.",
  "Write a haiku about a quiet machine.",
  "Give me three questions to ask before buying a bicycle.",
] as const;

/** A conversation that has not begun. */
export function Welcome({ talkId }: { talkId: string }) {
  return (
    <div class="welcome">
      <div class="welcome-inner">
        <h2>What would you like to know?</h2>
        <p>
          {facts.value
            ? `${facts.value.model} answers, on the machine that this page came from. Nothing leaves it.`
            : "A model on the machine that this page came from answers. Nothing leaves it."}
        </p>
        <ServerNotice />
        <ul class="ideas">
          {IDEAS.map((idea) => (
            <li key={idea}>
              <button type="button" class="idea" onClick={() => say(talkId, idea, [])}>
                {idea}
              </button>
            </li>
          ))}
        </ul>
      </div>
    </div>
  );
}

function ServerNotice() {
  const problem = serverProblem.value;
  if (!problem) return null;
  return (
    <div class="notice danger" role="alert">
      <div class="notice-text">
        <strong>{problem.title}</strong> {problem.advice}
      </div>
      {problem.kind === "key" && (
        <Button look="small" onClick={() => (dialog.value = "settings")}>
          Enter a key
        </Button>
      )}
      <Button look="small" onClick={() => void meetServer()}>
        Try again
      </Button>
    </div>
  );
}

import { Markdown } from "../markdown/Markdown.tsx";

/** What the model thought before it answered: folded. */
export function Reasoning({ text, growing = false }: { text: string; growing?: boolean }) {
  return (
    <details class="reasoning">
      <summary class={growing ? "busy" : ""}>{growing ? "Thinking…" : `Thought in ${wordCount(text)} words`}</summary>
      <div class="reasoning-text">
        <Markdown text={text} growing={growing} />
      </div>
    </details>
  );
}

function wordCount(text: string): number {
  return text.split(/\s+/).filter((word) => word !== "").length;
}

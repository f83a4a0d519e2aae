import type { Stats } from "../types.ts";

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });

function duration(ms: number): string {
  return ms < 1000 ? `${whole.format(ms)} ms` : `${short.format(ms / 1000)} s`;
}

/** How fast an answer came, and how much of the conversation the server still knew. */
export function Figures({ stats }: { stats: Stats }) {
  const { tokens, tokensPerSecond, firstTokenMs, promptTokens, cachedTokens } = stats;
  const figures: [string, string][] = [];
  if (tokensPerSecond !== undefined) figures.push([`${short.format(tokensPerSecond)} tokens/s`, "Speed of writing"]);
  if (tokens !== undefined) figures.push([`${whole.format(tokens)} tokens`, "Length of the answer"]);
  if (firstTokenMs !== undefined) figures.push([`${duration(firstTokenMs)} to the first`, "Time until the first token"]);
  if (promptTokens !== undefined) {
    const cached = cachedTokens ? `, ${whole.format(cachedTokens)} cached` : "";
    figures.push([`${whole.format(promptTokens)} read${cached}`, "Tokens of the prompt, and how many of them needed no reading"]);
  }
  return (
    <span class="figures">
      {figures.map(([text, title]) => (
        <span key={title} title={title}>
          {text}
        </span>
      ))}
    </span>
  );
}

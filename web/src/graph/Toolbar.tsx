// What step is shown, which stage of it, and what colours mean.
import { useState } from "preact/hooks";
import { Button, IconButton } from "../common/Button.tsx";
import { STAGES } from "./api.ts";
import { record, running } from "./live.ts";
import { comparison } from "./compare.ts";
import { chooseStage, colourBy, graph, play, showStep, stage, step, type ColourBy as Colour } from "./state.ts";
import { plural } from "./words.ts";

const STAGE_TEXT = ["Build", "Assign", "Fuse", "Plan"];
const STAGE_SAYS = [
  "What the model describes: nothing is decided yet.",
  "Every node has an engine: the first in priority order that says yes.",
  "Patterns are folded where the owner has the kernel; what is swallowed fades.",
  "Values have their place; lives that do not meet share a buffer.",
];

/** Tokens of the step, and settings. */
export function StepForm() {
  const [tokens, setTokens] = useState(String(step.value.tokens));
  const [set, setSet] = useState(step.value.set);
  const [known, setKnown] = useState(step.value);
  if (known !== step.value) {
    setKnown(step.value);
    setTokens(String(step.value.tokens));
    setSet(step.value.set);
  }
  const submit = (event: Event) => {
    event.preventDefault();
    const n = Math.max(1, Math.round(Number(tokens)) || 1);
    void showStep({ tokens: n, rows: 1, set: set.trim() });
  };
  return (
    <form class="step-form" onSubmit={submit}>
      <label>
        <span>Tokens</span>
        <input class="input" type="number" min="1" max="65536" value={tokens} onInput={(e) => setTokens(e.currentTarget.value)} title="Tokens in the step: 1 is a decode step" />
      </label>
      <label class="grow">
        <span>Settings</span>
        <input class="input" list="known-settings" value={set} placeholder="the defaults" spellcheck={false} autocomplete="off" onInput={(e) => setSet(e.currentTarget.value)} title="As minfer graph --set takes them" />
      </label>
      <datalist id="known-settings">
        {["fuse=off", "fuse_qkv=off", "fuse_ffn=off", "kv=f32", "kv=q8_0", "threads=1", "isa=scalar"].map((it) => <option key={it} value={it} />)}
      </datalist>
      <Button look="" type="submit">Show</Button>
    </form>
  );
}

/** Build → assign → fuse → plan. */
export function StageSwitch() {
  const fusions = graph.value?.fusions ?? [];
  const taken = fusions.filter((it) => it.refused === null).length;
  return (
    <div class="stage-switch">
      <div class="segments" role="radiogroup" aria-label="Stage">
        {STAGES.map((name, i) => (
          <button
            key={name}
            type="button"
            class="segment"
            role="radio"
            aria-checked={stage.value === i}
            tabIndex={stage.value === i ? 0 : -1}
            onClick={() => chooseStage(i)}
            onKeyDown={(event) => {
              const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
              if (by === undefined) return;
              event.preventDefault();
              chooseStage(i + by);
              const all = event.currentTarget.parentElement?.children;
              (all?.[Math.max(0, Math.min(STAGES.length - 1, i + by))] as HTMLElement | undefined)?.focus();
            }}
          >
            {STAGE_TEXT[i]}
          </button>
        ))}
      </div>
      <IconButton icon="play" label="Let the passes happen" look="" onClick={play} />
      <p class="stage-says" role="status">
        {STAGE_SAYS[stage.value]} {stage.value === 2 && fusions.length > 0 ? `${plural(taken, "fusion")} taken, ${fusions.length - taken} refused.` : ""}
      </p>
    </div>
  );
}

/** What the colours of nodes mean; what cannot be told yet cannot be chosen. */
export function ColourBy() {
  const isRun = record.value !== null || running.value;
  const choices: [Colour, string, boolean][] = [
    ["backend", "engine", true],
    ["memory", "buffer", true],
    ["time", "time", isRun],
    ["size", "size of values", isRun],
    ["difference", "difference", comparison.value !== null],
  ];
  return (
    <div class="colours">
      <label>
        <span>Colour by</span>
        <select
          class="input"
          value={colourBy.value}
          onChange={(event) => {
            colourBy.value = event.currentTarget.value as Colour;
            if (colourBy.value === "memory") chooseStage(STAGES.length - 1);
          }}
        >
          {choices.map(([value, text, can]) => <option key={value} value={value} disabled={!can}>{text}</option>)}
        </select>
      </label>
      <Legend />
    </div>
  );
}

function Legend() {
  switch (colourBy.value) {
    case "backend":
      return <span class="legend"><i class="swatch on-cpu" /> {graph.value?.splits.map((it) => it.backend).filter((it, i, all) => all.indexOf(it) === i).join(", ") || (stage.value === 0 ? "not yet" : "cpu")}</span>;
    case "memory":
      return <span class="legend">one hue a buffer</span>;
    case "difference":
      return <span class="legend"><i class="swatch same" /> equal <i class="swatch differs" /> differs</span>;
    default:
      return <span class="legend"><i class="swatch ramp" /> {colourBy.value === "time" ? "to the slowest" : "least to greatest rms"}</span>;
  }
}

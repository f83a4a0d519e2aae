// A run of a prompt, as it is told step by step.
import { batch, computed, effect, signal } from "@preact/signals";
import { BROKEN, RequestError } from "../common/http.ts";
import { events, fetchValues, type LiveEvent, type NodeReport, type Token, type Values } from "./api.ts";
import { colourBy, report, selected, showStep, step, stopPlaying } from "./state.ts";

type Done = Extract<LiveEvent, { type: "done" }>;

export interface StepRecord {
  kind: "prefill" | "decode";
  nTokens: number;
  nOut: number;
  first: number;
  nodes: Map<string, NodeReport>;
  /** Microseconds of all nodes together. */
  total: number;
  done: Done | null;
}

/** What is typed, kept while another tab is shown. */
export const form = signal({ prompt: "The quick brown fox", tokens: 16, temperature: 0 });
export const running = signal(false);
export const weights = signal<{ done: number; total: number } | null>(null);
export const prompt = signal<Token[]>([]);
export const records = signal<StepRecord[]>([]);
/** The step that is looked at; the newest while a run goes on, unless another was chosen. */
export const shown = signal(0);
export const following = signal(true);
export const ended = signal<string | null>(null);
export const failure = signal<string | null>(null);
/** The settings that the run was started with. */
const runSettings = signal("");

export const record = computed<StepRecord | null>(() => records.value[shown.value] ?? null);

export const answer = computed(() => records.value.map((it) => it.done?.choice?.adds ?? "").join(""));

let control: AbortController | null = null;

export interface RunRequest {
  prompt: string;
  max_tokens: number;
  temperature: number;
  set: string;
}

export async function run(wanted: RunRequest): Promise<void> {
  stop();
  stopPlaying();
  const own = new AbortController();
  control = own;
  batch(() => {
    running.value = true;
    weights.value = null;
    prompt.value = [];
    records.value = [];
    shown.value = 0;
    following.value = true;
    ended.value = null;
    failure.value = null;
    runSettings.value = wanted.set;
    if (colourBy.value !== "size") colourBy.value = "time";
  });
  try {
    for await (const event of events<LiveEvent>("graph/live", wanted, own.signal)) {
      if (own.signal.aborted) break;
      batch(() => take(event));
    }
    if (!own.signal.aborted && ended.value === null && failure.value === null) failure.value = BROKEN.title;
  } catch (error) {
    if (own.signal.aborted) return;
    if (error instanceof RequestError) failure.value = `${error.problem.title} ${error.problem.detail ?? error.problem.advice}`;
    else failure.value = BROKEN.title;
  } finally {
    if (control === own) {
      running.value = false;
      control = null;
    }
  }
}

export function stop(): void {
  if (control) ended.value = "stopped";
  control?.abort();
  control = null;
  running.value = false;
}

function take(event: LiveEvent): void {
  switch (event.type) {
    case "loading":
      weights.value = event;
      return;
    case "start":
      weights.value = null;
      prompt.value = event.tokens;
      return;
    case "step":
      records.value = [
        ...records.value,
        { kind: event.kind, nTokens: event.n_tokens, nOut: event.n_out, first: event.first, nodes: new Map(), total: 0, done: null },
      ];
      if (following.value) shown.value = records.value.length - 1;
      return;
    case "nodes": {
      const last = records.value.at(-1);
      if (last) changed.add(last);
      for (const node of event.nodes) {
        last?.nodes.set(node.name, node);
        if (last) last.total += node.us;
      }
      break;
    }
    case "done": {
      const last = records.value[event.step];
      if (last) {
        last.done = event;
        changed.add(last);
      }
      break;
    }
    case "end":
      ended.value = event.reason;
      paint();
      return;
    case "error":
      failure.value = event.message;
      paint();
      return;
  }
  // Hundreds of boxes change their colour: not more often than can be seen.
  painting ||= window.setTimeout(paint, PAINT_MS);
}

const PAINT_MS = 60;
let painting = 0;
/** Steps that have changed since they were painted. */
const changed = new Set<StepRecord>();

function paint(): void {
  window.clearTimeout(painting);
  painting = 0;
  // Anew, so that whoever shows them sees that they have changed.
  records.value = records.value.map((it) => (it.done && !changed.has(it) ? it : { ...it }));
  changed.clear();
}

/** Looks at a step; the newest follows the run. */
export function show(at: number): void {
  batch(() => {
    shown.value = Math.max(0, Math.min(records.value.length - 1, at));
    following.value = running.value && shown.value === records.value.length - 1;
  });
}

// The graph is that of the step which is looked at.
const wantedStep = computed(() => {
  const it = records.value[shown.value];
  return it ? `${it.nTokens} ${it.nOut} ${runSettings.value}` : "";
});
effect(() => {
  if (wantedStep.value === "") return;
  const it = records.peek()[shown.peek()];
  if (!it) return;
  const now = step.peek();
  const set = runSettings.peek();
  if (now.tokens !== it.nTokens || now.rows !== it.nOut || now.set !== set) void showStep({ tokens: it.nTokens, rows: it.nOut, set });
});

export const values = signal<{ of: string; step: number; values: Values } | null>(null);
export const valuesProblem = signal<string | null>(null);
let looking: AbortController | null = null;

// The values of the selected node, at the step that is looked at, once that has run.
const wantedValues = computed(() => {
  const node = selected.value;
  const it = record.value;
  if (!node || !it?.done || !it.nodes.get(node.name)?.stats) return "";
  return `${shown.value}\n${node.name}`;
});
effect(() => {
  const wanted = wantedValues.value;
  looking?.abort();
  valuesProblem.value = null;
  if (wanted === "") {
    values.value = null;
    return;
  }
  const [at = "0", ...name] = wanted.split("\n");
  void look(Number(at), name.join("\n"));
});

async function look(at: number, name: string): Promise<void> {
  const own = new AbortController();
  looking = own;
  try {
    const found = await fetchValues(at, name, own.signal);
    if (!own.signal.aborted) values.value = { of: name, step: at, values: found };
  } catch (error) {
    if (own.signal.aborted) return;
    values.value = null;
    if (error instanceof RequestError) valuesProblem.value = error.problem.detail ?? error.problem.title;
    else report(error);
  }
}

/** The share of the step's time that a node took. */
export function shareOf(name: string): number | null {
  const it = record.value;
  const node = it?.nodes.get(name);
  return it && node && it.total > 0 ? node.us / it.total : null;
}

/** Nodes by time, the slowest first. */
export function slowest(n: number): NodeReport[] {
  const it = record.value;
  return it ? [...it.nodes.values()].sort((a, b) => b.us - a.us).slice(0, n) : [];
}

/** The figures of the selected node at the shown step. */
export const selectedStats = computed(() => {
  const node = selected.value;
  return (node && record.value?.nodes.get(node.name)?.stats) || null;
});

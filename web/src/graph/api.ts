// What the server tells of graphs and runs (docs/schemas holds the first two), and how it is asked.
import { getJson, request } from "../common/http.ts";
import { serverSentEvents } from "../common/sse.ts";

export const STAGES = ["built", "assigned", "fused", "planned"] as const;
export type Stage = (typeof STAGES)[number];

export interface Weight {
  name: string;
  type: string;
  shape: number[];
}

export interface GraphNode {
  id: number;
  name: string;
  op: string;
  attributes: Record<string, string>;
  src: number[];
  shape: number[];
  dtype: string;
  layer: number | null;
  backend: string | null;
  reason: string | null;
  live: boolean | null;
  buffer: { bytes: number; ordinal: number; offset: number } | null;
  alias: number | null;
  weights: Weight[];
}

export interface Fusion {
  rule: string;
  node: number;
  refused: string | null;
}

export interface Graph {
  stage: Stage;
  params: Record<string, unknown> & { n_tokens: number; type: string };
  nodes: GraphNode[];
  inputs: number[];
  outputs: number[];
  splits: { backend: string; nodes: number[] }[];
  fusions: Fusion[];
}

export interface Life {
  buffer: number;
  bytes: number;
  first: number;
  last: number;
  values: { node: number; offset: number; bytes: number; copy: boolean }[];
}

export interface Memory {
  n_nodes: number;
  arenas: { backend: string; bytes: number }[];
  buffers: { backend: string; bytes: number; ordinal: number; address: number }[];
  lives: Life[];
}

/** The graph of a step as each pass leaves it, in the order of the passes, and where its values lie. */
export interface Stages {
  stages: Graph[];
  memory: Memory;
}

export interface ModelFacts {
  name: string;
  architecture: string;
  n_layers: number;
  n_vocab: number;
  n_ctx: number;
  settings: { key: string; value: string; help: string }[];
  parts: { name: string; bytes: number }[];
  limits: { prompt: number; tokens: number; compare_prompt: number; compare_tokens: number };
}

export interface Stats {
  n: number;
  nan: number;
  inf: number;
  min: number;
  max: number;
  mean: number;
  rms: number;
}

export interface NodeReport {
  name: string;
  us: number;
  stats: Stats | null;
}

export interface Token {
  id: number;
  text: string;
}

export type LiveEvent =
  | { type: "loading"; done: number; total: number }
  | { type: "start"; tokens: Token[] }
  | { type: "step"; step: number; kind: "prefill" | "decode"; n_tokens: number; n_out: number; first: number }
  | { type: "nodes"; nodes: NodeReport[] }
  | {
      type: "done";
      step: number;
      us: number;
      top: (Token & { logit: number; p: number })[];
      choice: (Token & { adds: string }) | null;
      kv: { n_tokens: number; n_ctx: number; n_blocks: number; n_blocks_max: number };
      stopped: string | null;
    }
  | { type: "end"; reason: string }
  | { type: "error"; message: string };

export interface Values {
  shape: number[];
  stats: Stats;
  histogram: number[];
  heat: { rows: number; columns: number; cells: (number | string)[] };
}

export interface Worst {
  size: number | string;
  token: number;
  index: number;
  a: number | string;
  b: number | string;
}

export interface Difference {
  a: { name: string; op: string; backend: string };
  b: { name: string; op: string; backend: string };
  part: string | null;
  n_tokens: number;
  n_tokens_differing: number;
  n_elems: number;
  n_elems_differing: number;
  absolute: Worst;
  relative: Worst;
  ulps: Worst;
}

export interface Report {
  a: string;
  b: string;
  identical: boolean;
  tokens: number[];
  n_prompt: number;
  n_values: number;
  n_elems: number;
  n_differing: number;
  n_misfits: number;
  nodes: { a: string; b: string; n_values: number; n_differing: number }[];
  only_a: { name: string }[];
  only_b: { name: string }[];
  first: Difference | null;
  growth: Difference[];
  choices: { position: number; a: number; b: number }[];
}

export type CompareEvent =
  | { type: "progress"; done: number; total: number }
  | { type: "report"; report: Report; texts: Record<string, string> }
  | { type: "error"; message: string };

/** What decides a graph: the size of the step, and settings as `minfer graph --set` takes them. */
export interface Step {
  tokens: number;
  rows: number;
  set: string;
}

export function fetchModel(): Promise<ModelFacts> {
  return getJson<ModelFacts>("graph/model");
}

export async function fetchStages(step: Step, signal?: AbortSignal): Promise<Stages> {
  const json = { tokens: step.tokens, out_rows: step.rows, set: step.set };
  const response = await request("graph/stages", signal ? { json, signal } : { json });
  return (await response.json()) as Stages;
}

export async function fetchValues(step: number, node: string, signal: AbortSignal): Promise<Values> {
  const response = await request("graph/values", { json: { step, node }, signal });
  return (await response.json()) as Values;
}

/** Events of a run or of a comparison, until it ends or `signal` says so. */
export async function* events<T>(path: string, json: unknown, signal: AbortSignal): AsyncGenerator<T> {
  const response = await request(path, { json, signal });
  if (!response.body) return;
  for await (const data of serverSentEvents(response.body)) yield JSON.parse(data) as T;
}

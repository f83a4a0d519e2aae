// What the page shows: one place for all of it. Parts of the page read signals; actions below change them.
import { batch, computed, signal } from "@preact/signals";
import { RequestError, UNREACHABLE, type Problem } from "../common/http.ts";
import { fetchModel, fetchStages, STAGES, type GraphNode, type ModelFacts, type Stages, type Step } from "./api.ts";
import { consumersOf } from "./fold.ts";
import { layOut } from "./layout.ts";
import { Viewport } from "./viewport.ts";

export type Tab = "node" | "run" | "memory" | "compare";
export type ColourBy = "backend" | "memory" | "time" | "size" | "difference";

/** What the keyboard is on: a node, or a folded or open layer as a whole. */
export type Active = { node: number } | { layer: number } | null;

export const model = signal<ModelFacts | null>(null);
export const step = signal<Step>({ tokens: 16, rows: 1, set: "" });
export const stages = signal<Stages | null>(null);
/** Index into STAGES. */
export const stage = signal(STAGES.length - 1);
export const open = signal<ReadonlySet<number>>(new Set());
export const active = signal<Active>(null);
export const colourBy = signal<ColourBy>("backend");
export const tab = signal<Tab>("node");
export const problem = signal<Problem | null>(null);
export const loading = signal(false);

export const viewport = new Viewport();

export const graph = computed(() => stages.value?.stages[stage.value] ?? null);
export const layout = computed(() => {
  const [built] = stages.value?.stages ?? [];
  const planned = stages.value?.stages.at(-1);
  return built && planned ? layOut(built, planned, open.value) : null;
});
/** Who reads a node at this stage. */
export const consumers = computed(() => (graph.value ? consumersOf(graph.value) : []));
export const layers = computed(() => layout.value?.blocks.filter((b) => b.block.isLayer).map((b) => b.block.layer) ?? []);
export const selected = computed<GraphNode | null>(() => {
  const it = active.value;
  return it && "node" in it ? (graph.value?.nodes[it.node] ?? null) : null;
});

export function report(error: unknown): void {
  if (error instanceof DOMException && error.name === "AbortError") return;
  problem.value = error instanceof RequestError ? error.problem : { ...UNREACHABLE, detail: String(error) };
}

/** Graphs that were fetched, newest last. */
const known = new Map<string, Stages>();
const KNOWN = 12;

export async function stagesOf(wanted: Step, signal?: AbortSignal): Promise<Stages> {
  const key = JSON.stringify(wanted);
  let found = known.get(key);
  if (!found) found = await fetchStages(wanted, signal);
  known.delete(key);
  known.set(key, found);
  for (const oldest of [...known.keys()].slice(0, -KNOWN)) known.delete(oldest);
  return found;
}

let pending: AbortController | null = null;

/** Shows the graph of another step, with the selection kept by name. */
export async function showStep(wanted: Step): Promise<void> {
  pending?.abort();
  const control = new AbortController();
  pending = control;
  loading.value = true;
  try {
    const found = await stagesOf(wanted, control.signal);
    if (control.signal.aborted) return;
    const name = selected.value?.name;
    batch(() => {
      step.value = wanted;
      stages.value = found;
      problem.value = null;
      const again = name === undefined ? undefined : nodeNamed(found, name);
      if (selected.value) active.value = again ? { node: again.id } : null;
    });
  } catch (error) {
    report(error);
  } finally {
    if (pending === control) loading.value = false;
  }
}

export function nodeNamed(all: Stages, name: string): GraphNode | undefined {
  return all.stages.at(-1)?.nodes.find((node) => node.name === name);
}

export async function start(): Promise<void> {
  try {
    model.value = await fetchModel();
  } catch (error) {
    report(error);
  }
  await showStep(step.value);
}

export function setOpen(layer: number, isOpen: boolean): void {
  const next = new Set(open.value);
  if (isOpen) next.add(layer);
  else next.delete(layer);
  batch(() => {
    open.value = next;
    const node = selected.value;
    if (!isOpen && node && node.layer === layer) active.value = { layer };
  });
}

export function openAll(isOpen: boolean): void {
  batch(() => {
    const node = selected.value;
    open.value = new Set(isOpen ? layers.value : []);
    if (!isOpen && node && node.layer !== null) active.value = { layer: node.layer };
  });
}

/** Selects a node, opens its layer and brings it into view. */
export function goTo(node: GraphNode, how: "centre" | "reveal" = "centre"): void {
  batch(() => {
    if (node.layer !== null && !open.value.has(node.layer)) open.value = new Set(open.value).add(node.layer);
    active.value = { node: node.id };
  });
  const box = layout.value?.boxes.get(node.id);
  if (!box) return;
  if (how === "centre") viewport.centre(box.x, box.y);
  else viewport.reveal(box.x, box.y, 200, 60);
}

let playing = 0;
const STAGE_MS = 1500;

/** Lets the passes happen one after the other. */
export function play(): void {
  stopPlaying();
  stage.value = 0;
  playing = window.setInterval(() => {
    if (stage.value >= STAGES.length - 1) return stopPlaying();
    stage.value += 1;
  }, STAGE_MS);
}

export function stopPlaying(): void {
  window.clearInterval(playing);
  playing = 0;
}

export function chooseStage(index: number): void {
  stopPlaying();
  stage.value = Math.max(0, Math.min(STAGES.length - 1, index));
}

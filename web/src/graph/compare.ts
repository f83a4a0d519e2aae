// Two settings compared, node by node.
import { batch, computed, signal } from "@preact/signals";
import { BROKEN, RequestError } from "../common/http.ts";
import { events, type CompareEvent, type Report, type Stages } from "./api.ts";
import { colourBy, nodeNamed, stages, stagesOf, step, showStep, goTo } from "./state.ts";
import { stop as stopRun } from "./live.ts";

/** What is typed, kept while another tab is shown. */
export const form = signal({ prompt: "The quick brown fox", a: "", b: "fuse=off", tokens: 2 });
export const comparing = signal(false);
export const progress = signal<{ done: number; total: number } | null>(null);
export const comparison = signal<Report | null>(null);
export const texts = signal<Record<string, string>>({});
export const failure = signal<string | null>(null);
/** The graph of the second side, while both are shown. */
export const otherStages = signal<Stages | null>(null);

/** What became of each node, by its name on either side: the share of its values that differ. */
export const verdicts = computed(() => {
  const a = new Map<string, number>();
  const b = new Map<string, number>();
  for (const node of comparison.value?.nodes ?? []) {
    const share = node.n_differing / Math.max(1, node.n_values);
    a.set(node.a, Math.max(a.get(node.a) ?? 0, share));
    b.set(node.b, Math.max(b.get(node.b) ?? 0, share));
  }
  return { a, b };
});

let control: AbortController | null = null;

export interface CompareRequest {
  prompt: string;
  a: string;
  b: string;
  max_tokens: number;
}

export async function compare(wanted: CompareRequest): Promise<void> {
  stopRun();
  stop();
  const own = new AbortController();
  control = own;
  batch(() => {
    comparing.value = true;
    progress.value = null;
    comparison.value = null;
    otherStages.value = null;
    failure.value = null;
  });
  try {
    for await (const event of events<CompareEvent>("graph/ab", wanted, own.signal)) {
      if (event.type === "progress") progress.value = event;
      else if (event.type === "error") failure.value = event.message;
      else await finish(wanted, event.report, event.texts);
    }
  } catch (error) {
    if (own.signal.aborted) return;
    failure.value = error instanceof RequestError ? `${error.problem.title} ${error.problem.detail ?? ""}` : BROKEN.title;
  } finally {
    if (control === own) {
      comparing.value = false;
      control = null;
    }
  }
}

async function finish(wanted: CompareRequest, report: Report, names: Record<string, string>): Promise<void> {
  await showBoth(wanted, report);
  batch(() => {
    comparison.value = report;
    texts.value = names;
    colourBy.value = "difference";
  });
  const first = report.first && stages.value ? nodeNamed(stages.value, report.first.a.name) : undefined;
  if (!first) return;
  // Once both drawings have their place.
  await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  goTo(first);
}

/** Both graphs: of the prompt's step, or of a token's if the first difference is only there. */
async function showBoth(wanted: CompareRequest, report: Report): Promise<void> {
  const size = { tokens: Math.max(1, report.n_prompt), rows: 1 };
  await showStep({ ...size, set: wanted.a });
  const first = report.first;
  if (first && stages.value && !nodeNamed(stages.value, first.a.name)) {
    Object.assign(size, { tokens: 1 });
    await showStep({ ...size, set: wanted.a });
  }
  otherStages.value = await stagesOf({ ...step.value, set: wanted.b });
}

export function stop(): void {
  control?.abort();
  control = null;
  comparing.value = false;
}

/** Back to one graph. */
export function close(): void {
  batch(() => {
    otherStages.value = null;
    comparison.value = null;
    if (colourBy.value === "difference") colourBy.value = "backend";
  });
}

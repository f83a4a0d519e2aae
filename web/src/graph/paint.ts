// What colour a node has, and what stands in its corner.
import { computed, type ReadonlySignal } from "@preact/signals";
import type { GraphNode } from "./api.ts";
import { verdicts, comparison } from "./compare.ts";
import { record } from "./live.ts";
import { colourBy, stages } from "./state.ts";
import { numberText, timeText } from "./words.ts";

/** `heat` from 0 to 1, or a hue of the colour circle; `note` in the node's corner; `mark` for what must be seen. */
export interface Paint {
  heat?: number;
  hue?: number;
  note?: string;
  mark?: "bad" | "same" | "differs";
}

const PLAIN: Paint = {};

export type Painter = (node: GraphNode) => Paint;

function painterOf(side: "a" | "b"): ReadonlySignal<Painter> {
  return computed(() => {
    switch (colourBy.value) {
      case "backend":
        return () => PLAIN;
      case "memory":
        return byBuffer();
      case "time":
        return byTime();
      case "size":
        return bySize();
      case "difference":
        return byDifference(side);
    }
  });
}

export const painter = { a: painterOf("a"), b: painterOf("b") };

/** Each buffer has a hue; neighbours in the list are far apart on the circle. */
export function hueOf(index: number): number {
  return (index * 137.508) % 360;
}

/** Index of a node's buffer among all of them, by the node's id. */
export const bufferIndex = computed(() => {
  const index = new Map<number, number>();
  for (const life of stages.value?.memory.lives ?? []) {
    for (const value of life.values) if (!value.copy) index.set(value.node, life.buffer);
  }
  return index;
});

function byBuffer(): Painter {
  const index = bufferIndex.value;
  return (node) => {
    const buffer = node.buffer ? index.get(node.id) : undefined;
    return buffer === undefined ? PLAIN : { hue: hueOf(buffer), note: `#${buffer}` };
  };
}

function byTime(): Painter {
  const it = record.value;
  if (!it) return () => PLAIN;
  const most = Math.max(1e-9, ...[...it.nodes.values()].map((node) => node.us));
  return (node) => {
    const seen = it.nodes.get(node.name);
    if (!seen) return PLAIN;
    const heat = Math.sqrt(seen.us / most);
    return isBad(seen.stats) ? { heat, note: timeText(seen.us), mark: "bad" } : { heat, note: timeText(seen.us) };
  };
}

function bySize(): Painter {
  const it = record.value;
  if (!it) return () => PLAIN;
  const logs = [...it.nodes.values()].flatMap((node) => (node.stats && node.stats.rms > 0 ? [Math.log(node.stats.rms)] : []));
  const [least, most] = [Math.min(...logs), Math.max(...logs)];
  return (node) => {
    const stats = it.nodes.get(node.name)?.stats;
    if (!stats) return PLAIN;
    const heat = stats.rms > 0 && most > least ? (Math.log(stats.rms) - least) / (most - least) : 0;
    const note = numberText(stats.rms);
    return isBad(stats) ? { heat, note, mark: "bad" } : { heat, note };
  };
}

function isBad(stats: { nan: number; inf: number } | null): boolean {
  return stats !== null && stats.nan + stats.inf > 0;
}

function byDifference(side: "a" | "b"): Painter {
  const shares = verdicts.value[side];
  if (!comparison.value) return () => PLAIN;
  return (node) => {
    const share = shares.get(node.name);
    if (share === undefined) return PLAIN;
    return share === 0 ? { mark: "same", note: "=" } : { mark: "differs", heat: 0.35 + share * 0.65, note: `${Math.round(share * 100)} %` };
  };
}

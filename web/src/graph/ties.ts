// What the selected node reads, and who reads it.
import type { Graph } from "./api.ts";
import { NODE_HEIGHT, pathOf, type Box, type Layout } from "./layout.ts";

export interface Ties {
  box: Box;
  /** Paths of lines from what the node reads. */
  into: string;
  /** Paths of lines to who reads it. */
  out: string;
}

/** Null where the node is not drawn. */
export function tiesOf(graph: Graph, layout: Layout, node: number): Ties | null {
  const box = layout.boxes.get(node);
  const it = graph.nodes[node];
  if (!box || !it) return null;
  const between = (from: Box | undefined, to: Box | undefined) =>
    from && to ? pathOf([{ x: from.x, y: from.y + NODE_HEIGHT / 2 }, { x: to.x, y: to.y - NODE_HEIGHT / 2 }]) : "";
  const readers = graph.nodes.filter((other) => other.src.includes(node));
  return {
    box,
    into: it.src.map((source) => between(layout.boxes.get(source), box)).join(""),
    out: readers.map((reader) => between(box, layout.boxes.get(reader.id))).join(""),
  };
}

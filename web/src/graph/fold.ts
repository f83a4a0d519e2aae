// The graph cut into blocks: what comes before the layers, each layer, what comes after. A folded layer is one box.
import type { Graph, GraphNode } from "./api.ts";

/** `-1` before the layers, `n_layers` after them. */
export interface Block {
  layer: number;
  title: string;
  nodes: GraphNode[];
  /** Whether it can be folded. */
  isLayer: boolean;
}

export function blocksOf(graph: Graph): Block[] {
  const nLayers = graph.nodes.reduce((most, node) => Math.max(most, (node.layer ?? -1) + 1), 0);
  const blocks: Block[] = [];
  for (let layer = -1; layer <= nLayers; layer++) {
    const isLayer = layer >= 0 && layer < nLayers;
    const title = isLayer ? `Layer ${layer}` : layer < 0 ? "Before the layers" : "After the layers";
    blocks.push({ layer, title, nodes: [], isLayer });
  }
  const firstInLayer = graph.nodes.findIndex((node) => node.layer !== null);
  for (const node of graph.nodes) {
    const isEarly = firstInLayer < 0 || node.id < firstInLayer || node.op === "Input";
    const layer = node.layer ?? (isEarly ? -1 : nLayers);
    blocks[layer + 1]?.nodes.push(node);
  }
  return blocks.filter((block) => block.nodes.length > 0);
}

/** The name without the layer in front, which the block says already. */
export function shortName(node: GraphNode): string {
  return node.layer === null ? node.name : node.name.replace(/^\d+\./, "");
}

/** `896 × 16`: extents without the unused ones behind. */
export function shapeText(shape: number[]): string {
  let used = shape.length;
  while (used > 1 && shape[used - 1] === 1) used--;
  return shape.slice(0, used).join(" × ");
}

/** Who reads each node, by id. */
export function consumersOf(graph: Graph): number[][] {
  const consumers: number[][] = graph.nodes.map(() => []);
  for (const node of graph.nodes) {
    for (const source of node.src) {
      const readers = consumers[source];
      if (readers && readers[readers.length - 1] !== node.id) readers.push(node.id);
    }
  }
  return consumers;
}

/** Nodes whose name, op or weight has the words, in the order of execution. */
export function search(graph: Graph, words: string): GraphNode[] {
  const wanted = words.toLowerCase().split(/\s+/).filter((word) => word !== "");
  if (wanted.length === 0) return [];
  return graph.nodes.filter((node) => {
    const text = [node.name, node.op, node.backend ?? "", ...node.weights.map((w) => `${w.name} ${w.type}`)].join(" ").toLowerCase();
    return wanted.every((word) => text.includes(word));
  });
}

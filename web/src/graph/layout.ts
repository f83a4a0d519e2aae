// Where boxes and lines are drawn. Each open block is laid out on its own by dagre, and blocks stand one below the other:
// layers are alike, so a layout serves all of them, and a graph of a thousand nodes takes as long as one of its layers.
import dagre from "@dagrejs/dagre";
import type { Graph, GraphNode } from "./api.ts";
import { blocksOf, type Block } from "./fold.ts";

export const NODE_WIDTH = 172;
export const NODE_HEIGHT = 44;
const FOLDED_WIDTH = 240;
const FOLDED_HEIGHT = 40;
const GAP = 34;
const HEAD = 30;
const PAD = 18;
const NODE_GAP = 16;

export interface Point {
  x: number;
  y: number;
}

/** A node's box; the point is its middle. */
export interface Box extends Point {
  node: GraphNode;
}

export interface Line {
  from: number;
  to: number;
  points: Point[];
}

export interface PlacedBlock {
  block: Block;
  isOpen: boolean;
  x: number;
  y: number;
  width: number;
  height: number;
  boxes: Box[];
  /** Lines within the block, and from its upper edge to who reads what comes from above. */
  lines: Line[];
}

export interface Layout {
  blocks: PlacedBlock[];
  boxes: Map<number, Box>;
  /** Lines between blocks. */
  between: Line[];
  width: number;
  height: number;
}

interface Local {
  width: number;
  height: number;
  at: Point[];
  lines: Line[];
}

/** Both graphs have the same nodes; a line is there if either has it, so that boxes stay where they are from stage to stage. */
export function layOut(built: Graph, planned: Graph, open: ReadonlySet<number>): Layout {
  const cache = new Map<string, Local>();
  const sources = mergedSources(built, planned);
  const inputs = new Set(built.inputs);
  const blocks = blocksOf(planned).map((block) => {
    const isOpen = !block.isLayer || open.has(block.layer);
    return isOpen ? openBlock(block, sources, inputs, cache) : foldedBlock(block);
  });
  const size = stack(blocks, open.size);
  const boxes = new Map<number, Box>();
  for (const block of blocks) for (const box of block.boxes) boxes.set(box.node.id, box);
  return { blocks, boxes, between: between(blocks, boxes, sources, inputs), ...size };
}

/** With more open layers than this, blocks stand in columns, so that all of them fit into a window. */
const MOST_IN_COLUMN = 5;
/** Width over height of a window. */
const ASPECT = 1.3;

/** Puts blocks one below the other, in as many columns as make a good shape; x = 0 is the middle of all. */
function stack(blocks: PlacedBlock[], nOpen: number): { width: number; height: number } {
  const total = blocks.reduce((sum, block) => sum + block.height + GAP, 0);
  const widest = blocks.reduce((most, block) => Math.max(most, block.width), FOLDED_WIDTH);
  const column = widest + 2 * GAP;
  const n = nOpen <= MOST_IN_COLUMN ? 1 : Math.max(1, Math.round(Math.sqrt((total * ASPECT) / column)));
  const full = total / n;
  let [at, y, height, above] = [0, 0, 0, 0];
  for (const block of blocks) {
    // By its place in one long column, so that what is left over does not pile up in the last one.
    const wanted = Math.min(n - 1, Math.floor((above + block.height / 2) / full));
    above += block.height + GAP;
    if (wanted > at) {
      at = wanted;
      y = 0;
    }
    const middle = (at - (n - 1) / 2) * column;
    shift(block, middle - block.width / 2, y);
    y += block.height + GAP;
    height = Math.max(height, y - GAP);
  }
  return { width: widest + (n - 1) * column, height };
}

function mergedSources(built: Graph, planned: Graph): number[][] {
  return planned.nodes.map((node) => [...new Set([...node.src, ...(built.nodes[node.id]?.src ?? [])])]);
}

function foldedBlock(block: Block): PlacedBlock {
  return { block, isOpen: false, x: 0, y: 0, width: FOLDED_WIDTH, height: FOLDED_HEIGHT, boxes: [], lines: [] };
}

function openBlock(block: Block, sources: number[][], inputs: Set<number>, cache: Map<string, Local>): PlacedBlock {
  const first = block.nodes[0]?.id ?? 0;
  const index = new Map(block.nodes.map((node, at) => [node.id, at]));
  const key = JSON.stringify(block.nodes.map((node) => (sources[node.id] ?? []).map((s) => (inputs.has(s) && !index.has(s) ? "in" : s - first))));
  let local = cache.get(key);
  if (!local) {
    local = placeNodes(block, sources, inputs, index, first);
    cache.set(key, local);
  }
  const boxes = block.nodes.map((node, at) => ({ node, x: local.at[at]?.x ?? 0, y: local.at[at]?.y ?? 0 }));
  const lines = local.lines.map((line) => ({ from: line.from + first, to: line.to + first, points: line.points.map((p) => ({ ...p })) }));
  return { block, isOpen: true, x: 0, y: 0, width: local.width, height: local.height, boxes, lines };
}

/** Positions within the block; ids are relative to its first node. */
function placeNodes(block: Block, sources: number[][], inputs: Set<number>, index: Map<number, number>, first: number): Local {
  const graph = new dagre.graphlib.Graph();
  graph.setGraph({ rankdir: "TB", nodesep: NODE_GAP, ranksep: 26, marginx: PAD, marginy: 0 });
  graph.setDefaultEdgeLabel(() => ({}));
  const read = new Set(block.nodes.flatMap((node) => sources[node.id] ?? []));
  // Inputs that only other blocks read stand at the sides.
  const beside = block.nodes.filter((node) => inputs.has(node.id) && !read.has(node.id));
  for (const node of block.nodes) {
    if (!beside.includes(node)) graph.setNode(String(node.id - first), { width: NODE_WIDTH, height: NODE_HEIGHT });
  }
  for (const node of block.nodes) {
    for (const source of sources[node.id] ?? []) {
      if (!index.has(source)) {
        if (inputs.has(source)) continue;
        if (!graph.hasNode(String(source - first))) graph.setNode(String(source - first), { width: 8, height: 2 });
      }
      graph.setEdge(String(source - first), String(node.id - first));
    }
  }
  dagre.layout(graph);
  const size = graph.graph() as { width?: number; height?: number };
  const side = beside.length > 0 ? NODE_WIDTH + NODE_GAP : 0;
  const perSide = Math.ceil(beside.length / 2);
  const width = Math.max(size.width ?? NODE_WIDTH, NODE_WIDTH + 2 * PAD) + 2 * side;
  const height = Math.max(size.height ?? NODE_HEIGHT, perSide * (NODE_HEIGHT + NODE_GAP) - NODE_GAP) + HEAD + PAD;
  const at = block.nodes.map((node) => {
    const place = beside.indexOf(node);
    if (place >= 0) {
      const x = place < perSide ? PAD + NODE_WIDTH / 2 : width - PAD - NODE_WIDTH / 2;
      return { x, y: HEAD + NODE_HEIGHT / 2 + (place % perSide) * (NODE_HEIGHT + NODE_GAP) };
    }
    const { x, y } = graph.node(String(node.id - first)) as Point;
    return { x: x + side, y: y + HEAD };
  });
  const lines = graph.edges().map(({ v, w }: { v: string; w: string }) => {
    const { points } = graph.edge(v, w) as { points: Point[] };
    const inside = points.map(({ x, y }) => ({ x: x + side, y: y + HEAD }));
    // What comes from above enters at the upper edge.
    const port = graph.node(v) as Point;
    const isPort = !index.has(Number(v) + first);
    return { from: Number(v), to: Number(w), points: isPort ? [{ x: port.x + side, y: 0 }, ...inside] : inside };
  });
  return { width, height, at, lines };
}

function shift(block: PlacedBlock, dx: number, dy: number): void {
  block.x += dx;
  block.y += dy;
  for (const box of block.boxes) {
    box.x += dx;
    box.y += dy;
  }
  for (const line of block.lines) {
    for (const point of line.points) {
      point.x += dx;
      point.y += dy;
    }
  }
}

/** One line from where a value is made to where it enters each later block that reads it. */
function between(blocks: PlacedBlock[], boxes: Map<number, Box>, sources: number[][], inputs: Set<number>): Line[] {
  const lines: Line[] = [];
  const home = new Map<number, PlacedBlock>();
  for (const block of blocks) for (const node of block.block.nodes) home.set(node.id, block);
  for (const block of blocks) {
    const entering = new Map<number, number>();
    for (const node of block.block.nodes) {
      for (const source of sources[node.id] ?? []) {
        if (home.get(source) !== block && !inputs.has(source) && !entering.has(source)) entering.set(source, node.id);
      }
    }
    for (const [source, target] of entering) {
      const origin = home.get(source);
      if (!origin) continue;
      const start = boxes.get(source) ? bottom(boxes.get(source) as Box) : { x: origin.x + origin.width / 2, y: origin.y + origin.height };
      const port = block.lines.find((line) => line.from === source)?.points[0];
      const end = port ?? { x: block.x + block.width / 2, y: block.y };
      lines.push({ from: source, to: target, points: end.y < start.y ? around(start, end, origin, block) : [start, end] });
    }
  }
  return lines;
}

/** From the foot of a column to the head of a later one, through the gap between them. */
function around(start: Point, end: Point, from: PlacedBlock, to: PlacedBlock): Point[] {
  const x = (from.x + from.width + to.x) / 2;
  return [start, { x, y: start.y + GAP }, { x, y: end.y - GAP / 2 }, end];
}

function bottom(box: Box): Point {
  return { x: box.x, y: box.y + NODE_HEIGHT / 2 };
}

/** A smooth path through points from top to bottom. */
export function pathOf(points: Point[]): string {
  const [start, ...rest] = points;
  if (!start) return "";
  let path = `M${round(start.x)} ${round(start.y)}`;
  let from = start;
  for (const to of rest) {
    const half = (to.y - from.y) / 2;
    path += `C${round(from.x)} ${round(from.y + half)} ${round(to.x)} ${round(to.y - half)} ${round(to.x)} ${round(to.y)}`;
    from = to;
  }
  return path;
}

function round(x: number): number {
  return Math.round(x * 10) / 10;
}

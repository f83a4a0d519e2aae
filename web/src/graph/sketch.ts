// The drawing from afar: boxes, bars and lines without texts, on a canvas over the window. A frame of it takes a few
// milliseconds however much is seen, where SVG of a thousand boxes is rastered anew for each step of a zoom. The SVG stays
// where it is, unseen, so that pointers and screen readers find everything as before.
import type { Graph, GraphNode } from "./api.ts";
import { shortName } from "./fold.ts";
import { NODE_HEIGHT, NODE_WIDTH, pathOf, type Box, type Layout, type PlacedBlock } from "./layout.ts";
import type { Paint, Painter } from "./paint.ts";
import type { Active } from "./state.ts";
import { tiesOf } from "./ties.ts";
import type { View } from "./viewport.ts";
import { cut } from "./words.ts";

export interface Scene {
  graph: Graph;
  /** The graph as it was built. */
  built: Graph | undefined;
  layout: Layout;
  paint: Painter;
  active: Active;
  marked: string | undefined;
}

/** Below this scale nothing can be read, and the sketch stands in for the drawing. */
export const FAR = 0.4;
/** Below this one, lines within layers are a blur. */
const VERY_FAR = FAR / 2;

/** Height of a layer's title, in dots of the window. */
const TITLE = 11;

const COLOURS = ["ground", "raised", "sunken", "line", "line-strong", "ink", "accent", "danger", "warn", "hot", "cpu", "device", "same", "hue-light"] as const;
type Colours = Record<(typeof COLOURS)[number], string>;

interface Pen {
  to: CanvasRenderingContext2D;
  scene: Scene;
  colours: Colours;
  scale: number;
  /** The family of its texts. */
  font: string;
  /** What the window shows, in places of the drawing. */
  seen: { left: number; right: number; top: number; bottom: number };
}

/** Draws what the window shows of a scene. */
export function sketch(canvas: HTMLCanvasElement, scene: Scene, view: View): void {
  const to = canvas.getContext("2d");
  if (!to) return;
  const { x, y, scale, size } = view;
  const dots = devicePixelRatio;
  const [width, height] = [Math.round(size.width * dots), Math.round(size.height * dots)];
  if (canvas.width !== width) canvas.width = width;
  if (canvas.height !== height) canvas.height = height;
  to.setTransform(1, 0, 0, 1, 0, 0);
  to.clearRect(0, 0, width, height);
  to.setTransform(dots * scale, 0, 0, dots * scale, dots * x, dots * y);
  const seen = { left: -x / scale, right: (size.width - x) / scale, top: -y / scale, bottom: (size.height - y) / scale };
  const pen: Pen = { to, scene, colours: coloursOf(canvas), scale, font: getComputedStyle(canvas).fontFamily, seen };
  for (const placed of scene.layout.blocks) if (isSeen(pen, placed)) block(pen, placed);
  stroke(pen, betweenOf(scene.layout), pen.colours["line-strong"], 2, 0.75);
  ties(pen);
}

function coloursOf(element: Element): Colours {
  const style = getComputedStyle(element);
  return Object.fromEntries(COLOURS.map((name) => [name, style.getPropertyValue(`--${name}`)])) as Colours;
}

function isSeen({ seen }: Pen, { x, y, width, height }: { x: number; y: number; width: number; height: number }): boolean {
  return x < seen.right && x + width > seen.left && y < seen.bottom && y + height > seen.top;
}

function block(pen: Pen, placed: PlacedBlock): void {
  const { to, colours, scene } = pen;
  const { x, y, width, height, isOpen } = placed;
  const isActive = scene.active !== null && "layer" in scene.active && scene.active.layer === placed.block.layer;
  to.fillStyle = isOpen ? colours.ground : colours.raised;
  to.strokeStyle = isActive ? colours.accent : isOpen ? colours.line : colours["line-strong"];
  to.lineWidth = isActive ? 2.5 / pen.scale : 1;
  to.beginPath();
  to.roundRect(x, y, width, height, 12);
  to.globalAlpha = isOpen ? 0.7 : 1;
  to.fill();
  to.globalAlpha = isOpen || isActive ? 1 : 0.5;
  to.stroke();
  to.globalAlpha = 1;
  if (isOpen) openLayer(pen, placed);
  else foldedLayer(pen, placed);
  title(pen, placed);
}

/** As large on the screen as from near, where there is room for it. */
function title({ to, colours, scale, font }: Pen, { block, x, y, width, height, isOpen }: PlacedBlock): void {
  const size = TITLE / scale;
  if (height < size * (isOpen ? 6 : 1.4) || width < size * 7) return;
  to.font = `600 ${size}px ${font}`;
  const [left, foot] = [x + size * 0.7, isOpen ? y + size * 1.4 : y + height / 2 + size * 0.2];
  // It may lie over boxes.
  to.strokeStyle = colours.ground;
  to.lineWidth = size * 0.3;
  to.strokeText(block.title, left, foot);
  to.fillStyle = colours.ink;
  to.fillText(block.title, left, foot);
}

function openLayer(pen: Pen, placed: PlacedBlock): void {
  if (pen.scale >= VERY_FAR) stroke(pen, linesOf(placed, pen.scene.graph), pen.colours["line-strong"], 2, 0.75);
  for (const box of placed.boxes) {
    const [x, y] = [box.x - NODE_WIDTH / 2, box.y - NODE_HEIGHT / 2];
    if (isSeen(pen, { x, y, width: NODE_WIDTH, height: NODE_HEIGHT })) nodeBox(pen, box, x, y);
  }
}

/** Bars as in the drawing: one for each node, in its colour. */
function foldedLayer(pen: Pen, { block: { nodes }, x, y, width, height }: PlacedBlock): void {
  const shown = nodes.map((it) => pen.scene.graph.nodes[it.id] ?? it).filter((it) => it.live !== false);
  const step = (width - 2 * 14) / Math.max(1, shown.length);
  for (const [i, node] of shown.entries()) {
    const isMarked = pen.scene.marked === node.name;
    fill(pen, node, pen.scene.paint(node), barOf(pen, node), () => pen.to.fillRect(x + 14 + i * step, y + height - (isMarked ? 13 : 7), Math.max(0.5, step - 1), isMarked ? 10 : 4));
  }
}

function barOf({ colours, scene }: Pen, node: GraphNode): string {
  if (scene.marked === node.name) return colours.danger;
  if (scene.paint(node).mark === "same") return colours.same;
  if (node.backend === null) return colours.line;
  return node.backend === "cpu" ? colours.cpu : colours.device;
}

function nodeBox(pen: Pen, box: Box, x: number, y: number): void {
  const { to, scene, colours } = pen;
  const node = scene.graph.nodes[box.node.id] ?? box.node;
  const paint = scene.paint(node);
  const isFused = scene.built !== undefined && scene.built.nodes[node.id]?.op !== node.op;
  to.globalAlpha = node.live === false ? 0.16 : 1;
  to.beginPath();
  to.roundRect(x, y, NODE_WIDTH, NODE_HEIGHT, 8);
  fill(pen, node, paint, node.op === "Input" ? colours.sunken : colours.raised, () => to.fill());
  to.strokeStyle = colours.line;
  to.lineWidth = 1 / pen.scale;
  to.stroke();
  if (scene.marked === node.name || paint.mark === "bad" || isFused) {
    to.strokeStyle = scene.marked === node.name || paint.mark === "bad" ? colours.danger : colours.accent;
    to.lineWidth = scene.marked === node.name ? 8 : 4;
    to.stroke();
  }
  if (pen.scale >= FAR) {
    to.fillStyle = colours.ink;
    to.font = `550 13px ${pen.font}`;
    to.fillText(cut(shortName(node), paint.note ? 15 : 22), x + 13, y + 18);
  }
  to.globalAlpha = 1;
}

/** Fills with the colour of the paint, or with the plain one; a share of heat lies over it, which is what color-mix gives. */
function fill({ to, colours }: Pen, node: GraphNode, paint: Paint, plain: string, act: () => void): void {
  const opacity = to.globalAlpha;
  const isMixed = paint.heat !== undefined || (paint.mark === "same" && node.op !== "Input");
  to.fillStyle = paint.hue !== undefined ? `hsl(${paint.hue.toFixed(0)} 60% ${colours["hue-light"]})` : plain;
  act();
  if (!isMixed || paint.hue !== undefined) return;
  to.fillStyle = paint.heat !== undefined ? colours.hot : colours.same;
  to.globalAlpha = opacity * (paint.heat !== undefined ? paint.heat * 0.75 : 0.2);
  act();
  to.globalAlpha = opacity;
}

function ties(pen: Pen): void {
  const { to, scene, colours } = pen;
  if (!scene.active || !("node" in scene.active)) return;
  const found = tiesOf(scene.graph, scene.layout, scene.active.node);
  if (!found) return;
  // As wide on the screen as from near, or the one selected node of a thousand would be lost.
  const width = 1.5 / pen.scale;
  stroke(pen, new Path2D(found.into), colours.accent, width, 1);
  stroke(pen, new Path2D(found.out), colours.warn, width, 1);
  to.beginPath();
  to.roundRect(found.box.x - NODE_WIDTH / 2 - 3, found.box.y - NODE_HEIGHT / 2 - 3, NODE_WIDTH + 6, NODE_HEIGHT + 6, 10);
  to.strokeStyle = colours.accent;
  to.lineWidth = 2.5 / pen.scale;
  to.stroke();
}

function stroke({ to }: Pen, path: Path2D, colour: string, width: number, opacity: number): void {
  to.strokeStyle = colour;
  to.lineWidth = width;
  to.globalAlpha = opacity;
  to.stroke(path);
  to.globalAlpha = 1;
}

const paths = new WeakMap<PlacedBlock, { graph: Graph; path: Path2D }>();

/** The lines of a block at a stage, made once. */
function linesOf(placed: PlacedBlock, graph: Graph): Path2D {
  const known = paths.get(placed);
  if (known?.graph === graph) return known.path;
  const here = placed.lines.filter((line) => graph.nodes[line.to]?.live !== false && graph.nodes[line.to]?.src.includes(line.from));
  const path = new Path2D(here.map((line) => pathOf(line.points)).join(""));
  paths.set(placed, { graph, path });
  return path;
}

const betweens = new WeakMap<Layout, Path2D>();

function betweenOf(layout: Layout): Path2D {
  let path = betweens.get(layout);
  if (!path) {
    path = new Path2D(layout.between.map((line) => pathOf(line.points)).join(""));
    betweens.set(layout, path);
  }
  return path;
}

// The drawing by keyboard: arrows walk along lines and between neighbours, Enter opens, Escape folds.
import { batch } from "@preact/signals";
import type { PlacedBlock } from "./layout.ts";
import { active, consumers, goTo, graph, layout, openAll, setOpen, tab, viewport } from "./state.ts";

export const KEYS: [string, string][] = [
  ["↑ ↓", "to what a node reads, to who reads it; between layers"],
  ["← →", "to the neighbour in the order of execution"],
  ["Enter", "opens a layer, or shows a node"],
  ["Esc", "folds the layer"],
  ["/", "searches"],
  ["f", "fits the drawing into the window"],
  ["+ −", "zooms"],
  ["a n", "opens all layers, or none"],
];

export function onKey(event: KeyboardEvent): void {
  if (event.altKey || event.ctrlKey || event.metaKey) return;
  const done = act(event.key, event.shiftKey);
  if (done) event.preventDefault();
}

function act(key: string, shift: boolean): boolean {
  switch (key) {
    case "ArrowDown":
      return step(1);
    case "ArrowUp":
      return step(-1);
    case "ArrowRight":
      return shift ? pan(-80) : beside(1);
    case "ArrowLeft":
      return shift ? pan(80) : beside(-1);
    case "Home":
      return toBlock(0);
    case "End":
      return toBlock((layout.value?.blocks.length ?? 1) - 1);
    case "Enter":
    case " ":
      return enter();
    case "Escape":
      return fold();
    case "f":
      if (layout.value) viewport.fit(layout.value);
      return true;
    case "+":
    case "=":
      viewport.zoomBy(1.3);
      return true;
    case "-":
      viewport.zoomBy(1 / 1.3);
      return true;
    case "a":
      openAll(true);
      return true;
    case "n":
      openAll(false);
      return true;
  }
  return false;
}

function pan(dx: number): boolean {
  viewport.panBy(dx, 0);
  return true;
}

function blocks(): PlacedBlock[] {
  return layout.value?.blocks ?? [];
}

/** Down: to the first reader, or into the block below if that is folded. Up: the same towards sources. */
function step(by: 1 | -1): boolean {
  const it = active.value;
  if (!it) return toBlock(0);
  if ("layer" in it) {
    const at = blocks().findIndex((block) => block.block.layer === it.layer);
    const here = blocks()[at];
    if (by > 0 && here?.isOpen) return toNode(here.boxes[0]?.node.id);
    return toBlock(at + by);
  }
  const node = graph.value?.nodes[it.node];
  if (!node) return false;
  const next = by > 0 ? consumers.value[node.id]?.[0] : [...node.src].reverse().find((id) => graph.value?.nodes[id]?.op !== "Input") ?? node.src[0];
  if (next === undefined) {
    const at = blocks().findIndex((block) => block.boxes.some((box) => box.node.id === node.id));
    return toBlock(at + by);
  }
  const box = layout.value?.boxes.get(next);
  return box ? toNode(next) : toBlock(blocks().findIndex((block) => block.block.nodes.some((n) => n.id === next)));
}

/** The node before or after in the order of execution, in what is open. */
function beside(by: 1 | -1): boolean {
  const it = active.value;
  if (!it || "layer" in it) return step(by);
  const ids = [...(layout.value?.boxes.keys() ?? [])].sort((a, b) => a - b);
  return toNode(ids[ids.indexOf(it.node) + by]);
}

function toBlock(at: number): boolean {
  const block = blocks()[at];
  if (!block) return true;
  if (!block.block.isLayer) return toNode(block.boxes[0]?.node.id);
  active.value = { layer: block.block.layer };
  viewport.reveal(block.x + block.width / 2, block.y + 20, block.width, 40);
  return true;
}

function toNode(id: number | undefined): boolean {
  const node = id === undefined ? undefined : graph.value?.nodes[id];
  if (node) goTo(node, "reveal");
  return true;
}

function enter(): boolean {
  const it = active.value;
  if (!it) return toBlock(0);
  if ("node" in it) {
    tab.value = "node";
    document.getElementById("panel")?.focus();
    return true;
  }
  const block = blocks().find((placed) => placed.block.layer === it.layer);
  if (!block) return true;
  setOpen(it.layer, !block.isOpen);
  return true;
}

function fold(): boolean {
  const it = active.value;
  if (!it) return true;
  if ("layer" in it) {
    setOpen(it.layer, false);
    return true;
  }
  const layer = graph.value?.nodes[it.node]?.layer ?? null;
  batch(() => {
    if (layer !== null) setOpen(layer, false);
    active.value = layer === null ? null : { layer };
  });
  return true;
}

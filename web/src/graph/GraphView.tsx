// The drawing: moves, zooms, answers to keys. Moving changes one attribute; nothing is drawn anew for it.
import { useSignalEffect } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import type { Graph } from "./api.ts";
import { BlockView } from "./BlockView.tsx";
import { onKey } from "./keys.ts";
import { NODE_HEIGHT, NODE_WIDTH, pathOf, type Layout } from "./layout.ts";
import type { Painter } from "./paint.ts";
import { pointers } from "./pointers.ts";
import { active, viewport, type Active } from "./state.ts";

interface GraphViewProps {
  graph: Graph;
  /** The same graph at all stages. */
  all: Graph[];
  layout: Layout;
  paint: Painter;
  label: string;
  /** Where this drawing's parts have their ids. */
  prefix: string;
  active: Active;
  /** A node that stands out: the first that differs. */
  marked?: string | undefined;
}

/** Below this scale nothing can be read, and texts are left out. */
const FAR = 0.4;
const MARGIN = 80;

export function GraphView({ graph, all, layout, paint, label, prefix, active: at, marked }: GraphViewProps) {
  const frame = useRef<HTMLDivElement>(null);
  const world = useRef<SVGGElement>(null);
  const drawn = useRef(layout);
  drawn.current = layout;

  useEffect(() => {
    const element = frame.current;
    if (!element) return;
    const resized = new ResizeObserver(() => {
      viewport.resize({ width: element.clientWidth, height: element.clientHeight }, drawn.current);
      place(world.current, drawn.current);
    });
    resized.observe(element);
    const unwatch = viewport.watch(() => place(world.current, drawn.current));
    const release = pointers(element);
    return () => {
      resized.disconnect();
      unwatch();
      release();
    };
  }, []);
  useEffect(() => place(world.current, layout), [layout]);
  useSignalEffect(() => {
    // The keyboard goes on from what is selected, wherever that was done.
    if (active.value && document.activeElement === document.body) frame.current?.focus({ preventScroll: true });
  });

  return (
    <div
      ref={frame}
      class="canvas"
      tabIndex={0}
      role="application"
      aria-label={label}
      aria-describedby="graph-keys"
      aria-activedescendant={idOf(prefix, at)}
      onKeyDown={onKey}
    >
      <svg class="drawing" width="100%" height="100%">
        <g ref={world}>
          {layout.blocks.map((placed) => (
            <BlockView
              key={placed.block.layer}
              placed={placed}
              graph={graph}
              all={all}
              paint={paint}
              prefix={prefix}
              node={at && "node" in at ? at.node : -1}
              isActive={at !== null && "layer" in at && at.layer === placed.block.layer}
              marked={marked}
            />
          ))}
          <path class="line between" d={layout.between.map((line) => pathOf(line.points)).join("")} />
          <Ties graph={graph} layout={layout} node={at && "node" in at ? at.node : -1} />
        </g>
      </svg>
    </div>
  );
}

function idOf(prefix: string, at: Active): string | undefined {
  if (!at) return undefined;
  return "node" in at ? `${prefix}-n${at.node}` : `${prefix}-l${at.layer}`;
}

/** Puts the drawing where the window looks; blocks outside are not painted. */
function place(world: SVGGElement | null, layout: Layout): void {
  if (!world) return;
  const { x, y, scale, size } = viewport;
  world.setAttribute("transform", `translate(${x.toFixed(2)} ${y.toFixed(2)}) scale(${scale.toFixed(4)})`);
  world.classList.toggle("far", scale < FAR);
  world.classList.toggle("very-far", scale < FAR / 2);
  const [top, bottom] = [(-y - MARGIN) / scale, (size.height - y + MARGIN) / scale];
  const [left, right] = [(-x - MARGIN) / scale, (size.width - x + MARGIN) / scale];
  const groups = world.querySelectorAll<SVGGElement>(":scope > .block");
  layout.blocks.forEach((block, i) => {
    const isSeen = block.y < bottom && block.y + block.height > top && block.x < right && block.x + block.width > left;
    const group = groups[i];
    if (group && (group.style.display === "none") === isSeen) group.style.display = isSeen ? "" : "none";
  });
}

/** Lines from what the selected node reads, and to who reads it. */
function Ties({ graph, layout, node }: { graph: Graph; layout: Layout; node: number }) {
  const box = layout.boxes.get(node);
  const it = graph.nodes[node];
  if (!box || !it) return null;
  const half = NODE_HEIGHT / 2;
  const into = it.src.flatMap((source) => {
    const from = layout.boxes.get(source);
    return from ? [pathOf([{ x: from.x, y: from.y + half }, { x: box.x, y: box.y - half }])] : [];
  });
  const out = graph.nodes.filter((other) => other.src.includes(node)).flatMap((other) => {
    const to = layout.boxes.get(other.id);
    return to ? [pathOf([{ x: box.x, y: box.y + half }, { x: to.x, y: to.y - half }])] : [];
  });
  return (
    <g class="ties" aria-hidden="true">
      <path class="tie into" d={into.join("")} />
      <path class="tie out" d={out.join("")} />
      <rect class="ring" x={box.x - NODE_WIDTH / 2 - 3} y={box.y - half - 3} width={NODE_WIDTH + 6} height={NODE_HEIGHT + 6} rx="10" />
    </g>
  );
}

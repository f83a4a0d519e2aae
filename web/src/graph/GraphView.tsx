// The drawing: moves, zooms, answers to keys. Moving moves one layer that the browser has drawn; from afar a sketch stands
// in for it.
import { useSignalEffect } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import type { Graph } from "./api.ts";
import { BlockView } from "./BlockView.tsx";
import { onKey } from "./keys.ts";
import { NODE_HEIGHT, NODE_WIDTH, pathOf, type Layout } from "./layout.ts";
import type { Painter } from "./paint.ts";
import { pointers } from "./pointers.ts";
import { FAR, sketch, type Scene } from "./sketch.ts";
import { active, viewport, type Active } from "./state.ts";
import { tiesOf } from "./ties.ts";

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

export function GraphView({ graph, all, layout, paint, label, prefix, active: at, marked }: GraphViewProps) {
  const frame = useRef<HTMLDivElement>(null);
  const now: Scene = { graph, built: all[0], layout, paint, active: at, marked };
  const scene = useRef(now);
  scene.current = now;

  useEffect(() => {
    const element = frame.current;
    if (!element) return;
    const show = () => place(element, scene.current);
    const resized = new ResizeObserver(() => {
      viewport.resize({ width: element.clientWidth, height: element.clientHeight }, scene.current.layout);
      show();
    });
    resized.observe(element);
    const themed = new MutationObserver(show);
    themed.observe(document.documentElement, { attributeFilter: ["data-theme"] });
    const unwatch = viewport.watch(show);
    const release = pointers(element);
    return () => {
      resized.disconnect();
      themed.disconnect();
      unwatch();
      release();
    };
  }, []);
  useLayoutEffect(() => {
    if (frame.current) place(frame.current, scene.current);
  });
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
      <canvas class="sketch" aria-hidden="true" />
      <svg class="drawing" width="1" height="1">
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
      </svg>
    </div>
  );
}

function idOf(prefix: string, at: Active): string | undefined {
  if (!at) return undefined;
  return "node" in at ? `${prefix}-n${at.node}` : `${prefix}-l${at.layer}`;
}

/** Puts the drawing where the window looks, or draws the sketch of it. */
function place(frame: HTMLElement, scene: Scene): void {
  const [canvas, svg] = [frame.querySelector<HTMLCanvasElement>(".sketch"), frame.querySelector<SVGSVGElement>(".drawing")];
  if (!canvas || !svg) return;
  const { x, y, scale, isMoving } = viewport;
  svg.style.transform = `translate3d(${x.toFixed(2)}px, ${y.toFixed(2)}px, 0) scale(${scale.toFixed(4)})`;
  // While it moves, the picture that is there is moved; it is made anew, and sharp, when the hand rests.
  svg.style.willChange = isMoving ? "transform" : "auto";
  const isFar = scale < FAR || (isMoving && frame.classList.contains("is-far"));
  frame.classList.toggle("is-far", isFar);
  if (isFar) sketch(canvas, scene, viewport);
}

/** Lines from what the selected node reads, and to who reads it. */
function Ties({ graph, layout, node }: { graph: Graph; layout: Layout; node: number }) {
  const ties = tiesOf(graph, layout, node);
  if (!ties) return null;
  const { box, into, out } = ties;
  return (
    <g class="ties" aria-hidden="true">
      <path class="tie into" d={into} />
      <path class="tie out" d={out} />
      <rect class="ring" x={box.x - NODE_WIDTH / 2 - 3} y={box.y - NODE_HEIGHT / 2 - 3} width={NODE_WIDTH + 6} height={NODE_HEIGHT + 6} rx="10" />
    </g>
  );
}

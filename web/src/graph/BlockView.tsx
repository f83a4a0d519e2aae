// A layer, folded or open, and the boxes in it.
import { memo } from "preact/compat";
import type { Graph, GraphNode } from "./api.ts";
import { shapeText, shortName } from "./fold.ts";
import { NODE_HEIGHT, NODE_WIDTH, pathOf, type Box, type Line, type PlacedBlock } from "./layout.ts";
import type { Paint, Painter } from "./paint.ts";
import { active, setOpen, tab } from "./state.ts";
import { cut, plural } from "./words.ts";

interface BlockViewProps {
  placed: PlacedBlock;
  graph: Graph;
  /** The same graph at all stages. */
  all: Graph[];
  paint: Painter;
  prefix: string;
  /** The selected node, or -1. */
  node: number;
  isActive: boolean;
  marked?: string | undefined;
}

function isEqual(a: BlockViewProps, b: BlockViewProps): boolean {
  const own = (props: BlockViewProps) => props.placed.block.nodes.some((node) => node.id === props.node);
  return (
    a.placed === b.placed && a.graph === b.graph && a.paint === b.paint && a.isActive === b.isActive && a.marked === b.marked &&
    (a.node === b.node || (!own(a) && !own(b)))
  );
}

export const BlockView = memo(function BlockView({ placed, graph, all, paint, prefix, node, isActive, marked }: BlockViewProps) {
  const { block, isOpen, x, y, width, height } = placed;
  const live = block.nodes.filter((it) => graph.nodes[it.id]?.live !== false);
  const toggle = () => {
    active.value = { layer: block.layer };
    if (block.isLayer) setOpen(block.layer, !isOpen);
  };
  return (
    <g class={`block ${isOpen ? "is-open" : "is-folded"} ${isActive ? "is-active" : ""}`} role="group" aria-label={block.title}>
      {block.isLayer ? (
        <g id={`${prefix}-l${block.layer}`} class="layer" role="button" aria-expanded={isOpen} onClick={toggle}>
          <rect class="plate" x={x} y={y} width={width} height={height} rx="12" />
          <rect class="hit" x={x} y={y} width={width} height={isOpen ? 26 : height} rx="12" />
          {!isOpen && <Summary placed={placed} graph={graph} paint={paint} marked={marked} />}
          <path class="chevron" d={isOpen ? `M${x + 12} ${y + 11}l5 5 5-5` : `M${x + 14} ${y + height / 2 - 5}l5 5-5 5`} />
          <text class="layer-name" x={x + 30} y={isOpen ? y + 18 : y + height / 2 + 4.500}>{block.title}</text>
          {/* What is read aloud is the text itself, so the words are kept apart. */}
          {" "}
          {!isOpen && (
            <text class="layer-note" x={x + width - 14} y={y + height / 2 + 4.5} text-anchor="end">{plural(live.length, "node")}</text>
          )}
        </g>
      ) : (
        <g id={`${prefix}-l${block.layer}`} aria-hidden="true">
          <rect class="plate" x={x} y={y} width={width} height={height} rx="12" />
          <text class="layer-name" x={x + 14} y={y + 18}>{block.title}</text>
        </g>
      )}
      {isOpen && <Lines placed={placed} graph={graph} all={all} />}
      {placed.boxes.map((box) => (
        <NodeBox
          key={box.node.id}
          box={box}
          node={graph.nodes[box.node.id] ?? box.node}
          before={all[0]?.nodes[box.node.id]}
          paint={paint(graph.nodes[box.node.id] ?? box.node)}
          id={`${prefix}-n${box.node.id}`}
          isSelected={box.node.id === node}
          isMarked={marked === box.node.name}
        />
      ))}
    </g>
  );
}, isEqual);

/** A folded layer shows its nodes as a strip of small bars, each in its colour. */
function Summary({ placed, graph, paint, marked }: { placed: PlacedBlock; graph: Graph; paint: Painter; marked: string | undefined }) {
  const { block, x, y, width, height } = placed;
  const nodes = block.nodes.map((it) => graph.nodes[it.id] ?? it).filter((it) => it.live !== false);
  const bar = (width - 2 * 14) / Math.max(1, nodes.length);
  return (
    <g aria-hidden="true">
      {nodes.map((it, i) => (
        <rect
          key={it.id}
          class={`bar ${classesOf(it, paint(it))} ${marked === it.name ? "is-marked" : ""}`}
          style={styleOf(paint(it))}
          x={x + 14 + i * bar}
          y={y + height - 7}
          width={Math.max(0.5, bar - 1)}
          height={4}
        />
      ))}
    </g>
  );
}

/** Lines of this stage; those of other stages are there and not seen, so that they can fade. */
function Lines({ placed, graph, all }: { placed: PlacedBlock; graph: Graph; all: Graph[] }) {
  const isHere = (line: Line) => graph.nodes[line.to]?.src.includes(line.from) === true && graph.nodes[line.to]?.live !== false;
  const always: Line[] = [];
  const sometimes: Line[] = [];
  for (const line of placed.lines) {
    const inAll = all.every((it) => it.nodes[line.to]?.src.includes(line.from) && it.nodes[line.to]?.live !== false);
    (inAll ? always : sometimes).push(line);
  }
  return (
    <g aria-hidden="true">
      <path class="line" d={always.map((line) => pathOf(line.points)).join("")} />
      {sometimes.map((line) => (
        <path key={`${line.from}-${line.to}`} class={`line ${isHere(line) ? "" : "is-gone"}`} d={pathOf(line.points)} />
      ))}
    </g>
  );
}

interface NodeBoxProps {
  box: Box;
  node: GraphNode;
  before: GraphNode | undefined;
  paint: Paint;
  id: string;
  isSelected: boolean;
  isMarked: boolean;
}

function NodeBox({ box, node, before, paint, id, isSelected, isMarked }: NodeBoxProps) {
  const isOrphan = node.live === false;
  const isFolded = before !== undefined && before.op !== node.op;
  const [left, top] = [box.x - NODE_WIDTH / 2, box.y - NODE_HEIGHT / 2];
  const detail = `${node.op}  ${shapeText(node.shape)}`;
  const said = [node.name, node.op, shapeText(node.shape), node.backend ?? "no engine yet", ...(isOrphan ? ["folded away"] : []), paint.note ?? "", isSelected ? "selected" : ""];
  return (
    <g
      id={id}
      class={`node ${classesOf(node, paint)} ${isOrphan ? "is-orphan" : ""} ${isFolded ? "is-fused" : ""} ${isMarked ? "is-marked" : ""}`}
      style={styleOf(paint)}
      role="img"
      aria-roledescription="node"
      aria-label={said.filter((part) => part !== "").join(", ")}
      onClick={() => {
        active.value = { node: node.id };
        tab.value = tab.value === "memory" || tab.value === "compare" ? tab.value : "node";
      }}
    >
      <rect class="face" x={left} y={top} width={NODE_WIDTH} height={NODE_HEIGHT} rx="8" />
      <rect class="owner" x={left} y={top + 6} width="4" height={NODE_HEIGHT - 12} rx="2" />
      <text class="name" x={left + 13} y={top + 18}>{cut(shortName(node), paint.note ? 15 : 22)}</text>
      <text class="detail" x={left + 13} y={top + 34}>{cut(detail, 27)}</text>
      {paint.note !== undefined && <text class="note" x={left + NODE_WIDTH - 9} y={top + 18} text-anchor="end">{paint.note}</text>}
    </g>
  );
}

function classesOf(node: GraphNode, paint: Paint): string {
  const fill = paint.hue !== undefined ? "has-hue" : paint.heat !== undefined ? "has-heat" : "";
  return `on-${node.backend ?? "none"} ${fill} ${paint.mark ?? ""} ${node.op === "Input" ? "is-input" : ""}`;
}

function styleOf(paint: Paint): Record<string, string> | undefined {
  if (paint.hue !== undefined) return { "--hue": paint.hue.toFixed(0) };
  return paint.heat === undefined ? undefined : { "--heat": `${(paint.heat * 100).toFixed(0)}%` };
}

// The memory plan as a picture: time to the right, addresses down, a block for each life of a value.
import { useMemo, useState } from "preact/hooks";
import type { Life, Memory } from "./api.ts";
import { hueOf } from "./paint.ts";
import { colourBy, goTo, model, selected, stages } from "./state.ts";
import { bytesText, plural } from "./words.ts";

const WIDTH = 320;
const ROW = 11;
const MOST_HEIGHT = 420;

export function MemoryPanel() {
  const memory = stages.value?.memory;
  const [toScale, setToScale] = useState(false);
  if (!memory) return null;
  const planned = memory.buffers.reduce((sum, buffer) => sum + buffer.bytes, 0);
  const alone = memory.lives.reduce((sum, life) => sum + life.bytes, 0);
  return (
    <>
      <h2>Memory of the step</h2>
      <p class="soft">
        {plural(memory.lives.length, "value")} in {plural(memory.buffers.length, "buffer")}: {bytesText(planned)}. Without sharing it would be{" "}
        {bytesText(alone)}.
      </p>
      <div class="row">
        <label class="check"><input type="checkbox" checked={toScale} onChange={(event) => setToScale(event.currentTarget.checked)} /> heights to scale</label>
        <label class="check">
          <input type="checkbox" checked={colourBy.value === "memory"} onChange={(event) => (colourBy.value = event.currentTarget.checked ? "memory" : "backend")} /> colour the graph
        </label>
      </div>
      <Picture memory={memory} toScale={toScale} />
      <SelectedLife memory={memory} />
      <Parts />
    </>
  );
}

interface Row {
  y: number;
  height: number;
}

function rowsOf(memory: Memory, toScale: boolean): Row[] {
  if (!toScale) {
    const height = Math.min(ROW, Math.max(2, MOST_HEIGHT / Math.max(1, memory.buffers.length)));
    return memory.buffers.map((_, i) => ({ y: i * height, height }));
  }
  const total = Math.max(1, memory.buffers.reduce((sum, buffer) => sum + buffer.bytes, 0));
  let y = 0;
  return memory.buffers.map((buffer) => {
    const height = Math.max(1, (buffer.bytes / total) * MOST_HEIGHT);
    const row = { y, height };
    y += height;
    return row;
  });
}

function Picture({ memory, toScale }: { memory: Memory; toScale: boolean }) {
  const rows = useMemo(() => rowsOf(memory, toScale), [memory, toScale]);
  const last = rows.at(-1);
  const height = last ? last.y + last.height : 0;
  const n = Math.max(1, memory.n_nodes);
  const node = selected.value;
  const mine = node ? lifeOf(memory, node.id) : undefined;
  const x = (at: number) => (at / n) * WIDTH;
  const blocks = useMemo(
    () =>
      memory.lives.map((life, i) => {
        const row = rows[life.buffer];
        if (!row) return null;
        const from = x(life.first);
        const to = x(Math.min(n, life.last + 1));
        return (
          <rect
            key={i}
            class="life"
            style={{ "--hue": hueOf(life.buffer).toFixed(0) }}
            x={from}
            y={row.y}
            width={Math.max(0.75, to - from - 0.25)}
            height={Math.max(0.75, row.height - 0.75)}
            onClick={() => select(life)}
          >
            <title>{titleOf(life, memory)}</title>
          </rect>
        );
      }),
    [memory, rows],
  );
  const mineRow = mine ? rows[mine.buffer] : undefined;
  return (
    <figure>
      <svg class="memory" viewBox={`-1 -1 ${WIDTH + 2} ${height + 2}`} role="img" aria-label={`${memory.lives.length} lives of values in ${memory.buffers.length} buffers over ${memory.n_nodes} nodes`}>
        {blocks}
        {node && <line class="now" x1={x(node.id + 0.5)} x2={x(node.id + 0.5)} y1="0" y2={height} />}
        {mine && mineRow && <rect class="mine" x={x(mine.first)} y={mineRow.y} width={Math.max(1.5, x(Math.min(n, mine.last + 1)) - x(mine.first))} height={mineRow.height} />}
      </svg>
      <figcaption class="ends"><span>first node</span><span>time</span><span>last node</span></figcaption>
    </figure>
  );
}

function lifeOf(memory: Memory, node: number): Life | undefined {
  return memory.lives.find((life) => life.values.some((value) => value.node === node && !value.copy));
}

function select(life: Life): void {
  const id = life.values[0]?.node;
  const node = id === undefined ? undefined : stages.value?.stages.at(-1)?.nodes[id];
  if (node) goTo(node);
}

function titleOf(life: Life, memory: Memory): string {
  const nodes = stages.value?.stages.at(-1)?.nodes ?? [];
  const names = life.values.map((value) => nodes[value.node]?.name ?? "").join(", ");
  const end = life.last >= memory.n_nodes ? "the end" : (nodes[life.last]?.name ?? "");
  return `${names}: ${bytesText(life.bytes)} until ${end}`;
}

function SelectedLife({ memory }: { memory: Memory }) {
  const node = selected.value;
  const life = node ? lifeOf(memory, node.id) : undefined;
  const buffer = life ? memory.buffers[life.buffer] : undefined;
  const nodes = stages.value?.stages.at(-1)?.nodes ?? [];
  if (!node) return <p class="soft hint">Click a block, or a node of the graph.</p>;
  if (!life || !buffer) return <p class="soft hint">{node.name} has no memory of its own here.</p>;
  const tenants = memory.lives.filter((other) => other.buffer === life.buffer && other !== life);
  return (
    <dl class="fact-list">
      <div><dt>Value</dt><dd>{titleOf(life, memory)}</dd></div>
      <div><dt>Buffer</dt><dd>#{life.buffer}: {bytesText(buffer.bytes)} at {buffer.address.toLocaleString("en")} of the {buffer.backend} arena</dd></div>
      <div>
        <dt>Shared with</dt>
        <dd>
          {tenants.length === 0 ? "nobody" : (
            <ul class="node-list in-row">
              {tenants.slice(0, 24).map((other, i) => {
                const first = nodes[other.values[0]?.node ?? -1];
                return first ? <li key={i}><button type="button" class="link" onClick={() => goTo(first)}>{first.name}</button></li> : null;
              })}
              {tenants.length > 24 && <li class="soft">and {tenants.length - 24} more</li>}
            </ul>
          )}
        </dd>
      </div>
    </dl>
  );
}

/** The part of a plan that stands for all that the process has: program, vocabulary, loaded weights, contexts. */
const THERE = "program and vocabulary";

/** What a whole context takes, as `minfer plan` shows it; here the weights are loaded already, and in what is there. */
function Parts() {
  const parts = model.value?.parts ?? [];
  const most = Math.max(1, ...parts.map((part) => part.bytes));
  if (parts.length === 0) return null;
  return (
    <table class="bars">
      <caption>What is there, and what one context more of {model.value?.n_ctx} tokens would take</caption>
      <thead class="hidden-label"><tr><th>Part</th><th>Share</th><th>Size</th></tr></thead>
      <tbody>
        {parts.map((part) => (
          <tr key={part.name}>
            <th scope="row">{part.name === THERE ? "there already" : part.name}</th>
            <td class="bar-cell"><i style={{ width: `${((part.bytes / most) * 100).toFixed(1)}%` }} /></td>
            <td class="number">{bytesText(part.bytes)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

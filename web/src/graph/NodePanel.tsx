// All there is to say of a node: what it computes from what, who owns it and why, where its value lies, what it held.
import type { ComponentChildren } from "preact";
import { STAGES, type Graph, type GraphNode } from "./api.ts";
import { shapeText } from "./fold.ts";
import { record, shareOf } from "./live.ts";
import { KEYS } from "./keys.ts";
import { active, consumers, goTo, graph, layout, selected, stage, stages } from "./state.ts";
import { Values } from "./Values.tsx";
import { bytesText, percentText, plural, timeText } from "./words.ts";

export function NodePanel() {
  const node = selected.value;
  const it = graph.value;
  if (!it) return null;
  if (!node) return active.value && "layer" in active.value ? <LayerFacts layer={active.value.layer} graph={it} /> : <Overview graph={it} />;
  return <NodeFacts node={node} graph={it} />;
}

function Overview({ graph: it }: { graph: Graph }) {
  const live = it.nodes.filter((node) => node.live !== false && node.op !== "Input");
  const counts = new Map<string, number>();
  for (const node of live) counts.set(node.op, (counts.get(node.op) ?? 0) + 1);
  return (
    <>
      <h2>The graph of a step</h2>
      <p class="soft">
        A {it.params.type} step of {plural(it.params.n_tokens, "token")}: {plural(live.length, "node")} run. Click a layer to open it, a node to see
        all of it.
      </p>
      <table class="facts">
        <caption>Nodes by op</caption>
        <tbody>
          {[...counts].sort((a, b) => b[1] - a[1]).map(([op, n]) => (
            <tr key={op}>
              <th scope="row">{op}</th>
              <td class="number">{n}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <details>
        <summary>Keys</summary>
        <dl class="keys">
          {KEYS.map(([key, what]) => (
            <div key={key}>
              <dt><kbd>{key}</kbd></dt>
              <dd>{what}</dd>
            </div>
          ))}
        </dl>
      </details>
    </>
  );
}

function LayerFacts({ layer, graph: it }: { layer: number; graph: Graph }) {
  const block = layout.value?.blocks.find((placed) => placed.block.layer === layer)?.block;
  const nodes = block?.nodes.map((node) => it.nodes[node.id] ?? node).filter((node) => node.live !== false) ?? [];
  const share = nodes.reduce((sum, node) => sum + (shareOf(node.name) ?? 0), 0);
  return (
    <>
      <h2>{block?.title}</h2>
      <p class="soft">{plural(nodes.length, "node")}{record.value && share > 0 ? `, ${percentText(share)} of the step's time` : ""}</p>
      <ul class="node-list">
        {nodes.map((node) => <li key={node.id}><NodeLink node={node} /> <span class="soft">{node.op}</span></li>)}
      </ul>
    </>
  );
}

function NodeFacts({ node, graph: it }: { node: GraphNode; graph: Graph }) {
  const seen = record.value?.nodes.get(node.name);
  const share = shareOf(node.name);
  const alias = node.alias === null ? undefined : it.nodes[node.alias];
  const built = stages.value?.stages[0]?.nodes[node.id];
  const isEarly = stage.value === 0;
  return (
    <>
      <h2>{node.name}</h2>
      <p class="soft">
        <b>{node.op}</b>
        {built && built.op !== node.op ? ` (was ${built.op})` : ""} · {shapeText(node.shape)} · {node.dtype}
        {node.live === false ? " · folded away, does not run" : ""}
      </p>
      <dl class="fact-list">
        <Fact name="Engine">{isEarly ? "not assigned yet" : <>{node.backend}<span class="why">{node.reason}</span></>}</Fact>
        <Fact name="Time">{seen && share !== null ? `${timeText(seen.us)}, ${percentText(share)} of the step` : null}</Fact>
        <Fact name="Buffer">
          {node.buffer && <>{bytesText(node.buffer.bytes)} no. {node.buffer.ordinal}, at byte {node.buffer.offset}</>}
          {alias && <span class="why">takes over the memory of <NodeLink node={alias} /></span>}
          {!node.buffer && stage.value === STAGES.length - 1 && (node.live === false ? "none: it does not run" : "none: it lies in the KV cache")}
        </Fact>
        <Fact name="Weights">
          {node.weights.length > 0 && (
            <ul class="node-list">
              {node.weights.map((w) => <li key={w.name}><code>{w.name}</code> <span class="soft">{w.type} {shapeText(w.shape)}</span></li>)}
            </ul>
          )}
        </Fact>
        <Fact name="Reads">{node.src.length > 0 && <Links ids={node.src} graph={it} />}</Fact>
        <Fact name="Read by">{(consumers.value[node.id]?.length ?? 0) > 0 && <Links ids={consumers.value[node.id] ?? []} graph={it} />}</Fact>
        <Fact name="Payload">
          {Object.keys(node.attributes).length > 0 && (
            <ul class="node-list">{Object.entries(node.attributes).map(([key, value]) => <li key={key}><code>{key}={value}</code></li>)}</ul>
          )}
        </Fact>
        <Fusions node={node} graph={it} />
      </dl>
      <Values />
    </>
  );
}

function Fact({ name, children }: { name: string; children: ComponentChildren }) {
  const isEmpty = Array.isArray(children) ? children.every((child) => !child) : !children;
  if (isEmpty) return null;
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

function Fusions({ node, graph: it }: { node: GraphNode; graph: Graph }) {
  const own = it.fusions.filter((fusion) => fusion.node === node.id);
  if (own.length === 0) return null;
  return (
    <Fact name="Fusion">
      <ul class="node-list">
        {own.map((fusion) => <li key={fusion.rule}><code>{fusion.rule}</code> {fusion.refused === null ? "taken" : `refused: ${fusion.refused}`}</li>)}
      </ul>
    </Fact>
  );
}

function Links({ ids, graph: it }: { ids: number[]; graph: Graph }) {
  return (
    <ul class="node-list in-row">
      {[...new Set(ids)].map((id) => {
        const node = it.nodes[id];
        return node ? <li key={id}><NodeLink node={node} /></li> : null;
      })}
    </ul>
  );
}

export function NodeLink({ node }: { node: GraphNode }) {
  return <button type="button" class="link" onClick={() => goTo(node)}>{node.name}</button>;
}

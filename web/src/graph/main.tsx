import { render } from "preact";
import { ThemeSwitch } from "../common/ThemeSwitch.tsx";
import { Button, IconButton } from "../common/Button.tsx";
import "../common/base.css";
import "./graph.css";
import "./drawing.css";
import "./panel.css";
import { close, comparison, otherStages } from "./compare.ts";
import { GraphView } from "./GraphView.tsx";
import { KEYS } from "./keys.ts";
import { running } from "./live.ts";
import { layOut } from "./layout.ts";
import { Panel } from "./Panel.tsx";
import { painter } from "./paint.ts";
import { Search } from "./Search.tsx";
import { active, graph, layout, loading, model, nodeNamed, open, openAll, problem, showStep, stage, start, step, stages, viewport } from "./state.ts";
import { ColourBy, StageSwitch, StepForm } from "./Toolbar.tsx";

function Page() {
  return (
    <div class="graph-page">
      <header class="top">
        <h1>
          <a href="./" title="To the chat">minfer</a> <span class="model-name">{model.value?.name ?? ""}</span>
        </h1>
        <StepForm />
        <Search />
        <ThemeSwitch />
      </header>
      <main class="stage-area">
        <div class="stage-bar">
          <StageSwitch />
          <ColourBy />
        </div>
        {problem.value && (
          <div class="notice danger" role="alert">
            <span>{problem.value.title} {problem.value.detail ?? problem.value.advice}</span>
            <Button look="small" onClick={() => void showStep(step.value)}>Try again</Button>
          </div>
        )}
        <Drawings />
        <p id="graph-keys" class="hidden-label">{KEYS.map(([key, what]) => `${key}: ${what}`).join("; ")}</p>
        <p class="hidden-label" role="status">{loading.value ? "The graph is fetched" : ""}</p>
      </main>
      <Panel />
    </div>
  );
}

function Drawings() {
  const [it, placed] = [graph.value, layout.value];
  const side = otherStages.value;
  if (!it || !placed) return <div class="canvases"><p class="empty">{loading.value ? "…" : ""}</p></div>;
  const first = comparison.value?.first;
  return (
    <div class={`canvases ${running.value ? "is-live" : ""}`}>
      <div class="canvas-side">
        {side && <p class="side-name">a: {comparison.value?.a}</p>}
        <GraphView graph={it} all={stages.value?.stages ?? []} layout={placed} paint={painter.a.value} label={label(it.nodes.length)} prefix="a" active={active.value} marked={first?.a.name} />
      </div>
      {side && <OtherSide />}
      <div class="zoom" role="group" aria-label="View">
        <IconButton icon="plus" label="Larger (+)" look="" onClick={() => viewport.zoomBy(1.4)} />
        <IconButton icon="minus" label="Smaller (-)" look="" onClick={() => viewport.zoomBy(1 / 1.4)} />
        <IconButton icon="fit" label="Fit into the window (f)" look="" onClick={() => layout.value && viewport.fit(layout.value)} />
        <Button look="small" onClick={() => openAll(true)}>Open all</Button>
        <Button look="small" onClick={() => openAll(false)}>Fold all</Button>
      </div>
    </div>
  );
}

/** The second graph of a comparison, which moves with the first. */
function OtherSide() {
  const side = otherStages.value;
  const [built] = side?.stages ?? [];
  const planned = side?.stages.at(-1);
  const shown = side?.stages[stage.value];
  if (!side || !built || !planned || !shown) return null;
  const here = active.value;
  const name = here && "node" in here ? graph.value?.nodes[here.node]?.name : undefined;
  const other = name === undefined ? undefined : nodeNamed(side, name);
  const at = here && "node" in here ? (other ? { node: other.id } : null) : here;
  return (
    <div class="canvas-side">
      <p class="side-name">
        b: {comparison.value?.b} <button type="button" class="button quiet small" onClick={close}>Close</button>
      </p>
      <GraphView
        graph={shown}
        all={side.stages}
        layout={layOut(built, planned, open.value)}
        paint={painter.b.value}
        label={`Second graph. ${label(shown.nodes.length)}`}
        prefix="b"
        active={at}
        marked={comparison.value?.first?.b.name}
      />
    </div>
  );
}

function label(nNodes: number): string {
  const params = stages.value?.stages[0]?.params;
  return `Graph of ${nNodes} nodes, a ${params?.type ?? ""} step of ${params?.n_tokens ?? 0} tokens`;
}

const root = document.getElementById("page");
if (root) {
  render(<Page />, root);
  void start();
  addEventListener("keydown", (event) => {
    const isTyping = event.target instanceof HTMLElement && event.target.matches("input, textarea, select");
    if (event.key === "/" && !isTyping) {
      event.preventDefault();
      document.getElementById("search")?.focus();
    }
  });
}

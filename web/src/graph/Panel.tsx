// The side: one of four pages, as tabs.
import { ComparePanel } from "./ComparePanel.tsx";
import { MemoryPanel } from "./MemoryPanel.tsx";
import { NodePanel } from "./NodePanel.tsx";
import { RunPanel } from "./RunPanel.tsx";
import { tab, type Tab } from "./state.ts";

const TABS: [Tab, string][] = [
  ["node", "Node"],
  ["run", "Run"],
  ["memory", "Memory"],
  ["compare", "Compare"],
];

export function Panel() {
  const move = (event: KeyboardEvent, i: number) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    const next = by === undefined ? undefined : TABS[(i + by + TABS.length) % TABS.length];
    if (!next) return;
    event.preventDefault();
    tab.value = next[0];
    document.getElementById(`tab-${next[0]}`)?.focus();
  };
  return (
    <aside class="side" aria-label="Details">
      <div class="tabs" role="tablist" aria-label="Details">
        {TABS.map(([name, text], i) => (
          <button
            key={name}
            id={`tab-${name}`}
            type="button"
            role="tab"
            class="tab"
            aria-selected={tab.value === name}
            aria-controls="panel"
            tabIndex={tab.value === name ? 0 : -1}
            onClick={() => (tab.value = name)}
            onKeyDown={(event) => move(event, i)}
          >
            {text}
          </button>
        ))}
      </div>
      <div id="panel" class="panel" role="tabpanel" tabIndex={0} aria-labelledby={`tab-${tab.value}`}>
        {tab.value === "node" && <NodePanel />}
        {tab.value === "run" && <RunPanel />}
        {tab.value === "memory" && <MemoryPanel />}
        {tab.value === "compare" && <ComparePanel />}
      </div>
    </aside>
  );
}

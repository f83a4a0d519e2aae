// Finds nodes by name, op, engine or weight.
import { useId, useState } from "preact/hooks";
import { search, shapeText } from "./fold.ts";
import { goTo, graph } from "./state.ts";

const MOST = 40;

export function Search() {
  const [words, setWords] = useState("");
  const [at, setAt] = useState(0);
  const list = useId();
  const found = graph.value && words.trim() !== "" ? search(graph.value, words) : [];
  const shown = found.slice(0, MOST);
  const choose = (i: number) => {
    const node = shown[i];
    if (!node) return;
    goTo(node);
    setAt(i);
  };
  const isOpen = words.trim() !== "";
  return (
    <div class="search">
      <label class="hidden-label" for="search">Search nodes by name, op or weight</label>
      <input
        id="search"
        class="input"
        type="search"
        role="combobox"
        list={undefined}
        aria-expanded={isOpen}
        aria-controls={list}
        aria-activedescendant={isOpen && shown.length > 0 ? `${list}-${at}` : undefined}
        aria-autocomplete="list"
        placeholder="Search  /"
        autocomplete="off"
        spellcheck={false}
        value={words}
        onInput={(event) => {
          setWords(event.currentTarget.value);
          setAt(0);
        }}
        onKeyDown={(event) => {
          if (event.key === "ArrowDown") setAt(Math.min(shown.length - 1, at + 1));
          else if (event.key === "ArrowUp") setAt(Math.max(0, at - 1));
          else if (event.key === "Enter") choose(at);
          else if (event.key === "Escape") setWords("");
          else return;
          event.preventDefault();
        }}
      />
      {isOpen && (
        <div class="found">
          <p class="found-count" role="status">{found.length === 0 ? "Nothing has these words" : `${found.length} found`}</p>
          <ul id={list} role="listbox" aria-label="Nodes found">
            {shown.map((node, i) => (
              <li
                key={node.id}
                id={`${list}-${i}`}
                role="option"
                aria-selected={i === at}
                onClick={() => {
                  choose(i);
                  setWords("");
                }}
              >
                <b>{node.name}</b> <span>{node.op} {shapeText(node.shape)}</span>
              </li>
            ))}
          </ul>
        </div>
      )}
    </div>
  );
}

import { useState } from "preact/hooks";
import { Button } from "../../common/Button.tsx";
import { Dialog } from "../../common/Dialog.tsx";
import { apiKey, setApiKey } from "../../common/http.ts";
import { facts, meetServer, serverProblem } from "../server.ts";
import {
  accepts, defaultSystem, parseTools, resetSampling, SAMPLING_FIELDS, sampling, type SamplingField, setDefaultSystem, setSampling, setTools,
  toolsText,
} from "../settings.ts";
import { change } from "../store.ts";
import type { Talk } from "../types.ts";
import { dialog } from "../ui.ts";
import "./settings.css";

export function Settings({ talk }: { talk: Talk }) {
  return (
    <Dialog title="Settings" place="side" onClose={() => (dialog.value = null)}>
      <div class="settings">
        {(serverProblem.value?.kind === "key" || apiKey() !== "") && <KeyField />}
        <SystemField talk={talk} />
        <SamplingFields />
        <ToolsField />
        <p class="settings-hint">
          <a href="assets/licences.txt" target="_blank" rel="noopener">
            Licences of what this page is made of
          </a>
        </p>
      </div>
    </Dialog>
  );
}

function KeyField() {
  const [key, setKey] = useState(apiKey());
  const problem = serverProblem.value?.kind === "key";
  return (
    <form
      class="field"
      onSubmit={(event) => {
        event.preventDefault();
        setApiKey(key);
        void meetServer();
      }}
    >
      <label for="key">API key</label>
      <div class="settings-row">
        <input
          id="key"
          class="input"
          type="password"
          autocomplete="off"
          value={key}
          aria-invalid={problem}
          aria-describedby="key-hint"
          onInput={(event) => setKey(event.currentTarget.value)}
        />
        <Button type="submit">Use</Button>
      </div>
      <p id="key-hint" class="hint">
        {problem ? "The server wants a key, or another one than this." : "Kept in this browser, sent to this server only."}
      </p>
    </form>
  );
}

function SystemField({ talk }: { talk: Talk }) {
  const always = talk.system === defaultSystem.value;
  return (
    <div class="field">
      <label for="system">System prompt of this conversation</label>
      <textarea
        id="system"
        class="input"
        rows={4}
        placeholder="For example: You answer briefly, and say when you are not sure."
        value={talk.system}
        onInput={(event) => {
          const system = event.currentTarget.value;
          change(talk.id, (before) => ({ ...before, system }));
        }}
      />
      <label class="check">
        <input type="checkbox" checked={always} disabled={always} onChange={() => setDefaultSystem(talk.system)} />
        <span>{always ? "New conversations begin with it too" : "Begin new conversations with it too"}</span>
      </label>
    </div>
  );
}

function SamplingFields() {
  const [nResets, setResets] = useState(0);
  return (
    <section aria-labelledby="sampling-title">
      <h3 id="sampling-title">How answers are chosen</h3>
      <p class="settings-hint">An empty field leaves the choice to the server; its value is shown in grey.</p>
      <div class="sampling" key={nResets}>
        {SAMPLING_FIELDS.map((field) => (
          <SamplingInput key={field.name} field={field} />
        ))}
      </div>
      <Button
        look="small"
        disabled={Object.keys(sampling.value).length === 0}
        onClick={() => {
          resetSampling();
          setResets(nResets + 1);
        }}
      >
        Back to the server's values
      </Button>
    </section>
  );
}

/** Keeps the text as it is typed; what is no value is marked, and not used. */
function SamplingInput({ field }: { field: SamplingField }) {
  const [typed, setTyped] = useState(sampling.peek()[field.name]?.toString() ?? "");
  const [wrong, setWrong] = useState(false);
  const preset = facts.value?.defaults[field.name];
  const absent = field.name === "seed" ? "random" : field.name === "max_tokens" ? "no limit" : "default";
  return (
    <div class="field">
      <label for={field.name}>{field.label}</label>
      <input
        id={field.name}
        class="input"
        type="number"
        inputMode="decimal"
        min={field.min}
        max={field.max}
        step={field.step}
        placeholder={preset === undefined ? absent : String(Number(preset.toFixed(4)))}
        value={typed}
        aria-invalid={wrong}
        aria-describedby={`${field.name}-hint`}
        onInput={(event) => {
          const { value: text, valueAsNumber, validity } = event.currentTarget;
          setTyped(text);
          const empty = text === "" && !validity.badInput;
          const good = empty || accepts(field, valueAsNumber);
          setWrong(!good);
          if (good) setSampling(field.name, empty ? undefined : valueAsNumber);
        }}
      />
      <p id={`${field.name}-hint`} class="hint">
        {wrong ? `Not used: must lie between ${field.min} and ${field.max}.` : field.hint}
      </p>
    </div>
  );
}

function ToolsField() {
  const { error } = parseTools(toolsText.value);
  return (
    <div class="field">
      <label for="tools">Tools, as JSON</label>
      <textarea
        id="tools"
        class="input code-input"
        rows={3}
        spellcheck={false}
        placeholder='[{"type": "function", "function": {"name": …}}]'
        value={toolsText.value}
        aria-invalid={error !== undefined}
        aria-describedby="tools-hint"
        onInput={(event) => setTools(event.currentTarget.value)}
      />
      <p id="tools-hint" class="hint">
        {error ?? "The model may ask for them; you say what came of it. Most conversations need none."}
      </p>
    </div>
  );
}

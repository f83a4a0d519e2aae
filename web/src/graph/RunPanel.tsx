// A prompt, and what comes of it while it comes.
import { Button, IconButton } from "../common/Button.tsx";
import { answer, ended, failure, form, prompt, record, records, run, running, show, shown, slowest, stop, weights } from "./live.ts";
import { goTo, model, nodeNamed, stages, step } from "./state.ts";
import { percentText, plural, timeText, tokenText } from "./words.ts";

export function RunPanel() {
  const { prompt: text, tokens, temperature } = form.value;
  const change = (what: Partial<typeof form.value>) => (form.value = { ...form.value, ...what });
  const limits = model.value?.limits;
  const submit = (event: Event) => {
    event.preventDefault();
    if (running.value) stop();
    else void run({ prompt: text, max_tokens: tokens, temperature, set: step.value.set });
  };
  return (
    <>
      <h2>Run a prompt</h2>
      <form class="run-form" onSubmit={submit}>
        <label class="field">
          <span>Prompt</span>
          <textarea
            class="input"
            rows={3}
            value={text}
            onInput={(event) => change({ prompt: event.currentTarget.value })}
            onKeyDown={(event) => {
              if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) submit(event);
            }}
          />
        </label>
        <div class="row">
          <label class="field">
            <span>Tokens</span>
            <input class="input" type="number" min="1" max={limits?.tokens ?? 128} value={tokens} onInput={(e) => change({ tokens: Number(e.currentTarget.value) })} />
          </label>
          <label class="field">
            <span>Temperature</span>
            <input class="input" type="number" min="0" max="2" step="0.1" value={temperature} onInput={(e) => change({ temperature: Number(e.currentTarget.value) })} />
          </label>
          <Button look={running.value ? "danger" : "primary"} icon={running.value ? "stop" : "send"} type="submit">{running.value ? "Stop" : "Run"}</Button>
        </div>
      </form>
      {step.value.set !== "" && <p class="soft">with {step.value.set}</p>}
      {failure.value !== null && <p class="notice danger" role="alert">{failure.value}</p>}
      {weights.value && <progress max={weights.value.total} value={weights.value.done} aria-label="Weights loaded" />}
      <Story />
      {record.value && <StepFacts />}
    </>
  );
}

/** The prompt token by token, and the answer. */
function Story() {
  if (prompt.value.length === 0) return null;
  return (
    <section aria-label="Text">
      <p class="story">
        {prompt.value.map((token, i) => <span key={i} class="token" title={`id ${token.id}`}>{token.text}</span>)}
        <span class="answer" aria-live="off">{answer.value}</span>
        {running.value && <span class="caret" aria-hidden="true" />}
      </p>
      <p class="soft" role="status">{running.value ? "running" : ended.value === null ? "" : `ended: ${ended.value}`}</p>
    </section>
  );
}

function StepFacts() {
  const it = record.value;
  if (!it) return null;
  const last = records.value.length - 1;
  const kv = it.done?.kv;
  return (
    <section aria-label="Step">
      <div class="step-walk">
        <IconButton icon="back" label="Step before" look="small" disabled={shown.value === 0} onClick={() => show(shown.value - 1)} />
        <label class="grow">
          <span class="hidden-label">Step</span>
          <input type="range" min="0" max={last} value={shown.value} aria-valuetext={`step ${shown.value} of ${last}`} onInput={(event) => show(Number(event.currentTarget.value))} />
        </label>
        <IconButton icon="forward" label="Step after" look="small" disabled={shown.value === last} onClick={() => show(shown.value + 1)} />
      </div>
      <p>
        <b>Step {shown.value}</b> · {it.kind} of {plural(it.nTokens, "token")} at {it.first}
        {it.done ? ` · ${timeText(it.done.us)}` : ""}
      </p>
      {kv && (
        <div class="kv">
          <div class="kv-bar" role="meter" aria-label="KV cache" aria-valuemin={0} aria-valuemax={kv.n_ctx} aria-valuenow={kv.n_tokens}>
            <i style={{ width: percent(kv.n_tokens / Math.max(1, kv.n_ctx)) }} />
          </div>
          <p class="soft">KV: {kv.n_tokens} of {plural(kv.n_ctx, "token")}, {kv.n_blocks} of {plural(kv.n_blocks_max, "block")}</p>
        </div>
      )}
      <TopTokens />
      <Slowest />
    </section>
  );
}

function TopTokens() {
  const done = record.value?.done;
  if (!done || done.top.length === 0) return <p class="soft">{done ? "No logits are wanted of this step." : ""}</p>;
  return (
    <table class="bars">
      <caption>Most probable next tokens</caption>
      <thead class="hidden-label"><tr><th>Token</th><th>Probability</th><th>Logit</th></tr></thead>
      <tbody>
        {done.top.map((token) => (
          <tr key={token.id} class={token.id === done.choice?.id ? "is-chosen" : ""}>
            <th scope="row"><code>{tokenText(token.text)}</code>{token.id === done.choice?.id && <span class="hidden-label"> chosen</span>}</th>
            <td class="bar-cell"><i style={{ width: percent(token.p) }} /><span>{percentText(token.p)}</span></td>
            <td class="number">{token.logit.toFixed(2)}</td>
          </tr>
        ))}
        {done.choice && !done.top.some((token) => token.id === done.choice?.id) && (
          <tr class="is-chosen"><th scope="row"><code>{tokenText(done.choice.text)}</code></th><td>chosen</td><td /></tr>
        )}
      </tbody>
    </table>
  );
}

function Slowest() {
  const it = record.value;
  const nodes = slowest(8);
  const all = stages.value;
  if (!it || nodes.length === 0) return null;
  return (
    <table class="bars">
      <caption>Where the time goes</caption>
      <thead class="hidden-label"><tr><th>Node</th><th>Share</th><th>Time</th></tr></thead>
      <tbody>
        {nodes.map((report) => {
          const node = all ? nodeNamed(all, report.name) : undefined;
          const share = report.us / Math.max(it.total, 1e-9);
          return (
            <tr key={report.name}>
              <th scope="row">{node ? <button type="button" class="link" onClick={() => goTo(node)}>{report.name}</button> : report.name}</th>
              <td class="bar-cell"><i style={{ width: percent(share) }} /><span>{percentText(share)}</span></td>
              <td class="number">{timeText(report.us)}</td>
            </tr>
          );
        })}
      </tbody>
    </table>
  );
}

function percent(share: number): string {
  return `${Math.min(100, share * 100).toFixed(1)}%`;
}

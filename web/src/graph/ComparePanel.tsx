// Two settings side by side: the verdict, the first node that differs, how the difference grows, what is chosen.
import { Button } from "../common/Button.tsx";
import type { Difference, Report } from "./api.ts";
import { compare, comparing, comparison, failure, form, progress, stop, texts } from "./compare.ts";
import { goTo, model, nodeNamed, stages } from "./state.ts";
import { numberText, plural, tokenText } from "./words.ts";

const PAIRS: [string, string][] = [
  ["", "fuse=off"],
  ["", "kv=f32"],
  ["threads=1", "chunk=3"],
  ["", "isa=scalar"],
];

export function ComparePanel() {
  const { prompt: text, a, b, tokens } = form.value;
  const change = (what: Partial<typeof form.value>) => (form.value = { ...form.value, ...what });
  const submit = (event: Event) => {
    event.preventDefault();
    if (comparing.value) stop();
    else void compare({ prompt: text, a: a.trim(), b: b.trim(), max_tokens: tokens });
  };
  return (
    <>
      <h2>Compare two settings</h2>
      <p class="soft">The same tokens run through both; every value of every node is compared to the bit.</p>
      <form class="run-form" onSubmit={submit}>
        <label class="field"><span>Prompt</span><textarea class="input" rows={2} value={text} onInput={(event) => change({ prompt: event.currentTarget.value })} /></label>
        <div class="row">
          <label class="field grow"><span>a</span><input class="input" value={a} placeholder="the defaults" list="known-settings" spellcheck={false} onInput={(e) => change({ a: e.currentTarget.value })} /></label>
          <label class="field grow"><span>b</span><input class="input" value={b} placeholder="the defaults" list="known-settings" spellcheck={false} onInput={(e) => change({ b: e.currentTarget.value })} /></label>
        </div>
        <div class="row chips" role="group" aria-label="Examples">
          {PAIRS.map(([first, second]) => (
            <button key={second} type="button" class="button small" onClick={() => change({ a: first, b: second })}>{first === "" ? second : `${first} / ${second}`}</button>
          ))}
        </div>
        <div class="row">
          <label class="field"><span>Tokens after it</span><input class="input" type="number" min="0" max={model.value?.limits.compare_tokens ?? 32} value={tokens} onInput={(e) => change({ tokens: Number(e.currentTarget.value) })} /></label>
          <Button look={comparing.value ? "danger" : "primary"} type="submit">{comparing.value ? "Stop" : "Compare"}</Button>
        </div>
      </form>
      {failure.value !== null && <p class="notice danger" role="alert">{failure.value}</p>}
      {comparing.value && <progress max={progress.value?.total ?? 1} value={progress.value?.done ?? 0} aria-label="Tokens compared" />}
      {comparison.value && <Outcome report={comparison.value} />}
    </>
  );
}

function Outcome({ report }: { report: Report }) {
  const { first } = report;
  return (
    <section aria-label="Outcome">
      <p class={`verdict ${report.identical ? "same" : "differs"}`} role="status">
        {report.identical ? "Identical: every bit is equal, and so is every token chosen." : `${report.n_differing} of ${plural(report.n_values, "value")} differ.`}
      </p>
      <p class="soft">{plural(report.n_values, "value")} of {plural(report.nodes.length, "node")} compared, {report.n_elems.toLocaleString("en")} numbers.</p>
      {first && <First first={first} />}
      {first && <Growth differences={[first, ...report.growth]} />}
      <Alone report={report} />
      <Choices report={report} />
    </section>
  );
}

function First({ first }: { first: Difference }) {
  const { absolute } = first;
  return (
    <>
      <h3>The first that differs</h3>
      <dl class="fact-list">
        <div><dt>Node</dt><dd><Jump name={first.a.name} /> <span class="soft">{first.a.op} on {first.a.backend}{first.b.name === first.a.name ? "" : `; in b ${first.b.name}`}</span></dd></div>
        <div><dt>Differing</dt><dd>{first.n_elems_differing} of {plural(first.n_elems, "number")}, at {first.n_tokens_differing} of {plural(first.n_tokens, "token")}</dd></div>
        <div><dt>Largest</dt><dd>{numberText(absolute.size)}: {numberText(absolute.a)} in a, {numberText(absolute.b)} in b, element {absolute.index} of token {absolute.token}</dd></div>
        <div><dt>ULP</dt><dd>{numberText(first.ulps.size)}</dd></div>
      </dl>
    </>
  );
}

/** Bars on a scale of powers of ten: from the least difference to the greatest. */
function Growth({ differences }: { differences: Difference[] }) {
  const sizes = differences.map((it) => Math.log10(Math.max(1e-12, Number(it.absolute.size) || 0)));
  const [least, most] = [Math.min(...sizes) - 0.5, Math.max(...sizes)];
  return (
    <table class="bars">
      <caption>How it grows</caption>
      <thead class="hidden-label"><tr><th>Node</th><th>Size</th><th>Largest difference</th></tr></thead>
      <tbody>
        {differences.map((it, i) => (
          <tr key={it.a.name}>
            <th scope="row"><Jump name={it.a.name} /></th>
            <td class="bar-cell"><i style={{ width: `${(((sizes[i] ?? least) - least) / Math.max(0.5, most - least)) * 100}%` }} /></td>
            <td class="number">{numberText(it.absolute.size)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Jump({ name }: { name: string }) {
  const node = stages.value ? nodeNamed(stages.value, name) : undefined;
  return node ? <button type="button" class="link" onClick={() => goTo(node)}>{name}</button> : <>{name}</>;
}

function Alone({ report }: { report: Report }) {
  const say = (side: string, nodes: { name: string }[]) =>
    nodes.length === 0 ? null : <p class="soft">Only {side} has the values of {plural(nodes.length, "node")}: {nodes.slice(0, 6).map((it) => it.name).join(", ")}{nodes.length > 6 ? ", …" : ""}</p>;
  return <>{say("a", report.only_a)}{say("b", report.only_b)}</>;
}

function Choices({ report }: { report: Report }) {
  const other = report.choices.filter((choice) => choice.a !== choice.b);
  const word = (id: number) => tokenText(texts.value[String(id)] ?? String(id));
  const [first] = other;
  return (
    <p>
      {first ? (
        <>Another token is chosen at {other.length} of {report.choices.length} places, first after token {first.position}: <code>{word(first.a)}</code> in a, <code>{word(first.b)}</code> in b.</>
      ) : (
        <>The same token is chosen at each of {plural(report.choices.length, "place")}: <code>{report.choices.map((choice) => word(choice.a)).join(" ")}</code></>
      )}
    </p>
  );
}

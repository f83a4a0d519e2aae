// The value of the selected node at the step that is looked at: figures, how it is spread, how it looks from afar.
import { useEffect, useRef } from "preact/hooks";
import type { Values as NodeValues } from "./api.ts";
import { record, running, selectedStats, shown, values, valuesProblem } from "./live.ts";
import { shapeText } from "./fold.ts";
import { numberText, plural } from "./words.ts";

export function Values() {
  const stats = selectedStats.value;
  if (!record.value) return <p class="soft hint">Run a prompt to see this node's values.</p>;
  if (!stats) return <p class="soft hint">{running.value ? "Not run yet at this step." : "This node has no value of numbers at this step."}</p>;
  const it = values.value;
  return (
    <section class="values" aria-label="Values">
      <h3>Values at step {shown.value}</h3>
      <dl class="stats">
        {(["min", "max", "mean", "rms"] as const).map((key) => (
          <div key={key}>
            <dt>{key}</dt>
            <dd>{numberText(stats[key])}</dd>
          </div>
        ))}
      </dl>
      <p class={stats.nan + stats.inf > 0 ? "danger-text" : "soft"}>
        {plural(stats.n, "number")}; {stats.nan + stats.inf === 0 ? "all finite" : `${stats.nan} NaN, ${stats.inf} infinite`}
      </p>
      {valuesProblem.value && <p class="notice danger">{valuesProblem.value}</p>}
      {it && <Histogram values={it.values} />}
      {it && <HeatMap values={it.values} />}
    </section>
  );
}

function Histogram({ values: it }: { values: NodeValues }) {
  const most = Math.max(1, ...it.histogram);
  const [width, height] = [288, 72];
  const bar = width / Math.max(1, it.histogram.length);
  // The height is the root of the count, so that what is rare is seen.
  const tall = (n: number) => (n === 0 ? 0 : Math.max(1.5, Math.sqrt(n / most) * height));
  const label = `Histogram from ${numberText(it.stats.min)} to ${numberText(it.stats.max)}; the fullest of ${it.histogram.length} bins has ${most}`;
  return (
    <figure>
      <svg class="histogram" viewBox={`0 0 ${width} ${height}`} role="img" aria-label={label}>
        {it.histogram.map((n, i) => <rect key={i} x={i * bar} y={height - tall(n)} width={bar - 1} height={tall(n)}><title>{n}</title></rect>)}
      </svg>
      <figcaption class="ends"><span>{numberText(it.stats.min)}</span><span>spread (heights are roots)</span><span>{numberText(it.stats.max)}</span></figcaption>
    </figure>
  );
}

/** Cells of one row fold into lines of this many. */
const LINE = 96;

function HeatMap({ values: it }: { values: NodeValues }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const { cells } = it.heat;
  const columns = it.heat.rows === 1 ? Math.min(LINE, it.heat.columns) : it.heat.columns;
  const rows = Math.ceil(cells.length / Math.max(1, columns));
  useEffect(() => {
    const context = canvas.current?.getContext("2d");
    if (!context || columns === 0 || rows === 0) return;
    const image = context.createImageData(columns, rows);
    const most = Math.max(Math.abs(it.stats.min), Math.abs(it.stats.max)) || 1;
    cells.forEach((cell, i) => image.data.set(colour(cell, most), i * 4));
    context.putImageData(image, 0, 0);
  }, [it]);
  if (cells.length === 0) return null;
  const what = it.heat.rows === 1 ? `one row, in lines of ${columns}` : `${shapeText(it.shape)}: each row a token`;
  return (
    <figure>
      <canvas ref={canvas} class="heat" width={columns} height={rows} style={{ aspectRatio: `${columns} / ${Math.max(rows, columns / 12)}` }} role="img" aria-label={`Heat map, ${what}`} />
      <figcaption class="soft"><i class="swatch negative" /> below 0 <i class="swatch positive" /> above; {what}</figcaption>
    </figure>
  );
}

/** From blue over nothing to orange, by the root of the size; what is no number is magenta. */
function colour(cell: number | string, most: number): [number, number, number, number] {
  if (typeof cell === "string") return [230, 0, 160, 255];
  const strength = Math.round(Math.sqrt(Math.min(1, Math.abs(cell) / most)) * 255);
  return cell < 0 ? [38, 110, 190, strength] : [208, 98, 22, strength];
}

import assert from "node:assert/strict";
import { test } from "node:test";
import { blocksOf, consumersOf, search, shapeText } from "../../src/graph/fold.ts";
import { layOut, NODE_HEIGHT, NODE_WIDTH } from "../../src/graph/layout.ts";
import { tiesOf } from "../../src/graph/ties.ts";
import { deepen } from "../deep.mjs";

/** Layers of four nodes each: a norm, two products, a sum that also reads what came in. */
function graphOf(nLayers) {
  const nodes = [];
  const add = (name, op, layer, src, weights = []) => {
    nodes.push({ id: nodes.length, name, op, layer, src, weights, shape: [8, 2, 1, 1], backend: "cpu", live: true });
    return nodes.length - 1;
  };
  const tokens = add("tokens", "Input", null, []);
  add("positions", "Input", null, []);
  let last = add("embed", "GetRows", null, [tokens]);
  for (let i = 0; i < nLayers; i++) {
    const norm = add(`${i}.norm`, "RmsNorm", i, [last]);
    const left = add(`${i}.left`, "MatMul", i, [norm, 1], [{ name: `blk.${i}.left.weight`, type: "Q8_0", shape: [8, 8, 1, 1] }]);
    const right = add(`${i}.right`, "MatMul", i, [norm]);
    last = add(`${i}.out`, "Add", i, [last, left, right]);
  }
  add("logits", "MatMul", null, [last]);
  return { stage: "planned", params: {}, nodes, inputs: [0, 1], outputs: [nodes.length - 1], splits: [], fusions: [] };
}

test("blocks are what comes before the layers, each layer, and what comes after", () => {
  const blocks = blocksOf(graphOf(3));
  assert.deepEqual(blocks.map((block) => [block.layer, block.nodes.length, block.isLayer]), [[-1, 3, false], [0, 4, true], [1, 4, true], [2, 4, true], [3, 1, false]]);
  assert.deepEqual(blocksOf({ ...graphOf(0), nodes: [] }), []);
});

test("no two boxes meet, and every box lies in its block", () => {
  const graph = graphOf(28);
  for (const open of [new Set(), new Set([3]), new Set(Array.from({ length: 28 }, (_, i) => i))]) {
    const { blocks, boxes, width, height } = layOut(graph, graph, open);
    assert.equal(boxes.size, 3 + 1 + open.size * 4);
    const all = [...boxes.values()];
    for (const [i, a] of all.entries()) {
      for (const b of all.slice(i + 1)) {
        assert.ok(Math.abs(a.x - b.x) >= NODE_WIDTH || Math.abs(a.y - b.y) >= NODE_HEIGHT, `${a.node.name} ${b.node.name}`);
      }
    }
    for (const { block, boxes: own, x, y, width: w, height: h } of blocks) {
      assert.ok(own.every((box) => box.x - NODE_WIDTH / 2 >= x && box.x + NODE_WIDTH / 2 <= x + w && box.y - NODE_HEIGHT / 2 >= y && box.y + NODE_HEIGHT / 2 <= y + h), block.title);
      assert.ok(x >= -width / 2 - 1 && x + w <= width / 2 + 1 && y + h <= height, block.title);
    }
  }
});

test("layers that are alike look alike, and what opens moves only what is below", () => {
  const graph = graphOf(6);
  const one = layOut(graph, graph, new Set([2]));
  const two = layOut(graph, graph, new Set([2, 4]));
  const offset = (layout, layer) => layout.blocks.find((it) => it.block.layer === layer).boxes.map(({ x, y }) => [x, y - layout.blocks.find((it) => it.block.layer === layer).y]);
  assert.deepEqual(offset(two, 2), offset(two, 4));
  for (const layer of [-1, 0, 1, 2, 3, 4]) {
    assert.equal(one.blocks[layer + 1].y, two.blocks[layer + 1].y);
  }
});

test("every layer is reached by a line from the one before it", () => {
  const graph = graphOf(9);
  for (const open of [new Set(), new Set([4]), new Set([0, 1, 2, 3, 4, 5, 6, 7, 8])]) {
    const { between } = layOut(graph, graph, open);
    const layerOf = (id) => graph.nodes[id].layer;
    for (let layer = 1; layer < 9; layer++) {
      assert.ok(between.some((line) => layerOf(line.from) === layer - 1 && layerOf(line.to) === layer), `layer ${layer}`);
    }
  }
});

test("search looks at names, ops and weights, and all words must be there", () => {
  const graph = graphOf(3);
  const names = (words) => search(graph, words).map((node) => node.name);
  assert.deepEqual(names("rmsnorm"), ["0.norm", "1.norm", "2.norm"]);
  assert.deepEqual(names("blk.1.left"), ["1.left"]);
  assert.deepEqual(names("q8_0 2."), ["2.left"]);
  assert.deepEqual([names("  "), names("nothing")], [[], []]);
});

test("readers are the other way round of sources", () => {
  const graph = graphOf(1);
  const consumers = consumersOf(graph);
  assert.deepEqual(consumers[2], [3, 6]);
  assert.deepEqual(consumers.at(-1), []);
  assert.equal(shapeText([8, 2, 1, 1]), "8 × 2");
  assert.equal(shapeText([1, 1, 1, 1]), "1");
});

test("ties run from all that a node reads, and to all who read it, where they are drawn", () => {
  const graph = graphOf(3);
  const nodeNamed = (name) => graph.nodes.find((node) => node.name === name).id;
  const all = layOut(graph, graph, new Set([0, 1, 2]));
  const lines = (path) => path.split("M").length - 1;
  const ties = tiesOf(graph, all, nodeNamed("0.out"));
  assert.deepEqual([lines(ties.into), lines(ties.out)], [3, 2], "reads embed and two products; read by the next norm and sum");
  assert.equal(ties.box.node.name, "0.out");
  const one = layOut(graph, graph, new Set([0]));
  assert.equal(lines(tiesOf(graph, one, nodeNamed("0.out")).out), 0, "readers in a folded layer have no box");
  assert.equal(tiesOf(graph, one, nodeNamed("2.norm")), null);
});

test("a deepened graph is one that a model with more layers would have", () => {
  const [deep] = deepen({ stages: [graphOf(2)] }, 28).stages;
  assert.deepEqual(deep, graphOf(28));
});

test("columns are about equally high, whatever the number of layers", () => {
  for (const n of [6, 17, 24, 28, 30, 31, 48]) {
    const graph = graphOf(n);
    const { blocks, height } = layOut(graph, graph, new Set(Array.from({ length: n }, (_, i) => i)));
    const columns = new Map();
    for (const block of blocks) {
      const middle = Math.round(block.x + block.width / 2);
      columns.set(middle, Math.max(columns.get(middle) ?? 0, block.y + block.height));
    }
    const layer = blocks[1].height;
    for (const [middle, foot] of columns) assert.ok(height - foot <= 2 * layer, `${n} layers, column at ${middle}: ${foot} of ${height}`);
  }
});

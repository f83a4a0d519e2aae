// Makes a graph of few layers one of many, for the page alone: what a large model looks like, without its file.

/** The answer of /graph/stages with the first layer repeated until there are at least `nLayers`; memory is told as it was. */
export function deepen(stages, nLayers) {
  return { ...stages, stages: stages.stages.map((graph) => deepGraph(graph, nLayers)) };
}

function deepGraph(graph, nLayers) {
  const own = graph.nodes.filter((node) => node.layer === 0);
  const start = own[0].id;
  const n = own.length;
  const given = Math.max(...graph.nodes.map((node) => node.layer ?? 0)) + 1;
  const copies = nLayers - given;
  if (copies <= 0) return graph;
  const inputs = new Set(graph.inputs);
  // What leaves the first layer enters its copy where the first layer read what came before the layers.
  const out = Math.max(...graph.nodes.filter((node) => node.id >= start + n).flatMap((node) => node.src.filter((id) => id >= start && id < start + n)));
  const source = (copy) => (id) => {
    if (inputs.has(id)) return id;
    if (id >= start) return id + copy * n;
    return copy === 0 ? id : out + (copy - 1) * n;
  };
  const moved = (node, copy, layer) => ({
    ...node,
    id: node.id < start ? node.id : node.id + copy * n,
    name: node.layer === null ? node.name : node.name.replace(/^\d+/, String(layer)),
    layer: node.layer === null ? null : layer,
    src: node.src.map(source(node.id < start ? 0 : copy)),
    weights: node.weights.map((weight) => ({ ...weight, name: weight.name.replace(/^blk\.\d+/, `blk.${layer}`) })),
  });
  const before = graph.nodes.filter((node) => node.id < start);
  const repeated = Array.from({ length: copies + 1 }, (_, copy) => own.map((node) => moved(node, copy, copy))).flat();
  const after = graph.nodes.filter((node) => node.id >= start + n).map((node) => moved(node, copies, (node.layer ?? 0) + copies));
  return { ...graph, nodes: [...before, ...repeated, ...after], outputs: graph.outputs.map((id) => id + copies * n) };
}

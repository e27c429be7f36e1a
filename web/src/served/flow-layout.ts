// Places the operators of a run in layers from left to right, each to the right of those it waits for.

export interface Point {
  x: number;
  y: number;
}

export interface Layout {
  /** The upper left corner of each operator's box. */
  boxes: Map<string, Point>;
  /** The points that each edge of the flow passes: from box to box, around the boxes between them. */
  edges: { from: string; to: string; points: Point[] }[];
  width: number;
  height: number;
}

export const [BOX_WIDTH, BOX_HEIGHT, GAP_X, GAP_Y] = [134, 46, 26, 14];
/** The height of an edge that passes a layer. */
const PASSING_HEIGHT = 12;

/** The layer of each operator: the longest way to it. Edges of a circle are ignored from the point where it closes. */
export function layersOf(names: string[], edges: [string, string][]): Map<string, number> {
  const layer = new Map(names.map((name) => [name, 0]));
  // Each round moves at least one operator, unless all stand right; more rounds than operators mean a circle.
  for (let round = 0; round < names.length; round += 1) {
    let moved = false;
    for (const [from, to] of edges) {
      const least = (layer.get(from) ?? 0) + 1;
      if ((layer.get(to) ?? 0) < least && least < names.length) {
        layer.set(to, least);
        moved = true;
      }
    }
    if (!moved) break;
  }
  // An operator without inputs is drawn in the column before the first operator that reads from it.
  for (const name of names) {
    if (edges.some(([, to]) => to === name)) continue;
    const after = edges.filter(([from]) => from === name).map(([, to]) => layer.get(to) ?? 0);
    if (after.length) layer.set(name, Math.max(0, Math.min(...after) - 1));
  }
  return layer;
}

/** A place in a layer: an operator's box, or an edge that passes. */
interface Slot {
  id: string;
  before: string[];
  height: number;
  middle: number;
}

export function layoutOf(names: string[], flow: [string, string][]): Layout {
  const known = new Set(names);
  const edges = flow.filter(([from, to]) => from !== to && known.has(from) && known.has(to));
  const layer = layersOf(names, edges);
  const layers: Slot[][] = Array.from({ length: Math.max(0, ...layer.values()) + 1 }, () => []);
  const slots = new Map<string, Slot>();
  const add = (id: string, at: number, height: number): Slot => {
    const slot = { id, before: [], height, middle: 0 };
    layers[at].push(slot);
    slots.set(id, slot);
    return slot;
  };
  for (const name of names) add(name, layer.get(name) ?? 0, BOX_HEIGHT);
  const ways = edges.map(([from, to]) => {
    const ids = [from];
    for (let at = (layer.get(from) ?? 0) + 1; at < (layer.get(to) ?? 0); at += 1) {
      const id = `${from} ${to} ${at}`;
      add(id, at, PASSING_HEIGHT).before.push(ids[ids.length - 1]);
      ids.push(id);
    }
    slots.get(to)?.before.push(ids[ids.length - 1]);
    return { from, to, ids: [...ids, to] };
  });
  // Each slot stands near the mean height of those before it, so that few edges cross.
  for (const column of layers) {
    const wanted = ({ before }: Slot) => (before.length ? before.reduce((sum, id) => sum + (slots.get(id)?.middle ?? 0), 0) / before.length : 0);
    const order = new Map(column.map((slot) => [slot, wanted(slot)]));
    column.sort((one, other) => (order.get(one) ?? 0) - (order.get(other) ?? 0));
    let top = -heightOf(column) / 2;
    for (const slot of column) {
      slot.middle = top + slot.height / 2;
      top += slot.height + GAP_Y;
    }
  }
  const height = Math.max(BOX_HEIGHT, ...layers.map(heightOf)) + 4;
  const x = (at: number) => 2 + at * (BOX_WIDTH + GAP_X);
  const y = (id: string) => height / 2 + (slots.get(id)?.middle ?? 0);
  return {
    boxes: new Map(names.map((name) => [name, { x: x(layer.get(name) ?? 0), y: y(name) - BOX_HEIGHT / 2 }])),
    edges: ways.map(({ from, to, ids }) => {
      const first = layer.get(from) ?? 0;
      // An edge that passes a layer is straight there.
      const points = ids.flatMap((id, i): Point[] => {
        const [left, right] = [{ x: x(first + i), y: y(id) }, { x: x(first + i) + BOX_WIDTH, y: y(id) }];
        return i === 0 ? [right] : i === ids.length - 1 ? [left] : [left, right];
      });
      return { from, to, points };
    }),
    width: x(layers.length) - GAP_X + 2,
    height,
  };
}

const heightOf = (column: Slot[]): number => column.reduce((sum, { height }) => sum + height, 0) + GAP_Y * Math.max(0, column.length - 1);

// The scales of the plot's axes, and the brushes on them.

import type { RunColumn, RunTable } from "../data/columns";
import { fixed } from "../words";
import type { Brush } from "./address";

export const [TOP, BOTTOM, HEIGHT] = [46, 348, 372];

type Value = string | number;

export type Scale =
  | { names: string[]; y(value: Value): number }
  | { names: null; least: number; most: number; y(value: Value): number; value(y: number): number };

export interface PlottedColumn extends RunColumn {
  scale: Scale;
}

/** The columns with an axis: settings, metrics, one time and the objective. */
export function plottedColumns(table: RunTable): PlottedColumn[] {
  return [...table.ofKind("axis"), ...table.metrics, ...table.ofKind("seconds").slice(0, 1), ...table.ofKind("objective")].flatMap((column) => {
    const values = table.rows.map(column.of).filter((value) => value !== null);
    return values.length ? [{ ...column, scale: scaleOf(column, values) }] : [];
  });
}

function scaleOf(column: RunColumn, values: Value[]): Scale {
  if (!column.isNumber) {
    const names = [...new Set(values.map(String))];
    const places = new Map(names.map((name, i) => [name, i]));
    const step = (BOTTOM - TOP) / names.length;
    return { names, y: (value) => TOP + step * ((places.get(String(value)) ?? 0) + 0.5) };
  }
  const numbers = values.map(Number);
  const [least, most] = [Math.min(...numbers), Math.max(...numbers)];
  if (least === most) return { names: null, least, most, y: () => (TOP + BOTTOM) / 2, value: () => least };
  return {
    names: null, least, most,
    y: (value) => BOTTOM - ((Number(value) - least) / (most - least)) * (BOTTOM - TOP),
    value: (y) => least + ((BOTTOM - y) / (BOTTOM - TOP)) * (most - least),
  };
}

/** The upper and lower end of a brush. */
export function extentOf({ scale }: PlottedColumn, brush: Brush | undefined): [number, number] {
  if (!brush) return [0, 0];
  if (!("names" in brush)) return [scale.y(brush.to) - 3, scale.y(brush.from) + 3];
  const half = (BOTTOM - TOP) / (scale.names?.length ?? 1) / 2 - 1;
  const places = [...brush.names].map(scale.y);
  return [Math.min(...places) - half, Math.max(...places) + half];
}

/** The brush between two heights of an axis. */
export function brushBetween({ scale }: PlottedColumn, a: number, b: number): Brush | null {
  const [top, bottom] = [Math.min(a, b), Math.max(a, b)];
  if (scale.names) return { names: new Set(scale.names.filter((name) => scale.y(name) >= top && scale.y(name) <= bottom)) };
  const { least, most, y, value } = scale;
  // All trials have the same number, in the middle of the axis.
  if (least === most) return y(least) >= top && y(least) <= bottom ? { from: least, to: most } : null;
  const rounded = (x: number) => Number(Math.min(most, Math.max(least, x)).toPrecision(6));
  // At the end of the axis the exact value is used, because a rounded one could exclude it.
  return { from: bottom >= BOTTOM ? least : rounded(value(bottom)), to: top <= TOP ? most : rounded(value(top)) };
}

export function wordsOfBrush(column: RunColumn | undefined, brush: Brush): string {
  if (!column) return "";
  return "names" in brush ? `${column.title} is ${[...brush.names].join(" or ")}` : `${column.title} from ${fixed(brush.from, column.digits)} to ${fixed(brush.to, column.digits)}`;
}

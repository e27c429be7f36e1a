// Fields for brushes: two numbers for a column of numbers, boxes for words.

import { useRef } from "preact/hooks";
import { fixed, shortened } from "../words";
import { useRun } from "./model";
import type { PlottedColumn } from "./scales";

export function BrushFields({ columns }: { columns: PlottedColumn[] }) {
  const model = useRun();
  return (
    <div id="brush-fields" class="fields">
      {columns.map((column) => (
        <fieldset key={column.key} data-keep={column.key}>
          <legend>{column.title}</legend>
          {column.scale.names ? <NameBoxes column={column} names={column.scale.names} /> : <RangeFields column={column} least={column.scale.least} most={column.scale.most} />}
        </fieldset>
      ))}
      <button type="button" onClick={() => model.change({ brushes: new Map() })}>Keep all trials</button>
    </div>
  );
}

function NameBoxes({ column, names }: { column: PlottedColumn; names: string[] }) {
  const model = useRun();
  const brush = model.brushes.value.get(column.key);
  const kept = brush && "names" in brush ? brush.names : new Set<string>();
  const toggle = (name: string, isOn: boolean) => {
    const next = new Set(kept);
    if (isOn) next.add(name);
    else next.delete(name);
    model.brush(column.key, { names: next });
  };
  return (
    <>
      {names.map((name) => (
        <label key={name}><input type="checkbox" value={name} checked={kept.has(name)} onChange={(event) => toggle(name, event.currentTarget.checked)} /> {shortened(name)}</label>
      ))}
    </>
  );
}

function RangeFields({ column, least, most }: { column: PlottedColumn; least: number; most: number }) {
  const model = useRun();
  const brush = model.brushes.value.get(column.key);
  const range = brush && !("names" in brush) ? brush : null;
  const [from, to] = [useRef<HTMLInputElement>(null), useRef<HTMLInputElement>(null)];
  const typed = () => {
    if (!from.current || !to.current) return;
    const [low, high] = [from.current.value, to.current.value];
    const isWrong = low !== "" && high !== "" && Number(low) > Number(high);
    to.current.setCustomValidity(isWrong ? `This must be at least ${low}.` : "");
    if (isWrong) to.current.reportValidity();
    else if (low === "" && high === "") model.brush(column.key, null);
    else model.brush(column.key, { from: low === "" ? least : Number(low), to: high === "" ? most : Number(high) });
  };
  return (
    <>
      <label>from <input ref={from} type="number" step="any" placeholder={fixed(least)} data-end="from" value={range ? range.from : ""} onChange={typed} /></label>
      <label>to <input ref={to} type="number" step="any" placeholder={fixed(most)} data-end="to" value={range ? range.to : ""} onChange={typed} /></label>
    </>
  );
}

// Pieces of tables, and the boxes in which they are scrolled.

import type { ComponentChildren } from "preact";
import { useRef } from "preact/hooks";
import type { Order } from "../run/address";
import { fixed, shortened } from "../words";
import { useOverflow } from "./size";
import { LongText } from "./text";

/** A box that is scrolled, also with keys; its label names it for screen readers. */
export function Scroll({ label, labelledBy, children, ...rest }: { label?: string; labelledBy?: string; children: ComponentChildren; class?: string }) {
  const box = useRef<HTMLDivElement>(null);
  const isScrolled = useOverflow(box);
  return (
    <div class={`scroll ${rest.class ?? ""}`.trim()} ref={box} tabIndex={isScrolled ? 0 : undefined} role="group" aria-label={label} aria-labelledby={labelledBy}>
      {children}
    </div>
  );
}

export const Caption = ({ text }: { text: string }) => <caption class="unseen">{shortened(text)}</caption>;

export const Head = ({ children, number, title }: { children: ComponentChildren; number?: boolean; title?: string }) => (
  <th scope="col" class={number ? "number" : undefined} title={title}>{children}</th>
);

export const NumberCell = ({ value, digits }: { value: number | null | undefined; digits?: number }) => <td class="number">{fixed(value, digits)}</td>;

export const TextCell = ({ text, class: name }: { text: string; class?: string }) => <td class={name}><LongText text={text} /></td>;

/** A heading that sorts. `order` is the present order. */
export function Sortable({ label, sortKey, order, isNumber, meaning, choose }: { label: string; sortKey: string; order: Order | null; isNumber: boolean; meaning?: string; choose(order: Order): void }) {
  const mine = order?.key === sortKey ? order : null;
  return (
    <th scope="col" class={isNumber ? "number" : undefined} title={meaning} aria-sort={mine ? (mine.down ? "descending" : "ascending") : undefined}>
      <button type="button" onClick={() => choose(mine ? { key: sortKey, down: !mine.down } : { key: sortKey, down: isNumber })}>
        {label}<span aria-hidden="true">{mine ? (mine.down ? " ↓" : " ↑") : ""}</span>
      </button>
    </th>
  );
}

/** A row that is chosen by a click anywhere, and by the button in its head. */
export function ChosenRow({ id, isChosen, isOut, choose, children, marked = true }: { id: string; isChosen: boolean; isOut?: boolean; choose(): void; children: ComponentChildren; marked?: boolean }) {
  const names = [isChosen ? "chosen" : "", isOut ? "out" : ""].filter(Boolean).join(" ");
  return (
    <tr class={names || undefined} data-id={marked ? id : undefined} onClick={choose}>
      <th scope="row">
        <button type="button" class="open" aria-pressed={isChosen} onClick={(event) => { event.stopPropagation(); choose(); }}>{shortened(id)}</button>
      </th>
      {children}
    </tr>
  );
}

export function Chooser({ label, options, value, choose }: { label: string; options: [string, string][]; value: string; choose(value: string): void }) {
  return (
    <label>
      {label}{" "}
      <select value={value} onChange={(event) => choose(event.currentTarget.value)}>
        {options.map(([key, text]) => <option key={key} value={key} selected={key === value}>{shortened(text)}</option>)}
      </select>
    </label>
  );
}

/** A problem with a part of the page, and a button to try again. */
export const Problem = ({ text, retry }: { text: string; retry?: () => void }) => (
  <p class="problem"><LongText text={text} />{retry ? <> <button type="button" onClick={retry}>Try again</button></> : null}</p>
);

// A page of a document as a picture.

import { useEffect, useState } from "preact/hooks";
import { useLoaded } from "../../page/loaded";
import { Problem } from "../../page/tables";
import { getBlob } from "../server";
import { DOCUMENT_MS } from "./address";

// A longer text would make an address that servers refuse.
const LONGEST_MARK = 1000;

/** An `img` element cannot send a key, so the picture is loaded as data. */
export function PagePicture({ path, page, mark }: { path: string; page: number; mark?: string }) {
  const said = new URLSearchParams({ path, page: String(page) });
  if (mark && mark.length <= LONGEST_MARK) said.set("mark", mark);
  const address = `/api/documents/page.png?${said}`;
  const { value: blob, busy, problem, retry } = useLoaded(() => getBlob(address, DOCUMENT_MS), [address]);
  const [source, setSource] = useState<string | null>(null);
  useEffect(() => {
    if (!blob) return undefined;
    const url = URL.createObjectURL(blob);
    setSource(url);
    return () => URL.revokeObjectURL(url);
  }, [blob]);
  return (
    <div class="picture" aria-busy={busy ? "true" : undefined}>
      {problem ? <Problem text={`Page ${page} cannot be shown as a picture: ${problem}`} retry={retry} /> : null}
      {busy ? <p class="hint" role="status">Drawing page {page}…</p> : null}
      {source && !problem ? <img src={source} alt={`Page ${page} of ${path}${mark ? ", with the text marked if it is on the page" : ""}`} /> : null}
    </div>
  );
}

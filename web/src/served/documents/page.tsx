// The documents of the last run: the list, or one document with what parsers and chunkers made of it.

import { useEffect, useMemo } from "preact/hooks";
import type { DocumentList, ListedDocument } from "../../data/documents";
import { useLoaded } from "../../page/loaded";
import { Problem } from "../../page/tables";
import { VirtualList } from "../../page/virtual-list";
import { counted, shortened } from "../../words";
import { navigate } from "../navigation";
import { RequestProblem, getJson } from "../server";
import { type DocumentView, FIRST_VIEW, documentsAddress, documentsHref, readDocumentsAddress } from "./address";
import { DocumentPane } from "./document";

const LINE_HEIGHT = 40;

/** The list, and why there is none: a document can be read before any run. */
interface FoundDocuments {
  list: DocumentList | null;
  missing: string | null;
}

async function loadDocuments(): Promise<FoundDocuments> {
  try {
    return { list: await getJson<DocumentList>("/api/documents"), missing: null };
  } catch (error) {
    if (error instanceof RequestProblem && error.status === 404) return { list: null, missing: error.message };
    throw error;
  }
}

export function DocumentsPage({ address }: { address: string }) {
  const view = useMemo(() => readDocumentsAddress(address), [address]);
  const change = (changes: Partial<DocumentView>, step: "pushState" | "replaceState" = "pushState") => navigate({ page: "documents", address: documentsAddress({ ...view, ...changes }) }, step);
  const { value, busy, problem, retry } = useLoaded(loadDocuments, []);
  useEffect(() => { document.title = view.path === null ? "Reverie: documents" : `Reverie: ${shortened(view.path, 80)}`; }, [view.path]);
  return (
    <main id="main" tabIndex={-1} class="served documents">
      <h1 id="documents-heading">{view.path === null ? "Documents" : shortened(view.path)}</h1>
      {view.path === null ? null : <p><a href={documentsHref({ find: view.find })}>All documents</a></p>}
      {problem ? <Problem text={`The list of documents could not be loaded: ${problem}`} retry={retry} /> : null}
      {busy ? <p class="hint" role="status" aria-busy="true">Loading the documents…</p> : null}
      {value?.missing && view.path === null ? <NoRun words={value.missing} retry={retry} /> : null}
      {value?.list && view.path === null ? <List list={value.list} view={view} change={change} /> : null}
      {/* A text can be read although the list cannot: the list is that of the last run, the text is in the corpus. */}
      {(value || problem) && view.path !== null ? <DocumentPane key={view.path} path={view.path} list={value?.list ?? null} isListMissing={problem !== null} view={view} change={change} /> : null}
    </main>
  );
}

const NoRun = ({ words, retry }: { words: string; retry(): void }) => (
  <>
    <p class="hint" id="no-documents">The documents are listed when a run has finished. The server says: {words}.</p>
    <p class="hint">Start a run with <code>reverie run</code>, and then <button type="button" onClick={retry}>Look again</button></p>
  </>
);

function List({ list, view, change }: { list: DocumentList; view: DocumentView; change(changes: Partial<DocumentView>, step?: "pushState" | "replaceState"): void }) {
  const found = useMemo(() => {
    const words = view.find.toLowerCase().split(/\s+/).filter(Boolean);
    return list.documents.filter(({ path }) => words.every((word) => path.toLowerCase().includes(word)));
  }, [list, view.find]);
  const withEvidence = found.filter(({ questions }) => questions > 0).length;
  return (
    <>
      <div class="fields">
        <label>Find <input type="search" id="find-document" value={view.find} onInput={(event) => change({ find: event.currentTarget.value }, "replaceState")} /></label>
        <span class="hint" role="status">{found.length === list.documents.length ? counted(found.length, "document") : `${found.length} of ${counted(list.documents.length, "document")}`} of the run {list.run}; {withEvidence} of them {withEvidence === 1 ? "holds" : "hold"} evidence of golden questions.</span>
      </div>
      {found.length ? (
        <VirtualList
          id="documents" label="Documents" count={found.length} lineHeight={LINE_HEIGHT} active={-1} isListbox={false}
          line={(index, attributes) => <DocumentLine key={found[index].path} document={found[index]} attributes={attributes} find={view.find} />}
        />
      ) : <p class="hint">{list.documents.length ? "No document has these words in its path." : "The run has no documents."}</p>}
    </>
  );
}

function DocumentLine({ document: { path, questions }, attributes, find }: { document: ListedDocument; attributes: object; find: string }) {
  return (
    <div {...attributes} role="listitem" class="document-line">
      <a href={documentsHref({ ...FIRST_VIEW, path, find })}>{shortened(path)}</a>
      <span class="range">{questions ? counted(questions, "question") : "no questions"}</span>
    </div>
  );
}

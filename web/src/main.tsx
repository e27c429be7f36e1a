// Starts the page: a report, whose data is in the document, or the pages of a server.

import "./style/base.css";
import "./style/tables.css";
import "./style/plots.css";
import "./style/served.css";
import "./style/reading.css";
import "./style/golden.css";
import "./style/ask.css";
import "./style/votes.css";
import { startReport } from "./report";
import { startServed } from "./served/app";

const page = document.getElementById("page");
if (!page) throw new Error("This document has no element for the page.");
const plain = document.getElementById("plain");
const showPage = (isShown: boolean) => {
  if (plain) plain.hidden = isShown;
  page.hidden = !isShown;
};
// Plots are drawn for the width that the page has when it is shown.
showPage(true);
try {
  if (document.body.dataset.served !== undefined) startServed(page);
  else startReport(page, document.getElementById("data")?.textContent ?? "null");
} catch (error) {
  // The plain table is better than an empty page.
  showPage(plain === null);
  throw error;
}
document.documentElement.dataset.ready = "yes";

// ---- start
function drawAll() {
  drawBoard();
  drawFront();
  fillBrushes();
  drawCompare();
  drawTrial();
  drawQuestions();
  drawQuestion();
}
byId("plain").hidden = true;
byId("page").hidden = false;
byId("skip").addEventListener("click", (event) => { event.preventDefault(); byId("board-heading").scrollIntoView(); byId("main").focus({ preventScroll: true }); });
drawHeader();
drawNotes();
drawPlot();
drawBrushes();
drawFilter();
followAddress();
// A change of the address by hand fires both events, the back button only the first.
addEventListener("popstate", followAddress);
addEventListener("hashchange", () => { if (location.hash.slice(1) !== remembered) followAddress(); });
let resized = null;
addEventListener("resize", () => {
  clearTimeout(resized);
  resized = setTimeout(() => { drawPlot(); drawFront(); }, 150);
});
document.documentElement.dataset.ready = "yes";

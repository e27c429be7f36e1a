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
// Both come when the address is changed by hand, one of them when somebody goes back.
addEventListener("popstate", followAddress);
addEventListener("hashchange", () => { if (location.hash.slice(1) !== remembered) followAddress(); });
let resized = null;
addEventListener("resize", () => {
  clearTimeout(resized);
  resized = setTimeout(() => { drawPlot(); drawFront(); }, 150);
});
document.documentElement.dataset.ready = "yes";

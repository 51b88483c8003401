// A leaderboard: one measure at a time, some graphs, rows with or without training. Without scripts, all of it is shown.
if (document.querySelector("#filters")) {
  const [measure, graphs, training] = ["measure", "graph", "training"].map((name) => document.querySelector(`#by-${name}`));
  const show = () => {
    const places = graphs.value === "" ? null : graphs.value.split(" ");
    for (const board of document.querySelectorAll(".board")) {
      board.hidden = board.dataset.measure !== measure.value;
      const columns = [...board.querySelectorAll("thead th")];
      // mean ranks are of all graphs
      const off = columns.map((head) => places !== null && ("extra" in head.dataset || (head.dataset.graph && !places.includes(head.dataset.graph))));
      for (const row of board.querySelectorAll("tr")) {
        row.hidden = training.value !== "" && "trained" in row.dataset && row.dataset.trained !== training.value;
        [...row.cells].forEach((cell, column) => { cell.hidden = Boolean(off[column]); });
      }
      board.querySelectorAll(".source").forEach((line) => { line.hidden = places !== null; });
    }
  };
  [measure, graphs, training].forEach((filter) => filter.addEventListener("change", show));
  document.querySelector("#filters").addEventListener("submit", (event) => event.preventDefault());
  show();
}

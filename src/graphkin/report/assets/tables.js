// A cell shows one line; the rest of it comes in a tip, by the pointer or by the arrow keys, and is printed below the line.
for (const table of document.querySelectorAll("table.results, table.glance")) {
  const cells = [...table.querySelectorAll("td[tabindex]")];
  const show = (cell) => {
    const rest = cell.querySelector(".rest").cloneNode(true);
    rest.className = "shown";
    tips.show(rest, () => cell.getBoundingClientRect());
  };
  cells.forEach((cell, place) => {
    cell.tabIndex = place ? -1 : 0;  // one stop of the Tab key for the whole table
    cell.addEventListener("pointerenter", () => show(cell));
    cell.addEventListener("pointerleave", tips.hide);
    cell.addEventListener("focus", () => {
      cells.forEach((other) => { other.tabIndex = other === cell ? 0 : -1; });
      show(cell);
    });
    cell.addEventListener("blur", tips.hide);
  });
  const steps = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
  table.addEventListener("keydown", (event) => {
    const cell = event.target.closest("td[tabindex]");
    const step = steps[event.key];
    if (!cell || !step) return;
    event.preventDefault();
    const rows = [...table.querySelectorAll("tbody tr")];
    let [row, column] = [rows.indexOf(cell.parentElement), cell.cellIndex];
    do {  // rows and cells without anything to show are passed over
      [row, column] = [row + step[0], column + step[1]];
    } while (rows[row] && column > 0 && column < table.tHead.rows[0].cells.length && !rows[row].cells[column]?.hasAttribute("tabindex"));
    rows[row]?.cells[column]?.focus();
  });
}

// A column header sorts: numbers from the largest, text from A; then the other way; then as it was. Missing cells stay last.
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  const original = [...body.rows];
  const headers = [...table.tHead.rows[0].cells].filter((header) => header.querySelector("button"));
  const choice = document.querySelector(`select[data-table="${CSS.escape(table.id)}"]`);

  const value = (row, column) => {
    const cell = row.cells[column];
    if (column === 0) return cell.textContent.trim().toLowerCase();
    const text = cell.dataset[choice ? choice.value : "ours"];
    return text === undefined ? null : Number(text);
  };
  const compare = (a, b) => (typeof a === "string" ? a.localeCompare(b, undefined, { numeric: true }) : a - b);

  const sort = (column, direction) => {
    headers.forEach((header, place) => header.setAttribute("aria-sort", place === column ? direction : "none"));
    const rows = [...original];
    if (direction !== "none") {
      const sign = direction === "ascending" ? 1 : -1;
      rows.sort((first, second) => {
        const [a, b] = [value(first, column), value(second, column)];
        if (a === null || b === null) return (a === null) - (b === null);
        return sign * compare(a, b);
      });
    }
    body.append(...rows);
  };

  headers.forEach((header, column) => header.querySelector("button").addEventListener("click", () => {
    const order = column === 0 ? ["ascending", "descending", "none"] : ["descending", "ascending", "none"];
    sort(column, order[(order.indexOf(header.getAttribute("aria-sort")) + 1) % 3]);
  }));
  if (choice) {
    choice.addEventListener("change", () => {
      const column = headers.findIndex((header) => header.getAttribute("aria-sort") !== "none");
      if (column > 0) sort(column, headers[column].getAttribute("aria-sort"));
    });
  }
}

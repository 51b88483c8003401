// A column header sorts: numbers from the largest, text from A; then the other way; then as it was. Missing cells stay last.
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  const original = [...body.rows];
  const headers = [...table.tHead.rows[0].cells];
  const choice = document.querySelector(`select[data-table="${CSS.escape(table.id)}"]`);

  const value = (row, column) => {
    const cell = row.cells[column];
    if (column === 0) return cell.textContent.trim().toLowerCase();
    const text = cell.dataset[choice ? choice.value : "ours"];
    return text === undefined ? null : Number(text);
  };
  const compare = (a, b) => (typeof a === "string" ? a.localeCompare(b) : a - b);

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

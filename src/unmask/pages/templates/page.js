"use strict";
// Tables sort by the buttons in their headers: rising, falling, and as they were.
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  const original = Array.from(body.rows);
  const heads = Array.from(table.tHead.rows[0].cells);
  const words = new Intl.Collator("en", { numeric: true });

  const compare = (a, b, sign) => {
    if (a.key === "missing" || b.key === "missing") {
      return (a.key === "missing") - (b.key === "missing"); // gaps stay last either way
    }
    if (a.key !== undefined && b.key !== undefined) {
      return sign * (Number(a.key) - Number(b.key));
    }
    return sign * words.compare(a.text, b.text);
  };

  const sortBy = (column, order) => {
    const sign = order === "descending" ? -1 : 1;
    const keyed = original.map((row) => {
      const cell = row.cells[column];
      return { row, key: cell.dataset.sort, text: cell.textContent };
    });
    if (order !== "none") keyed.sort((a, b) => compare(a, b, sign));
    body.append(...keyed.map((entry) => entry.row));
    heads.forEach((head, at) => head.setAttribute("aria-sort", at === column ? order : "none"));
  };

  const after = { none: "ascending", ascending: "descending", descending: "none" };
  heads.forEach((head, column) => {
    head.setAttribute("aria-sort", "none");
    head.querySelector("button").addEventListener("click", () => {
      sortBy(column, after[head.getAttribute("aria-sort")]);
    });
  });
}

// Commands can be copied where the browser allows it.
if (navigator.clipboard) {
  for (const box of document.querySelectorAll(".commands")) {
    const button = box.querySelector("button");
    button.hidden = false;
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(box.querySelector("code").textContent);
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    });
  }
}

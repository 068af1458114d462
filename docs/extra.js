// Cells of tables say their column, for phones, where rows become cards. Tables and pictures that are
// wider than their place can be scrolled by keyboard.
document$.subscribe(() => {
  document.querySelectorAll(".md-typeset table:not([class])").forEach((table) => {
    const heads = [...(table.tHead?.rows[0]?.cells ?? [])].map((head) => head.textContent.trim());
    for (const row of table.tBodies[0]?.rows ?? []) {
      heads.forEach((head, place) => {
        if (head && row.cells[place]) row.cells[place].dataset.column = head;
      });
    }
  });
  const places = document.querySelectorAll(".md-typeset__scrollwrap, .md-typeset p.picture");
  places.forEach((place, number) => {
    if (place.scrollWidth > place.clientWidth) {
      place.tabIndex = 0;
      place.setAttribute("role", "region");
      place.setAttribute("aria-label", `${place.matches("p") ? "Picture" : "Table"} ${number + 1}`);
    }
  });
});

// Tables and pictures that are wider than their place can be scrolled by keyboard.
document$.subscribe(() => {
  const places = document.querySelectorAll(".md-typeset__scrollwrap, .md-typeset p.picture");
  places.forEach((place, number) => {
    if (place.scrollWidth > place.clientWidth) {
      place.tabIndex = 0;
      place.setAttribute("role", "region");
      place.setAttribute("aria-label", `${place.matches("p") ? "Picture" : "Table"} ${number + 1}`);
    }
  });
});

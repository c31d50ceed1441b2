// The tree of locations: a branch is opened and closed by its button; closing closes everything inside it.

export function openBranches() {
  document.addEventListener("click", (event) => {
    const twig = event.target.closest(".twig");
    if (twig) show(twig.closest("tr"), twig.getAttribute("aria-expanded") !== "true");
  });
}

function show(row, isOpen) {
  row.querySelector(".twig")?.setAttribute("aria-expanded", String(isOpen));
  for (const child of row.parentElement.querySelectorAll(`[data-parent="${row.dataset.branch}"]`)) {
    child.hidden = !isOpen;
    if (!isOpen) show(child, false);
  }
}

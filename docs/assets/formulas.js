// Draws what pymdownx.arithmatex and docs/scripts/rst_docstrings.py mark as formulas.
document.querySelectorAll(".arithmatex").forEach((element) => {
  const text = element.textContent.trim();
  const latex = text.slice(2, -2); // without \( \) or \[ \]
  katex.render(latex, element, { displayMode: text.startsWith("\\["), throwOnError: false });
});

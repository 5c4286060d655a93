// Draws the Mermaid diagrams of a page in the colours of its palette, and again when the reader changes it.
(() => {
  const diagrams = [...document.querySelectorAll(".diagram")].map((box) => ({ box, source: box.textContent }));
  let count = 0;

  async function draw() {
    const style = getComputedStyle(document.body);
    const dark = document.body.dataset.mdColorScheme === "slate";
    mermaid.initialize({
      startOnLoad: false,
      securityLevel: "strict",
      theme: "base",
      fontFamily: style.fontFamily,
      themeVariables: dark
        ? { darkMode: true, primaryColor: "#1d3a4a", primaryTextColor: "#e6edf3", primaryBorderColor: "#73bfe2",
            lineColor: "#8fa3b3", edgeLabelBackground: "#1e2129" }
        : { primaryColor: "#e7f3f9", primaryTextColor: "#1d2733", primaryBorderColor: "#0b6e99",
            lineColor: "#7b8794", edgeLabelBackground: "#ffffff" },
      flowchart: { useMaxWidth: false, wrappingWidth: 190, nodeSpacing: 28, rankSpacing: 36 },
    });
    for (const { box, source } of diagrams) {
      const { svg } = await mermaid.render(`diagram-${count++}`, source);
      box.innerHTML = svg;
    }
  }

  draw();
  new MutationObserver(draw).observe(document.body, { attributeFilter: ["data-md-color-scheme"] });
})();

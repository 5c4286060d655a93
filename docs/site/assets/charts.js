// Draws the charts of a page from the figures that it carries, in the colours of its palette.
(() => {
  function layout(figure, style, narrow) {
    const color = style.getPropertyValue("--md-default-fg-color--light").trim();
    const grid = style.getPropertyValue("--md-default-fg-color--lightest").trim();
    const axis = (own) => ({
      automargin: true, gridcolor: grid, linecolor: grid, zeroline: false, fixedrange: narrow, ...own,
      title: { text: own.title || "", standoff: 8 },
    });
    return {
      title: { text: figure.title, font: { size: 14 }, x: 0, xref: "paper", xanchor: "left" },
      xaxis: axis(figure.layout.xaxis), yaxis: axis(figure.layout.yaxis),
      font: { family: style.fontFamily, size: 11, color },
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      margin: { l: 8, r: 8, t: 36, b: 8 }, height: 340, hovermode: "closest",
      showlegend: false, // one for all plots of a chart is beneath them
      hoverlabel: { align: "left" },
    };
  }

  function legend(figures) {
    const box = document.createElement("p");
    box.className = "chart-legend";
    const traces = new Map(figures.flatMap((figure) => figure.data).map((trace) => [trace.name, trace]));
    for (const [name, trace] of traces) {
      const item = document.createElement("span");
      const line = trace.line && trace.line.dash === "dash" ? "dashed" : "solid";
      item.style.setProperty("--line", `0.15rem ${line} ${trace.marker.color}`);
      item.textContent = name;
      box.append(item);
    }
    return box;
  }

  function draw() {
    const style = getComputedStyle(document.body);
    for (const chart of document.querySelectorAll(".chart")) {
      const { figures, label } = JSON.parse(chart.querySelector("script").textContent);
      const narrow = chart.clientWidth < 700;
      while (chart.querySelectorAll(".chart-plot").length < figures.length) {
        const box = document.createElement("div");
        box.className = "chart-plot";
        chart.append(box);
        if (chart.querySelectorAll(".chart-plot").length === figures.length) chart.append(legend(figures));
      }
      chart.querySelectorAll(".chart-plot").forEach((box, index) => {
        const figure = figures[index];
        box.setAttribute("role", "img");
        box.setAttribute("aria-label", `${label}: ${figure.title}`);
        const options = { responsive: true, displaylogo: false, displayModeBar: false };
        Plotly.react(box, figure.data, layout(figure, style, narrow), options);
      });
    }
  }

  draw();
  new MutationObserver(draw).observe(document.body, { attributeFilter: ["data-md-color-scheme"] });
})();

// Figures are drawn when they come into sight, and again when the theme or the legend changes.
const plots = { figures: new Map(), drawn: new Set(), onDraw: [] };
{
  for (const figure of JSON.parse(document.getElementById("figures").textContent)) {
    plots.figures.set(figure.key, { ...figure, hidden: new Set([...figure.legend.keys()].filter((number) => figure.legend[number].hidden)) });
  }
  const touch = matchMedia("(pointer: coarse)").matches;
  const probe = document.createElement("canvas").getContext("webgl");
  const webgl = probe !== null;
  if (webgl) probe.getExtension("WEBGL_lose_context")?.loseContext();

  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  const colour = (slot) => css(typeof slot === "number" ? `c${slot}` : slot);
  const faint = (hex, alpha) => {
    const parts = [1, 3, 5].map((place) => parseInt(hex.slice(place, place + 2), 16));
    return `rgba(${parts.join(",")},${alpha})`;
  };

  const coloured = (trace, hidden) => {
    const { colour: slot, entry, part } = trace.meta;
    const shown = colour(slot);
    const copy = { ...trace, visible: !hidden.has(entry), showlegend: false };
    if (copy.type === "scattergl" && !webgl) copy.type = "scatter";
    if (part === "band") return { ...copy, fillcolor: faint(shown, slot === "quiet" ? 0.07 : 0.13) };
    copy.marker = { ...trace.marker, color: shown };
    if (trace.line) copy.line = { ...trace.line, color: shown };
    if (trace.error_y) copy.error_y = { ...trace.error_y, color: shown };
    return copy;
  };

  const layout = (panel) => {
    const axis = (given) => ({
      gridcolor: css("grid"), linecolor: css("rule"), zeroline: false, automargin: true, ...given,
      title: { standoff: 8, ...given.title },
    });
    const sans = css("sans");
    return {
      autosize: true, margin: { l: 8, r: 8, t: 14, b: 8 }, dragmode: touch ? false : "zoom",
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: sans, size: 12, color: css("ink") },
      hoverlabel: { bgcolor: css("tip"), bordercolor: css("rule"), font: { family: sans, size: 12, color: css("ink") } },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: css("quiet"), activecolor: css("ink") },
      ...panel.layout, xaxis: axis(panel.layout.xaxis), yaxis: axis(panel.layout.yaxis),
    };
  };

  const config = (figure) => ({
    displaylogo: false, showSendToCloud: false, responsive: true, displayModeBar: !touch,
    doubleClick: touch ? false : "reset+autosize",  // a tap comes as two clicks
    modeBarButtons: [figure.nodes ? ["zoom2d", "pan2d", "zoomIn2d", "zoomOut2d", "resetScale2d", "toImage"] : ["zoom2d", "resetScale2d", "toImage"]],
    toImageButtonOptions: { format: figure.nodes ? "png" : "svg", filename: `graphkin-${figure.key}`, scale: figure.nodes ? 2 : 1 },
  });

  const draw = (element) => {
    const figure = plots.figures.get(element.closest("figure").dataset.figure);
    const panel = figure.panels[Number(element.dataset.panel)];
    Plotly.react(element, panel.data.map((trace) => coloured(trace, figure.hidden)), layout(panel), config(figure));
    if (plots.drawn.has(element)) Plotly.Plots.resize(element);
    plots.drawn.add(element);
    plots.onDraw.forEach((listener) => listener(element, figure));
  };

  const sample = (entry) => {
    const shown = `var(--${typeof entry.colour === "number" ? `c${entry.colour}` : entry.colour})`;
    const dashes = { solid: "", dot: "1.5 3", dash: "6 3", dashdot: "6 3 1.5 3" }[entry.dash];
    const shapes = {
      circle: `<circle cx="6" cy="6" r="5"/>`, diamond: `<path d="M6 0 12 6 6 12 0 6Z"/>`, square: `<path d="M1 1h10v10H1Z"/>`,
      "triangle-up": `<path d="M6 1 12 11H0Z"/>`, cross: `<path d="M4 0h4v4h4v4H8v4H4V8H0V4h4Z"/>`,
    };
    return entry.symbol
      ? `<svg width="12" height="12" style="fill:${shown}" aria-hidden="true">${shapes[entry.symbol]}</svg>`
      : `<svg width="24" height="8" aria-hidden="true"><path d="M0 4H24" style="stroke:${shown};stroke-width:2.5;stroke-dasharray:${dashes || "none"}"/></svg>`;
  };

  for (const element of document.querySelectorAll("figure.plots")) {
    const figure = plots.figures.get(element.dataset.figure);
    const buttons = figure.legend.map((entry, number) => {
      const button = document.createElement("button");
      button.type = "button";
      button.innerHTML = sample(entry);
      button.append(entry.name);
      button.addEventListener("click", () => { toggle(number); });
      button.addEventListener("dblclick", () => { only(number); });
      return button;
    });
    element.querySelector(".legend").append(...buttons);
    const update = () => {
      buttons.forEach((button, number) => button.setAttribute("aria-pressed", String(!figure.hidden.has(number))));
      element.querySelectorAll(".plot").forEach((plot) => { if (plots.drawn.has(plot)) draw(plot); });
    };
    const toggle = (number) => {
      if (!figure.hidden.delete(number)) figure.hidden.add(number);
      update();
    };
    const only = (number) => {
      const others = buttons.map((_, place) => place).filter((place) => place !== number);
      const alone = others.every((place) => figure.hidden.has(place)) && !figure.hidden.has(number);
      figure.hidden = new Set(alone ? [] : others);
      update();
    };
    update();
  }

  const everything = [...document.querySelectorAll(".plot")];
  const sight = new IntersectionObserver((entries) => entries.filter((entry) => entry.isIntersecting).forEach((entry) => {
    sight.unobserve(entry.target);
    if (!plots.drawn.has(entry.target)) draw(entry.target);
  }), { rootMargin: "300px" });
  everything.forEach((element) => sight.observe(element));
  theme.listeners.push((wish) => everything.filter((element) => wish?.all || plots.drawn.has(element)).forEach(draw));
}

// The map answers for a node: its id, its label, the nodes most similar to it, and where they are.
plots.onDraw.push((element, figure) => {
  if (!figure.nodes || element.parentElement.querySelector(".tip")) return;
  const { names, labels, groups, nearest, similarities } = figure.nodes;
  const panel = element.parentElement;
  const points = [];
  for (const trace of figure.panels[0].data) {
    trace.customdata.forEach((node, place) => { points[node] = [trace.x[place], trace.y[place], trace.meta.entry]; });
  }
  const tip = panel.appendChild(document.createElement("div"));
  tip.className = "tip";
  tip.hidden = true;
  let rings = [];

  const pixels = (node) => {
    const { xaxis, yaxis } = element._fullLayout;
    const [x, y] = points[node];
    return [xaxis.l2p(x) + xaxis._offset + element.offsetLeft, yaxis.l2p(y) + yaxis._offset + element.offsetTop];
  };
  const inside = ([x, y]) => x >= 0 && y >= 0 && x <= panel.clientWidth && y <= panel.clientHeight;
  const text = (tag, content) => {
    const made = document.createElement(tag);
    made.textContent = content;
    return made;
  };
  const ring = (node, kind) => {
    if (node >= points.length || figure.hidden.has(points[node][2]) || !inside(pixels(node))) return;
    const made = panel.appendChild(document.createElement("div"));
    made.className = kind;
    [made.style.left, made.style.top] = pixels(node).map((value) => `${value}px`);
    rings.push(made);
  };

  const hide = () => {
    tip.hidden = true;
    rings.forEach((made) => made.remove());
    rings = [];
  };
  const show = (node) => {
    hide();
    const list = document.createElement("ol");
    nearest[node].forEach((other, place) => {
      const line = document.createElement("li");
      const who = text("span", names[other]);
      if (labels.length) who.append(" ", text("small", labels[other]));
      line.append(text("small", similarities[node][place].toFixed(3)), who);
      list.append(line);
    });
    tip.replaceChildren(text("b", names[node]), text("span", labels.length ? labels[node] : groups[node]), list);
    tip.hidden = false;
    ring(node, "ring own");
    nearest[node].forEach((other) => ring(other, "ring"));
    const [x, y] = pixels(node);
    const around = nearest[node].filter((other) => other < points.length).map((other) => pixels(other)[0]);
    const room = { left: x - tip.offsetWidth - 16, right: x + 16 };
    const crowded = around.filter((other) => other > x).length > around.length / 2;
    const left = room.left < 0 || (!crowded && room.right + tip.offsetWidth < panel.clientWidth) ? room.right : room.left;
    tip.style.left = `${Math.max(4, Math.min(left, panel.clientWidth - tip.offsetWidth - 4))}px`;
    tip.style.top = `${Math.max(4, Math.min(y - tip.offsetHeight / 2, panel.clientHeight - tip.offsetHeight - 4))}px`;
  };

  for (const kind of ["plotly_hover", "plotly_click"]) element.on(kind, (event) => show(event.points[0].customdata));
  element.on("plotly_unhover", hide);
  element.on("plotly_relayout", (changes) => { if (Object.keys(changes).length) hide(); });

  const form = panel.closest("figure").querySelector("form.find");
  const [input, output] = [form.querySelector("input"), form.querySelector("output")];
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const wanted = input.value.trim();
    const mapped = names.slice(0, points.length);
    const exact = mapped.indexOf(wanted);
    const node = exact >= 0 ? exact : mapped.findIndex((name) => name.toLowerCase().startsWith(wanted.toLowerCase()));
    if (!wanted || node < 0) {
      hide();
      output.textContent = wanted ? "no such node on the map" : "";
      return;
    }
    const label = labels.length ? labels[node] : groups[node];
    output.textContent = `${names[node]}, ${label}; most similar: ${nearest[node].map((other) => names[other]).join(", ")}`;
    show(node);
  });
});

// The map on a canvas: where nodes are in pixels, how they are drawn, and zoom. nodes.js says who they are.
const map = { marked: [], matches: new Set(), onPoint: () => {}, onPick: () => {}, onMove: () => {} };
{
  const [MOST_NAMED, MOST_RINGED] = [40, 300];  // so many nodes in sight have their names beside them, and so many matches rings
  const [LEAST_ZOOM, MOST_ZOOM] = [1, 200];
  const figure = document.querySelector("figure.map");
  const frame = figure.querySelector(".frame");
  const [dots, marks] = [...frame.querySelectorAll("canvas")].map((canvas) => canvas.getContext("2d"));  // marks lie above the dots
  const nodes = JSON.parse(document.getElementById("nodes").textContent);
  const count = nodes.x.length;
  const groups = [...figure.querySelectorAll(".entry")].map((entry) => ({
    colour: `--${entry.dataset.colour}`, shape: new Path2D(`M0 0${entry.dataset.shape}`),
  }));
  const extent = [nodes.x, nodes.y].map((places) => places.reduce((most, place) => Math.max(most, place), 0) || 1);
  const view = { zoom: 1, x: 0, y: 0 };
  let [width, height, scale, radius, hidden] = [0, 0, [1, 1], 4, new Set()];
  Object.assign(map, { figure, frame, nodes, count, view });

  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  // Both axes fill the frame, as long as neither is stretched much more than the other.
  const measure = () => {
    [width, height] = [frame.clientWidth, frame.clientHeight];
    radius = Math.min(9, Math.max(1.2, (26 * Math.sqrt(width * height)) / 760 / count ** 0.29));
    const room = radius + 10;
    const most = [(width - 2 * room) / extent[0], (height - 2 * room) / extent[1]];
    const least = Math.min(...most);
    scale = most.map((one) => Math.min(one, least * nodes.stretch));
  };
  map.pixels = (node) => [
    width / 2 + view.x + (nodes.x[node] - extent[0] / 2) * scale[0] * view.zoom,
    height / 2 + view.y - (nodes.y[node] - extent[1] / 2) * scale[1] * view.zoom,
  ];
  map.inside = ([x, y]) => x >= 0 && y >= 0 && x <= width && y <= height;
  map.shows = (node) => map.matches.has(node) || !hidden.has(nodes.groups[node]);
  map.dot = () => radius * Math.min(view.zoom ** 0.4, 3);

  map.nodeAt = (x, y) => {
    let [best, least] = [null, map.dot() + 8];
    for (let node = 0; node < count; node += 1) {
      const [left, top] = map.pixels(node);
      const away = Math.hypot(left - x, top - y);
      if (away < least && map.shows(node)) [best, least] = [node, away];
    }
    return best;
  };

  // A picture of the dot of each group, which is copied to every node.
  const stamps = (ratio) => {
    const side = Math.ceil(3 * map.dot() + 2);
    return groups.map(({ colour, shape }) => {
      const stamp = document.createElement("canvas");
      [stamp.width, stamp.height] = [side * ratio, side * ratio];
      const drawing = stamp.getContext("2d");
      drawing.setTransform(ratio * map.dot() / 3.6, 0, 0, ratio * map.dot() / 3.6, side * ratio / 2, side * ratio / 2);
      [drawing.fillStyle, drawing.strokeStyle, drawing.lineWidth] = [css(colour), css("--page"), 0.5];
      drawing.fill(shape);
      if (map.dot() > 2.5) drawing.stroke(shape);
      return { stamp, side };
    });
  };

  const drawNodes = (ratio) => {
    const pictures = stamps(ratio);
    const seen = [];
    const put = (chosen, opacity) => {
      dots.globalAlpha = opacity;
      for (let node = 0; node < count; node += 1) {
        if (!map.shows(node) || !chosen(node)) continue;
        const { stamp, side } = pictures[nodes.groups[node]];
        const [x, y] = map.pixels(node);
        if (x < -side || y < -side || x > width + side || y > height + side) continue;
        dots.drawImage(stamp, x - side / 2, y - side / 2, side, side);
        seen.push(node);
      }
    };
    const searching = map.matches.size > 0;
    put((node) => !map.matches.has(node), searching ? 0.15 : 0.9);
    if (searching) put((node) => map.matches.has(node), 1);
    dots.globalAlpha = 1;
    return seen;
  };

  // Only where it crosses nothing that was written before.
  const writer = (context) => {
    const taken = [];
    return (text, x, y) => {
      const box = { left: x, top: y - 7, right: x + context.measureText(text).width, bottom: y + 7 };
      const crosses = (other) => box.left < other.right && other.left < box.right && box.top < other.bottom && other.top < box.bottom;
      if (box.right > width || taken.some(crosses)) return;
      taken.push(box);
      context.strokeText(text, x, y);
      context.fillText(text, x, y);
    };
  };
  const drawNames = (seen) => {
    const write = writer(dots);
    for (const node of seen) {
      const [x, y] = map.pixels(node);
      write(nodes.names[node].length > 28 ? `${nodes.names[node].slice(0, 27)}…` : nodes.names[node], x + map.dot() + 4, y);
    }
  };

  const ring = (context, [x, y], size, thickness) => {
    context.lineWidth = thickness;
    context.beginPath();
    context.arc(x, y, size, 0, 2 * Math.PI);
    context.stroke();
  };

  // A canvas of the size of the frame, and letters to write on it.
  const prepare = (context, ratio) => {
    [context.canvas.width, context.canvas.height] = [Math.round(width * ratio), Math.round(height * ratio)];
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    Object.assign(context, { font: `600 12px ${css("--sans")}`, textBaseline: "middle", lineJoin: "round" });
    Object.assign(context, { fillStyle: css("--ink"), strokeStyle: css("--page"), lineWidth: 4 });
  };
  const sharpness = () => Math.max(devicePixelRatio, document.documentElement.classList.contains("printing") ? 3 : 1);

  // The chosen node, and lines to the most similar ones with their ranks.
  const drawMarks = () => {
    prepare(marks, sharpness());
    const [chosen, ...similar] = map.marked.map((node) => (node < count && map.shows(node) ? map.pixels(node) : null));
    if (!chosen) return;
    const seen = similar.filter(Boolean);
    Object.assign(marks, { strokeStyle: css("--ink"), lineWidth: 0.8 });
    seen.forEach((place) => {
      marks.beginPath();
      marks.moveTo(...chosen);
      marks.lineTo(...place);
      marks.stroke();
    });
    seen.forEach((place) => ring(marks, place, map.dot() + 2, 1.3));
    ring(marks, chosen, map.dot() + 3.5, 2.6);
    Object.assign(marks, { strokeStyle: css("--page"), lineWidth: 4 });
    const write = writer(marks);
    similar.forEach((place, rank) => { if (place) write(`${rank + 1}`, place[0] + map.dot() + 5, place[1] - map.dot() - 4); });
  };

  const drawDots = () => {
    prepare(dots, sharpness());
    dots.fillStyle = css("--page");
    dots.fillRect(0, 0, width, height);
    const seen = drawNodes(sharpness());
    dots.fillStyle = css("--ink");
    if (seen.length <= MOST_NAMED) drawNames(seen);
    dots.strokeStyle = css("--ink");
    if (map.matches.size <= MOST_RINGED) map.matches.forEach((node) => ring(dots, map.pixels(node), map.dot() + 2, 1.2));
  };
  map.draw = () => {
    measure();
    drawDots();
    drawMarks();
  };

  let wanted = null;  // what the next frame draws
  const soon = (drawing) => {
    const idle = wanted === null;
    if (wanted !== map.draw) wanted = drawing;
    if (idle) requestAnimationFrame(() => { const draw = wanted; wanted = null; draw(); });
  };
  map.redraw = () => soon(map.draw);
  map.remark = () => soon(drawMarks);
  map.picture = () => {
    map.draw();
    const whole = document.createElement("canvas");
    [whole.width, whole.height] = [dots.canvas.width, dots.canvas.height];
    [dots, marks].forEach((layer) => whole.getContext("2d").drawImage(layer.canvas, 0, 0));
    return whole.toDataURL("image/png");
  };

  const moveTo = (zoom, x, y) => {
    view.zoom = Math.min(MOST_ZOOM, Math.max(LEAST_ZOOM, zoom));
    const room = [((view.zoom - 1) * width) / 2, ((view.zoom - 1) * height) / 2];
    [view.x, view.y] = [x, y].map((shift, axis) => Math.min(room[axis], Math.max(-room[axis], shift)));
    frame.classList.toggle("zoomed", view.zoom > 1);
    map.onMove();
    map.redraw();
  };
  map.zoomBy = (factor, x = width / 2, y = height / 2) => {
    const zoom = Math.min(MOST_ZOOM, Math.max(LEAST_ZOOM, view.zoom * factor));
    const ratio = zoom / view.zoom;
    moveTo(zoom, x - width / 2 - (x - width / 2 - view.x) * ratio, y - height / 2 - (y - height / 2 - view.y) * ratio);
  };
  map.shift = (x, y) => moveTo(view.zoom, view.x + x, view.y + y);
  map.reset = () => moveTo(1, 0, 0);

  figure.addEventListener("filter", (event) => { hidden = event.detail; map.onMove(); map.redraw(); });
  theme.listeners.push((wish) => (wish?.all ? map.draw() : map.redraw()));
  new ResizeObserver(() => { map.onMove(); map.redraw(); }).observe(frame);
  map.draw();
}

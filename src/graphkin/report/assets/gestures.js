// Wheel, drag, pinch, keys and buttons move the map; a pointer that rests on a node asks who it is, and a click keeps the answer.
{
  const canvas = map.frame.querySelector("canvas");
  const place = (event) => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  const pointers = new Map();
  let travelled = 0;
  const spread = () => {
    const [[ax, ay], [bx, by]] = [...pointers.values()];
    return { length: Math.hypot(ax - bx, ay - by), middle: [(ax + bx) / 2, (ay + by) / 2] };
  };

  canvas.addEventListener("pointerdown", (event) => {
    if (pointers.size === 0) travelled = 0;
    pointers.set(event.pointerId, place(event));
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    const [x, y] = place(event);
    const before = pointers.get(event.pointerId);
    if (!before) {
      map.onPoint(map.nodeAt(x, y));
      return;
    }
    const earlier = pointers.size === 2 ? spread() : null;
    pointers.set(event.pointerId, [x, y]);
    travelled += Math.hypot(x - before[0], y - before[1]);
    if (earlier) {
      map.zoomBy(spread().length / earlier.length, ...spread().middle);
    } else if (travelled > 4) {
      map.shift(x - before[0], y - before[1]);
    }
  });
  const lift = (event) => {
    if (pointers.delete(event.pointerId) && event.type === "pointerup" && travelled <= 4) map.onPick(map.nodeAt(...place(event)));
  };
  canvas.addEventListener("pointerup", lift);
  canvas.addEventListener("pointercancel", lift);
  canvas.addEventListener("pointerleave", () => map.onPoint(null));

  canvas.addEventListener("wheel", (event) => {
    if (event.deltaY > 0 && map.view.zoom === 1) return;  // the page scrolls on
    event.preventDefault();
    const pixels = event.deltaY * (event.deltaMode === 0 ? 1 : 30);
    map.zoomBy(2 ** (-Math.max(-200, Math.min(200, pixels)) / 250), ...place(event));
  }, { passive: false });

  const keys = {
    ArrowLeft: () => map.shift(60, 0), ArrowRight: () => map.shift(-60, 0), ArrowUp: () => map.shift(0, 60), ArrowDown: () => map.shift(0, -60),
    "+": () => map.zoomBy(1.5), "=": () => map.zoomBy(1.5), "-": () => map.zoomBy(1 / 1.5), 0: map.reset, Escape: () => map.onPick(null),
  };
  canvas.addEventListener("keydown", (event) => {
    if (!keys[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    keys[event.key]();
  });

  const save = () => {
    const link = document.createElement("a");
    link.href = map.picture();
    link.download = "graphkin-map.png";
    link.click();
  };
  const buttons = { in: () => map.zoomBy(1.6), out: () => map.zoomBy(1 / 1.6), reset: map.reset, save };
  map.figure.querySelectorAll("[data-zoom]").forEach((button) => button.addEventListener("click", buttons[button.dataset.zoom]));
}

// One tip for cells of tables and points of charts, beside what it is about. Escape closes it.
const tips = {};
{
  const tip = document.body.appendChild(document.createElement("div"));
  tip.className = "tip floating";
  tip.setAttribute("role", "tooltip");
  tip.hidden = true;

  let box = null;  // a function that says where it belongs

  const place = () => {
    const { left, top, bottom } = box();
    const [width, height] = [document.documentElement.clientWidth, document.documentElement.clientHeight];
    const below = bottom + tip.offsetHeight + 8 < height;
    tip.style.left = `${Math.max(8, Math.min(left, width - tip.offsetWidth - 8))}px`;
    tip.style.top = `${below ? bottom + 4 : top - tip.offsetHeight - 4}px`;
  };
  tips.hide = () => { tip.hidden = true; };
  tips.show = (content, where) => {
    box = where;
    tip.replaceChildren(content);
    tip.hidden = false;
    place();
  };
  addEventListener("scroll", () => { if (!tip.hidden) place(); }, { capture: true, passive: true });
  addEventListener("keydown", (event) => { if (event.key === "Escape") tips.hide(); });
}

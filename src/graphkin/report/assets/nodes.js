// Who a node is: its id, its group, and the nodes most similar to it, by rank. Search finds parts of ids.
{
  const MOST_LISTED = 50;
  const { nodes, frame, figure, count } = map;
  const tip = frame.querySelector(".tip");
  const form = figure.querySelector("form.find");
  const [input, output, list] = ["input", "output", ".matches"].map((one) => form.querySelector(one));
  let [kept, matches, current] = [null, [], -1];

  const element = (tag, text, ...inside) => {
    const made = document.createElement(tag);
    made.append(text, ...inside);
    return made;
  };
  const groupOf = (node) => nodes.groupNames[nodes.groups[node]];

  // As many digits as it takes to tell the values apart, from two to six.
  const shown = (cosines) => {
    const different = new Set(cosines).size;
    const digits = [2, 3, 4, 5].find((one) => new Set(cosines.map((value) => (value / 1e6).toFixed(one))).size === different) ?? 6;
    return cosines.map((value) => (value / 1e6).toFixed(digits));
  };

  const describe = (node) => {
    const cosines = shown(nodes.cosines[node]);
    const ranks = nodes.nearest[node].map((other, rank) => {
      const who = element(other < count ? "button" : "span", nodes.names[other]);
      if (other < count) {
        who.type = "button";
        who.addEventListener("click", () => keep(other));
      }
      return element("li", element("span", who, " ", element("small", groupOf(other))), element("small", cosines[rank]));
    });
    const title = ranks.length ? [element("div", "Most similar, by cosine"), element("ol", "", ...ranks)] : [];
    tip.replaceChildren(element("b", nodes.names[node]), element("span", groupOf(node)), ...title);
  };

  // Beside the node, on the side where fewer of the similar nodes are; on a small frame above or below it.
  const position = (node) => {
    const [x, y] = map.pixels(node);
    const [width, height] = [frame.clientWidth, frame.clientHeight];
    const within = (value, most) => Math.max(4, Math.min(value, most - 4));
    let [left, top] = [0, y - tip.offsetHeight / 2];
    if (width < 480) {
      left = x - tip.offsetWidth / 2;
      top = y > height / 2 ? y - tip.offsetHeight - 24 : y + 24;
    } else {
      const others = nodes.nearest[node].filter((other) => other < count).map((other) => map.pixels(other)[0]);
      const crowded = others.filter((other) => other > x).length > others.length / 2;
      const [onLeft, onRight] = [x - tip.offsetWidth - 24, x + 24];
      left = onLeft < 0 || (!crowded && onRight + tip.offsetWidth < width) ? onRight : onLeft;
    }
    tip.style.left = `${within(left, width - tip.offsetWidth)}px`;
    tip.style.top = `${within(top, height - tip.offsetHeight)}px`;
  };

  const show = (node) => {
    tip.hidden = node === null;
    tip.classList.toggle("kept", node !== null && node === kept);
    map.marked = node === null ? [] : [node, ...nodes.nearest[node]];
    if (node !== null) {
      describe(node);
      position(node);
    }
    map.remark();
  };
  const keep = (node) => {
    kept = node;
    if (node !== null && !map.inside(map.pixels(node))) map.reset();
    show(node);
  };
  let pointed = null;
  map.onPoint = (node) => {
    if (node === pointed) return;
    pointed = node;
    show(node ?? kept);
  };
  map.onPick = (node) => keep(node === kept ? null : node);
  map.onMove = () => {
    pointed = null;
    show(kept !== null && map.inside(map.pixels(kept)) ? kept : null);
  };

  const goTo = (place) => {
    current = (place + matches.length) % matches.length;
    [...list.children].forEach((item, number) => item.classList.toggle("current", number === current));
    list.children[current]?.scrollIntoView({ block: "nearest" });
    keep(matches[current]);
    say();
  };
  const say = () => {
    const many = matches.length.toLocaleString("en");
    const found = current < 0 ? `${many} node${matches.length === 1 ? "" : "s"} found` : `${current + 1} of ${many}: ${nodes.names[matches[current]]}`;
    output.textContent = !input.value.trim() ? "" : matches.length ? found : "no such node on the map";
  };
  const search = () => {
    const wanted = input.value.trim().toLowerCase();
    const found = [];
    for (let node = 0; wanted && node < count; node += 1) {
      const place = nodes.names[node].toLowerCase().indexOf(wanted);
      if (place >= 0) found.push([node, place > 0 ? 2 : nodes.names[node].length > wanted.length ? 1 : 0]);
    }
    matches = found.sort(([, a], [, b]) => a - b).map(([node]) => node);  // equal ids, then those that begin so, then the others
    current = -1;
    map.matches = new Set(matches);
    list.replaceChildren(...matches.slice(0, MOST_LISTED).map((node, place) => {
      const button = element("button", nodes.names[node]);
      button.type = "button";
      button.addEventListener("click", () => goTo(place));
      return element("li", button);
    }));
    if (matches.length > MOST_LISTED) list.append(element("li", `and ${(matches.length - MOST_LISTED).toLocaleString("en")} more`));
    list.hidden = matches.length === 0;
    map.redraw();
    keep(null);
    say();
  };
  input.addEventListener("input", search);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (matches.length) goTo(current + 1);
  });
  input.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && event.shiftKey && matches.length) {
      event.preventDefault();
      goTo(current - 1);
    } else if (event.key === "ArrowDown" && matches.length) {
      event.preventDefault();
      goTo(current + 1);
    } else if (event.key === "ArrowUp" && matches.length) {
      event.preventDefault();
      goTo(Math.max(current, 0) - 1);
    }
  });
}

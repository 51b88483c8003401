// A click on an entry of a legend hides or shows what it stands for; a double click, or "only", hides everything else.
for (const figure of document.querySelectorAll("figure:has(.legend)")) {
  const entries = [...figure.querySelectorAll(".legend .entry")];
  const all = figure.querySelector(".legend .all");
  let hidden = new Set();

  const hide = (numbers) => {
    hidden = new Set(numbers);
    entries.forEach((entry, number) => entry.setAttribute("aria-pressed", String(!hidden.has(number))));
    all.hidden = hidden.size === 0;
    figure.querySelectorAll("[data-entry]").forEach((part) => {
      part.classList.toggle("off", hidden.has(Number(part.dataset.entry)));
    });
    figure.dispatchEvent(new CustomEvent("filter", { detail: hidden }));
  };
  const only = (number) => {
    const others = [...entries.keys()].filter((place) => place !== number);
    const alone = !hidden.has(number) && others.every((place) => hidden.has(place));
    hide(alone ? [] : others);
  };

  entries.forEach((entry, number) => {
    entry.addEventListener("click", () => hide([...entries.keys()].filter((place) => hidden.has(place) !== (place === number))));
    entry.addEventListener("dblclick", () => only(number));
    entry.parentElement.querySelector(":scope > .only")?.addEventListener("click", () => only(number));
  });
  all.addEventListener("click", () => { hide([]); entries[0].focus(); });
}

// The point of a chart that is nearest to the pointer says what it is: a mark in its own words, a point of a line by its axes.
for (const chart of document.querySelectorAll("svg.chart[data-box]")) {
  const numbers = (text) => text.split(" ").map(Number);
  const axis = (text) => ({ low: Number(text.split(" ")[0]), high: Number(text.split(" ")[1]), name: text.split(" ").slice(2).join(" ") });
  const [left, top, right, bottom] = numbers(chart.dataset.box);
  const [xAxis, yAxis] = [axis(chart.dataset.x), axis(chart.dataset.y)];
  const inWords = (name, [x, y]) => {
    const across = xAxis.low + ((x - left) / (right - left)) * (xAxis.high - xAxis.low);
    const up = yAxis.low + ((bottom - y) / (bottom - top)) * (yAxis.high - yAxis.low);
    return `${name}: ${yAxis.name === name ? "" : `${yAxis.name} `}${up.toPrecision(4)} at ${xAxis.name} ${Math.round(across)}`;
  };
  let points = null;
  const read = () => [...chart.querySelectorAll("[data-at], .line[data-name]")].flatMap((part) => {
    if (part.dataset.at) return [{ part, at: numbers(part.dataset.at), words: () => part.dataset.tip }];
    if (part.parentElement.querySelector("[data-at]") || !xAxis.name) return [];
    return part.getAttribute("d").slice(1).split("L").map(numbers)
      .map((at) => ({ part, at, words: () => inWords(part.dataset.name, at) }));
  });

  const point = (event) => {
    points ??= read();
    const place = new DOMPoint(event.clientX, event.clientY).matrixTransform(chart.getScreenCTM().inverse());
    let [best, least] = [null, 24];
    for (const one of points) {
      const away = Math.hypot(one.at[0] - place.x, one.at[1] - place.y);
      if (away < least && !one.part.closest(".off")) [best, least] = [one, away];
    }
    if (!best) { tips.hide(); return; }
    tips.show(document.createTextNode(best.words()), () => {
      const { x, y } = new DOMPoint(...best.at).matrixTransform(chart.getScreenCTM());
      return { left: x + 8, top: y - 8, bottom: y + 8 };
    });
  };
  chart.addEventListener("pointermove", point);
  chart.addEventListener("pointerdown", point);
  chart.addEventListener("pointerleave", tips.hide);
}

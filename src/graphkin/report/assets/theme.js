"use strict";
// Light or dark as the system says, until the reader chooses; whoever draws in colours listens.
const theme = { listeners: [] };
{
  const root = document.documentElement;
  const button = document.getElementById("theme");
  const system = matchMedia("(prefers-color-scheme: dark)");
  const apply = (name) => {
    root.dataset.theme = name;
    button.textContent = name === "dark" ? "Light theme" : "Dark theme";
    theme.listeners.forEach((listener) => listener());
  };
  apply(system.matches ? "dark" : "light");
  system.addEventListener("change", () => apply(system.matches ? "dark" : "light"));
  button.addEventListener("click", () => apply(root.dataset.theme === "dark" ? "light" : "dark"));

  let closed = [];
  addEventListener("beforeprint", () => {
    closed = [...document.querySelectorAll("details:not([open])")];
    closed.forEach((details) => { details.open = true; });
    root.classList.add("printing");
    theme.listeners.forEach((listener) => listener({ all: true }));
  });
  addEventListener("afterprint", () => {
    root.classList.remove("printing");
    closed.forEach((details) => { details.open = false; });
    theme.listeners.forEach((listener) => listener());
  });
}

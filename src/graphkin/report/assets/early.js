// Before the first paint: the theme that the system asks for, and that scripts run.
document.documentElement.dataset.theme = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
document.documentElement.classList.add("scripted");

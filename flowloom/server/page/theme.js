// Runs before the first paint, so that a chosen theme does not flash the other one.
try {
  const { theme } = JSON.parse(localStorage.getItem("flowloom.prefs")) ?? {};
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {
  // nothing remembered: the system's theme
}

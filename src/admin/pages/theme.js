// Not a module: it runs before the first paint, so that nobody sees the other theme flash by.
try {
  const theme = localStorage.getItem('theme');
  if (theme === 'light' || theme === 'dark') document.documentElement.dataset.theme = theme;
} catch {
  // A browser that keeps nothing for this site follows the system.
}

// Not a module: it runs before every other script, so that none sees the code of a sign-in link in the address.
const takeCode = () => {
  const code = /^#token=(.+)$/.exec(location.hash)?.[1];
  if (code === undefined) return;
  history.replaceState(history.state, '', location.pathname + location.search);
  /** @type {any} */ (globalThis).signInCode = code;
};
takeCode();
addEventListener('hashchange', takeCode);

// Before the first paint, so that the other theme does not flash.
try {
  const theme = localStorage.getItem('theme');
  if (theme === 'light' || theme === 'dark') document.documentElement.dataset.theme = theme;
} catch {
  // Without storage, follow the system.
}

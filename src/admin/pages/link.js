// Not a module: it runs before every other script, so that none sees the code of a sign-in link in the address.
const takeCode = () => {
  const code = /^#token=(.+)$/.exec(location.hash)?.[1];
  if (code === undefined) return;
  history.replaceState(history.state, '', location.pathname + location.search);
  /** @type {any} */ (globalThis).signInCode = code;
};
takeCode();
addEventListener('hashchange', takeCode);

import { useEffect, useRef, useState } from 'preact/hooks';
import { post } from '../api.js';
import { html } from '../html.js';

/** @param {{ onDone: () => Promise<void>, problem: string }} props - `problem` is why a link did not sign in */
export default function SignIn({ onDone, problem }) {
  const field = useRef(/** @type {HTMLInputElement | null} */ (null));
  const [error, setError] = useState('');
  const [busy, setBusy] = useState(false);
  useEffect(() => {
    document.title = 'Sign in · Rollcall';
    field.current?.focus();
  }, []);
  /** @param {Event} event */
  const submit = async (event) => {
    event.preventDefault();
    if (busy) return;
    setBusy(true);
    setError('');
    try {
      await post('/session', { token: field.current?.value ?? '' });
      await onDone();
    } catch (problem) {
      setError(/** @type {Error} */ (problem).message);
      field.current?.select();
    }
    setBusy(false);
  };
  return html`<main class="alone">
    <h1>Rollcall</h1>
    <form onSubmit=${submit}>
      <label>
        Admin token
        <input ref=${field} type="password" name="token" autocomplete="current-password" required
            aria-describedby="wrong" />
      </label>
      <p id="wrong" role="alert" class="bad-text">${error || problem}</p>
      <div class="buttons"><button type="submit" class="main" aria-busy=${busy}>Sign in</button></div>
    </form>
    <p class="soft">
      A link signs you in as well: <code>rollcall link</code> prints one. The token is under <code>admin</code> in the
      configuration, or in the file <code>rollcall.token</code>.
    </p>
  </main>`;
}

import { render } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { get, onUnauthorized, post, remove } from './api.js';
import './focus.js';
import { ZONE } from './format.js';
import { html } from './html.js';
import { PAGES } from './lists.js';
import { connect, disconnect, useConnection, useData } from './live.js';
import { navigate, useAddress } from './router.js';
import { Action, Empty, Problem, State, Voice } from './ui.js';

/** @typedef {{ service: string, version: string, name: string, may: string[] }} Session */

/** Views by name. @type {Record<string, any>} */
const VIEWS = Object.fromEntries(
  await Promise.all(PAGES.map(async ({ view }) => [view, (await import(`./views/${view}.js`)).default])),
);

const ROUTES = PAGES.map(({ path, view }) => ({
  pattern: new RegExp(`^${path.replaceAll(/:(\w+)/g, '(?<$1>[^/]+)')}$`),
  page: VIEWS[view],
}));

const CONNECTIONS = {
  live: { of: 'ok', label: 'Live' },
  polling: { of: 'held', label: 'Every 10 s' },
  lost: { of: 'failed', label: 'Not live' },
  connecting: { of: 'running', label: 'Connecting…' },
};

const DEAD_LINK = 'This link was used already, or is older than ten minutes.';

/** The code of the sign-in link that led here, once. @returns {string | undefined} */
function takeCode() {
  const { signInCode } = /** @type {any} */ (globalThis);
  delete (/** @type {any} */ (globalThis).signInCode);
  return signInCode;
}

function App() {
  const [session, setSession] = useState(/** @type {Session | null} */ (null));
  const [stranger, setStranger] = useState(/** @type {{ problem: string } | null} */ (null));
  const [error, setError] = useState(/** @type {any} */ (null));
  const begin = async () => {
    const code = takeCode();
    let problem = '';
    try {
      if (code !== undefined) await post('/session', { token: code }).catch(() => (problem = DEAD_LINK));
      setSession(await get('/session'));
      setStranger(null);
      setError(null);
      connect();
    } catch (failure) {
      if (/** @type {any} */ (failure).status === 401) setStranger({ problem });
      else setError(failure);
    }
  };
  useEffect(() => {
    void begin();
    // A link that is opened over a page changes the fragment alone. The script first.js has taken the code from it.
    const onLink = () => void ('signInCode' in globalThis && begin());
    addEventListener('hashchange', onLink);
    const forget = onUnauthorized(() => {
      disconnect();
      setStranger({ problem: '' });
    });
    return () => {
      removeEventListener('hashchange', onLink);
      forget();
    };
  }, []);
  if (stranger) return html`<${VIEWS['sign-in']} onDone=${begin} problem=${stranger.problem} />`;
  if (error) return html`<main class="alone"><h1>Rollcall</h1><${Problem} error=${error} retry=${begin} /></main>`;
  // As in index.html, so that no page is white before the session is known.
  return session ? html`<${Frame} session=${session} />` : html`<p class="waiting alone" aria-busy="true">Rollcall</p>`;
}

/** @param {{ session: Session }} props */
function Frame({ session }) {
  const { path } = useAddress();
  const connection = useConnection();
  const needs = useData('/overview', ['overview']).data?.attention ?? [];
  const main = useRef(/** @type {HTMLElement | null} */ (null));
  const first = useRef(true);
  useEffect(() => {
    // Focus the head of a new page, as after a page load. The browser does so for the first page.
    if (!first.current) main.current?.querySelector('h1')?.focus({ preventScroll: true });
    first.current = false;
    document.querySelector('nav [aria-current]')?.scrollIntoView({ block: 'nearest', inline: 'center' });
  }, [path]);
  useEffect(() => {
    const icon = /** @type {HTMLLinkElement} */ (document.getElementById('icon'));
    icon.href = icon.href.replace(/icon(-alert)?\.svg/, needs.length > 0 ? 'icon-alert.svg' : 'icon.svg');
  }, [needs.length > 0]);
  const signOut = async () => {
    await remove('/session').catch((problem) => {
      if (problem.status !== 401) throw problem;
    });
    location.assign('/sign-in');
  };
  return html`<div class="frame">
    <a class="skip" href="#main">Skip to the content</a>
    <nav class="side" aria-label="Pages">
      <a class="name" href="/">${session.service} <small>${session.version}</small></a>
      <ul>${PAGES.map(
        ({ path: href, title }) =>
          title &&
          html`<li key=${href}>
            <a href=${href} aria-current=${isHere(path, href) ? 'page' : undefined}>
              ${title}
              ${
                href === '/' && needs.length > 0
                  ? html`<span class="count">
                    ${needs.length}
                    <span class="unseen"> need a person</span>
                  </span>`
                  : null
              }
            </a>
          </li>`,
      )}</ul>
      <footer>
        <${State} ...${CONNECTIONS[connection]} />
        <small class="soft zone" title="Times are in your time zone">${ZONE}</small>
        <${Theme} />
        <${Action} run=${signOut} kind="bare">Sign out<//>
      </footer>
    </nav>
    <div>
      ${
        connection === 'lost'
          ? html`<p class="banner" role="status">
            Rollcall does not answer. What you see may be old; trying again.
          </p>`
          : null
      }
      <main id="main" ref=${main} tabindex="-1"><${Page} path=${path} may=${session.may} key=${path} /></main>
    </div>
    <${Voice} />
  </div>`;
}

/** @param {string} path @param {string} href */
function isHere(path, href) {
  return href === '/' ? path === '/' : path === href || path.startsWith(`${href}/`);
}

/** @param {{ path: string, may: string[] }} props */
function Page({ path, may }) {
  if (path === '/sign-in') {
    navigate('/', { replace: true });
    return null;
  }
  for (const { pattern, page } of ROUTES) {
    const found = pattern.exec(path);
    if (found) {
      const parts = Object.entries(found.groups ?? {}).map(([name, part]) => [name, decodeURIComponent(part)]);
      return html`<${page} may=${may} ...${Object.fromEntries(parts)} />`;
    }
  }
  return html`<h1 tabindex="-1">Nothing here</h1>
    <${Empty} title=${`There is no page at ${path}.`}><a href="/">To the overview</a><//>`;
}

function Theme() {
  const [theme, setTheme] = useState(document.documentElement.dataset['theme'] ?? '');
  /** @param {Event} event */
  const choose = (event) => {
    const { value } = /** @type {HTMLSelectElement} */ (event.currentTarget);
    setTheme(value);
    if (value === '') delete document.documentElement.dataset['theme'];
    else document.documentElement.dataset['theme'] = value;
    localStorage.setItem('theme', value);
  };
  return html`<select aria-label="Theme" value=${theme} onChange=${choose}>
    <option value="">System</option><option value="light">Light</option><option value="dark">Dark</option>
  </select>`;
}

render(html`<${App} />`, /** @type {HTMLElement} */ (document.getElementById('app')));

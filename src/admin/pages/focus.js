/**
 * Keeps the focus near what had it when that goes away, such as the button of an action that is done. Browsers would give it to the
 * whole page. It moves to a row or heading, never to another button: a second Enter would press that.
 */

const PLACES = 'tr, li, .more, section, article, .panel, main';

/** What had the focus last, and all that it was in. @type {Element[]} */
let path = [];

/** @param {Element | null} element @returns {Element[]} */
const pathOf = (element) => (element ? [element, ...pathOf(element.parentElement)] : []);

addEventListener('focusin', ({ target }) => {
  path = pathOf(/** @type {Element} */ (target));
});

// Who clicks on nothing wants the focus nowhere.
addEventListener('pointerdown', ({ target }) => {
  if (!path[0]?.contains(/** @type {Node} */ (target))) path = [];
});

new MutationObserver(() => {
  if (document.activeElement !== document.body || !path[0] || path[0].isConnected) return;
  const place = path.find((each) => each.isConnected)?.closest(PLACES) ?? document.querySelector('main');
  const heading = place?.matches('tr, li, .more') ? null : place?.querySelector('h1, h2, h3');
  const target = /** @type {HTMLElement | null} */ (heading ?? place);
  if (target) target.tabIndex = -1;
  target?.focus();
}).observe(document, { childList: true, subtree: true });

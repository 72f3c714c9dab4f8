import type { Exiting } from '../platform.ts';

/** The parts of `document` and `window` that are used: this package is built without the types of browsers. */
interface Page {
  document: { visibilityState: string; addEventListener: Listen; removeEventListener: Listen };
  addEventListener: Listen;
  removeEventListener: Listen;
}

type Listen = (name: string, listener: (event: { persisted?: boolean }) => void) => void;

const page = globalThis as unknown as Page;

/** True in a page, false in a worker or on a server. */
export const isPage = typeof page.document === 'object' && typeof page.addEventListener === 'function';

/** Clients with unsettled messages. */
const pending = new Set<Exiting>();

/** On phones this is often the last event of a page. */
const onVisibility = () => {
  if (page.document.visibilityState !== 'hidden') return;
  for (const client of pending) client.hurry();
};

/** A persisted page (back/forward cache) may continue later. */
const onHide = ({ persisted = false }: { persisted?: boolean }) => {
  for (const client of [...pending]) {
    client.hurry();
    client.part(!persisted);
  }
};

/** Calls `hurry` when the page is hidden, and `part` when it ends. */
export function guard(client: Exiting): void {
  if (isPage && pending.size === 0) {
    page.document.addEventListener('visibilitychange', onVisibility);
    page.addEventListener('pagehide', onHide);
  }
  pending.add(client);
}

/** The client has nothing queued any more. */
export function unguard(client: Exiting): void {
  if (!pending.delete(client) || pending.size > 0 || !isPage) return;
  page.document.removeEventListener('visibilitychange', onVisibility);
  page.removeEventListener('pagehide', onHide);
}

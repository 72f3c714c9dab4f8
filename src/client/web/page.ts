import type { Exiting } from '../platform.ts';

/** The parts of `document` and `window` that are used; types of browsers are not for this package. */
interface Page {
  document: { visibilityState: string; addEventListener: Listen; removeEventListener: Listen };
  addEventListener: Listen;
  removeEventListener: Listen;
}

type Listen = (name: string, listener: (event: { persisted?: boolean }) => void) => void;

const page = globalThis as unknown as Page;

/** Whether this is a page, not a worker or a server. */
export const isPage = typeof page.document === 'object' && typeof page.addEventListener === 'function';

/** Clients with messages that are not settled. */
const pending = new Set<Exiting>();

/** On phones often the last that a page hears. */
const onVisibility = () => {
  if (page.document.visibilityState !== 'hidden') return;
  for (const client of pending) client.hurry();
};

/** A page that is kept for the way back goes on where it was. */
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

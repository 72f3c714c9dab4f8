import type { EndpointMarks, Settlement } from './port.ts';

/** Endpoints that took a delivery, as JSON marks, null for none: a replay skips them. */
export function takenIn(marks: EndpointMarks): string | null {
  const taken = Object.entries(marks).filter(([, mark]) => mark === 'ok');
  return taken.length > 0 ? JSON.stringify(Object.fromEntries(taken)) : null;
}

/** Endpoints that took a delivery by its end. A damaged claim may have no marks, and still ends. */
export function takenOf({ claim, verdict }: Settlement): string | null {
  return verdict.kind === 'dead' ? takenIn({ ...(verdict.answers ?? claim.marks) }) : null;
}

import type { EndpointMarks, Settlement } from './port.ts';

/** The endpoints that took a delivery, as marks in JSON, null for none: a dead letter that is sent again passes them over. */
export function takenIn(marks: EndpointMarks): string | null {
  const taken = Object.entries(marks).filter(([, mark]) => mark === 'ok');
  return taken.length > 0 ? JSON.stringify(Object.fromEntries(taken)) : null;
}

/** Of a delivery that ends, with its last try. What is given up may be broken, and have no marks: it ends all the same. */
export function takenOf({ claim, verdict }: Settlement): string | null {
  return verdict.kind === 'dead' ? takenIn({ ...(verdict.answers ?? claim.marks) }) : null;
}

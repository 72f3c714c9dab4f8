/**
 * The configuration's notes on an audience or destination, as facts.
 *
 * @param {{ description?: string, owner?: string, labels?: Record<string, string> }} about
 * @returns {[string, string][]}
 */
export function notesOf({ description, owner, labels = {} }) {
  return [
    ...(description ? [/** @type {[string, string]} */ (['What it is for', description])] : []),
    ...(owner ? [/** @type {[string, string]} */ (['Owner', owner])] : []),
    ...Object.entries(labels),
  ];
}

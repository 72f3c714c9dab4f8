/**
 * Adds to those of which one decides as long as the log knows it, and another when it is forgotten; false where it never
 * will.
 *
 * @param covers - whether one decides before another, and is forgotten no earlier
 */
export function addToFront<T>(front: T[], added: T, covers: (one: T, other: T) => boolean): boolean {
  if (front.some((each) => covers(each, added))) return false;
  const left = front.filter((each) => !covers(added, each));
  front.splice(0, front.length, ...left, added);
  return true;
}

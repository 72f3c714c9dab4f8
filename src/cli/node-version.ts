/** The oldest supported Node, as in package.json. */
const OLDEST: readonly [major: number, minor: number] = [22, 20];

/** One line for users of an older Node; null for others. */
export function complaintAbout(version: string): string | null {
  const [major = 0, minor = 0] = version.split('.').map(Number);
  if (major > OLDEST[0] || (major === OLDEST[0] && minor >= OLDEST[1])) return null;
  return `Rollcall needs Node ${OLDEST.join('.')} or newer. This is Node ${version}.`;
}

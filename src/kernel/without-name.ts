/** Removes the name from the beginning of a message, for places that show it already. */
export function withoutName(name: string, message: string): string {
  const beginning = [`${name}: `, `${name} `].find((each) => message.startsWith(each)) ?? '';
  return message.slice(beginning.length);
}

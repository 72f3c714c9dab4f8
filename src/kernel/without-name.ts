/** A message without the name that it begins with, where that has been said already. */
export function withoutName(name: string, message: string): string {
  const beginning = [`${name}: `, `${name} `].find((each) => message.startsWith(each)) ?? '';
  return message.slice(beginning.length);
}

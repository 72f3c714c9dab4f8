import { Ajv2020 } from 'ajv/dist/2020.js';

/** Whatever an answer holds; the schemas of the document say what. */
export type Json = ReturnType<typeof JSON.parse>;

interface Answer {
  readonly status: number;
  readonly type: string;
  readonly text: string;
}

/** What is wrong with an answer; null for nothing. */
export type Contract = (method: string, path: string, answer: Answer) => string | null;

/** Holds answers to an OpenAPI document: each route answers only with what it says there. */
export function contractOf({ paths }: { readonly paths: Record<string, Record<string, Json>> }): Contract {
  const ajv = new Ajv2020({
    strict: false,
    formats: { 'date-time': /^\d{4}-\d\d-\d\dT.*Z$/, date: /^\d{4}-\d\d-\d\d$/ },
  });
  const routes = Object.entries(paths)
    .map(([path, methods]) => ({ path, methods, pattern: new RegExp(`^${path.replaceAll(/\{\w+\}/g, '[^/]+')}$`) }))
    // Those without parameters go first: `/messages/resend` is no message.
    .toSorted((one, other) => one.path.split('{').length - other.path.split('{').length);
  return (method, path, { status, type, text }) => {
    const found = routes.find(({ pattern, methods }) => method.toLowerCase() in methods && pattern.test(path));
    if (!found) return status === 404 || status === 400 ? null : `no route is documented, and it answers ${status}`;
    const documented = found.methods[method.toLowerCase()].responses[status]?.content;
    if (!documented) return `${status} is not documented: ${text.slice(0, 200)}`;
    const [mediaType, content] = Object.entries<Json>(documented).find(([name]) => type.startsWith(name)) ?? [];
    if (mediaType === undefined) return `${type} is not documented`;
    if (mediaType !== 'application/json') return null;
    const validate = ajv.compile(content.schema);
    return validate(JSON.parse(text)) ? null : JSON.stringify(validate.errors);
  };
}

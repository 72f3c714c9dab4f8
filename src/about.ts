/** Notes of people about an audience, trait or destination. They change nothing but what lists, pages and alerts show. */
export interface Annotations {
  readonly description?: string;
  readonly owner?: string;
  readonly labels?: Readonly<Record<string, string>>;
}

/** The notes alone. */
export function aboutOf({
  description,
  owner,
  labels,
}: { readonly [K in keyof Annotations]?: Annotations[K] | undefined }): Annotations {
  return { ...(description && { description }), ...(owner && { owner }), ...(labels && { labels }) };
}

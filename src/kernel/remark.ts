/** A remark about a database or an engine: whether it stands in the way, and how to mend it. */
export interface Remark {
  readonly state: 'ok' | 'warning' | 'failed';
  readonly message: string;
}

/** A remark about a database or an engine: its severity, and how to fix it. */
export interface Remark {
  readonly state: 'ok' | 'warning' | 'failed';
  readonly message: string;
}

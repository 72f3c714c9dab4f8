/** What was seen of a database or an engine: whether it stands in the way, and what to do about it. */
export interface Remark {
  readonly state: 'ok' | 'warning' | 'failed';
  readonly message: string;
}

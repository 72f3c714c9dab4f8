import type { Remark } from '../../kernel/remark.ts';

export interface Finding extends Remark {
  readonly check: string;
}

export function ok(check: string, message: string): Finding {
  return { check, state: 'ok', message };
}

export function warning(check: string, message: string): Finding {
  return { check, state: 'warning', message };
}

export function failed(check: string, message: string): Finding {
  return { check, state: 'failed', message };
}

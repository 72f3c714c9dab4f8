import { stringify } from 'yaml';

/** YAML that a person can read and commit: long lines stay whole. */
export const toYaml = (value: unknown): string => stringify(value, { lineWidth: 0 });

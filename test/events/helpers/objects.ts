import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { S3Server } from '../../helpers/s3.ts';

/** Writes the log's files of a bucket into a folder, as any tool for S3 does; returns their paths. */
export function writeObjects({ objects }: S3Server, folder: string): string[] {
  return [...objects]
    .filter(([key]) => key.endsWith('.parquet'))
    .map(([key, { body }]) => {
      const path = join(folder, key.replace('some/log/', ''));
      mkdirSync(dirname(path), { recursive: true });
      writeFileSync(path, body);
      return path;
    });
}

import * as z from 'zod';
import { label, text } from './formats.ts';

const MOST_LABELS = 20;
const short = (most: number) => text.refine((value) => value.length <= most, `must have at most ${most} characters`);

/** Notes of people, which audiences, traits and destinations have alike. */
export const about = {
  description: short(1_000)
    .optional()
    .meta({ description: 'What it is for. Lists, pages and alerts show it.', examples: ['For the win-back mails'] }),
  owner: short(100)
    .optional()
    .meta({
      description: 'The team or person that is asked about it. Lists, pages and alerts show it.',
      examples: ['growth'],
    }),
  labels: z
    .record(label, short(100))
    .refine((labels) => Object.keys(labels).length <= MOST_LABELS, `may have at most ${MOST_LABELS} labels`)
    .optional()
    .meta({
      title: 'map of texts',
      description: 'Further notes by name, for your own programs. Lists, pages and alerts show them.',
      examples: [{ tier: 'gold' }],
    }),
};

import type { AlertHook } from '../config/config.ts';

interface Item {
  readonly message: string;
  /** The page about it; null if the pages' address is not known. */
  readonly link: string | null;
  readonly owner?: string;
}

interface AnnouncementText {
  /** Says how long the alert lasted, if it is over. */
  readonly title: string;
  readonly items: readonly Item[];
  /** Number of alerts that `items` leaves out. */
  readonly more: number;
  readonly isOver: boolean;
}

/** Characters of a message that are shown in a chat: an engine's error may be long. */
const MESSAGE = 300;

export function chatBody(format: Exclude<AlertHook['format'], 'json'>, announcement: AnnouncementText): object {
  const forms = { slack, discord, teams };
  return forms[format](announcement);
}

function slack({ title, items, more, isOver }: AnnouncementText): object {
  const escaped = (text: string) => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
  const lines = items.map(({ link, ...item }) => `• ${escaped(said(item))}${link ? ` <${link}|Look>` : ''}`);
  const heading = `${isOver ? ':white_check_mark:' : ':rotating_light:'} *${escaped(title)}*`;
  const text = [heading, ...lines, ...furtherOnes(more)].join('\n');
  return { text: `${title}: ${escaped(short(items[0]?.message ?? ''))}`, blocks: [section(text)] };
}

const section = (text: string) => ({ type: 'section', text: { type: 'mrkdwn', text: cut(text, 3_000) } });

const RED = 0xc0_39_2b;
const GREEN = 0x27_ae_60;

function discord({ title, items, more, isOver }: AnnouncementText): object {
  const lines = items.map(({ link, ...item }) => `- ${plain(said(item))}${link ? ` [Look](${link})` : ''}`);
  const description = cut([...lines, ...furtherOnes(more)].join('\n'), 4_096);
  return {
    // Our names may look like mentions.
    allowed_mentions: { parse: [] },
    embeds: [{ title: cut(title, 256), description, color: isOver ? GREEN : RED }],
  };
}

function teams({ title, items, more, isOver }: AnnouncementText): object {
  const text = (text: string, further: object = {}) => ({ type: 'TextBlock', text, wrap: true, ...further });
  const lines = items.map(({ link, ...item }) => text(`${plain(said(item))}${link ? ` [Look](${link})` : ''}`));
  const heading = text(plain(title), { weight: 'Bolder', size: 'Medium', color: isOver ? 'Good' : 'Attention' });
  const content = {
    $schema: 'http://adaptivecards.io/schemas/adaptive-card.json',
    ...{ type: 'AdaptiveCard', version: '1.4' },
    body: [heading, ...lines, ...furtherOnes(more).map((line) => text(line))],
  };
  return { type: 'message', attachments: [{ contentType: 'application/vnd.microsoft.card.adaptive', content }] };
}

const furtherOnes = (more: number) => (more > 0 ? [`And ${more} more.`] : []);
/** Escape Markdown in foreign text. */
const plain = (text: string) => text.replaceAll(/[\\`*_{}[\]()#+!|<>~@]/g, '\\$&');
const said = ({ message, owner }: Pick<Item, 'message' | 'owner'>) =>
  `${short(message)}${owner === undefined ? '' : ` (owner: ${owner})`}`;
const short = (text: string) => cut(text.split('\n', 1)[0] ?? '', MESSAGE);

function cut(text: string, length: number): string {
  return text.length <= length ? text : `${text.slice(0, length - 1).replace(/[\uD800-\uDBFF]$/, '')}…`;
}

import t from 'tap';
import { hookOf, sampleAnnouncement } from '../../src/alerts/announcement.ts';
import { chatBody } from '../../src/alerts/format.ts';
import { parse, withParts } from '../config/helpers.ts';

const NASTY = '<!channel> & @everyone *big_spenders* failed with `sql` [x](https://evil.example)\nsecond line';
const announcement = (over: object = {}) => ({
  ...{ title: 'A run failed', items: [{ message: NASTY, link: 'https://r.example/audiences/a' }], more: 0 },
  ...{ isOver: false, ...over },
});

t.test('escapes mentions and markup in foreign text', async (t) => {
  const slack = chatBody('slack', announcement()) as { text: string; blocks: { text: { text: string } }[] };
  for (const text of [slack.text, slack.blocks[0]?.text.text ?? '']) {
    t.match(text, '&lt;!channel&gt; &amp; @everyone');
    t.notMatch(text, /<!|second line/);
  }
  t.match(slack.blocks[0]?.text.text, '<https://r.example/audiences/a|Look>');
  t.match(chatBody('discord', announcement()), {
    allowed_mentions: { parse: [] },
    embeds: [
      {
        title: 'A run failed',
        description: /^- \\<\\!channel\\> & \\@everyone \\\*big\\_spenders\\\*/,
        color: 0xc0392b,
      },
    ],
  });
  t.match(chatBody('teams', announcement({ isOver: true })), {
    type: 'message',
    attachments: [
      {
        contentType: 'application/vnd.microsoft.card.adaptive',
        content: { type: 'AdaptiveCard', version: '1.4', body: [{ color: 'Good' }, { text: /\\\[x\\\]\\\(https/ }] },
      },
    ],
  });
});

t.test('keeps announcements within the limits of chats', async (t) => {
  const items = Array.from({ length: 20 }, (_, n) => ({ message: `${'🦆'.repeat(2_000)} ${n}`, link: null }));
  const big = announcement({ items, more: 980 });
  const slack = chatBody('slack', big) as { text: string; blocks: { text: { text: string } }[] };
  t.ok((slack.blocks[0]?.text.text.length ?? 0) <= 3_000);
  const discord = chatBody('discord', big) as { embeds: { description: string }[] };
  t.ok((discord.embeds[0]?.description.length ?? 0) <= 4_096);
  t.ok(JSON.stringify(chatBody('teams', big)).length < 28_000, 'the limit of a Teams message');
  for (const format of ['slack', 'discord', 'teams'] as const) {
    const body = JSON.stringify(chatBody(format, big));
    t.equal(JSON.stringify(JSON.parse(body)), body);
    t.ok(body.isWellFormed(), format);
    t.notMatch(body, /\\ud[89ab]/, 'no half of a character');
  }
});

t.test('derives names and formats of hooks from their URLs', async (t) => {
  const { alerts } = parse(
    withParts({
      top: `alerts:
  notify:
    - https://hooks.slack.com/services/a
    - { url: "https://hooks.slack.com/services/b" }
    - https://discord.com/api/webhooks/1/x
    - https://contoso.webhook.office.com/webhookb2/x
    - { url: "https://prod-1.westeurope.logic.azure.com/workflows/x", name: ops }
    - { url: "https://ops.example.com/slack", secret: s }`,
    }),
  );
  t.same(
    alerts.hooks.map(({ name, format }) => `${name}: ${format}`),
    ['slack: slack', 'slack 2: slack', 'discord: discord', 'teams: teams', 'ops: teams', 'json: json'],
  );
  t.match(hookOf(alerts, 'rollcall:alerts:slack 2'), { url: 'https://hooks.slack.com/services/b' });
  for (const hook of alerts.hooks) t.match(sampleAnnouncement(hook, null, 0), /nothing is wrong/, hook.name);
});

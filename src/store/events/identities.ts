/**
 * Whom each anonymous id and each former user id belongs to: (id, kind, user_id), for both databases alike. Ids that are
 * missing belong to themselves, or as anonymous ids to nobody.
 *
 * An anonymous id belongs to the first user who was identified with it, or to whom it was aliased. A user id that was
 * aliased belongs to the user of its latest alias, along the chain to its end. In a circle the latest alias decides.
 *
 * @param links - the view `identity_links`
 */
export function identitiesQuery(links: string, binary = ''): string {
  const order = (direction: string) =>
    `"timestamp" ${direction}, received_at ${direction}, message_id${binary} ${direction}`;
  return `WITH RECURSIVE aliased AS (
  SELECT DISTINCT ON (id) id, user_id, "timestamp", received_at, message_id FROM ${links}
  WHERE kind = 'alias' AND id <> user_id
  ORDER BY id, ${order('DESC')}
), reached (id, current) AS (
  SELECT id, user_id FROM aliased
  UNION
  SELECT reached.id, aliased.user_id FROM reached JOIN aliased ON aliased.id = reached.current
), circled AS (
  SELECT DISTINCT ON (reached.id) reached.id, aliased.user_id
  FROM reached JOIN reached AS circle ON circle.id = circle.current AND circle.id = reached.current
  JOIN aliased ON aliased.id = reached.current
  ORDER BY reached.id, aliased."timestamp" DESC, aliased.received_at DESC, aliased.message_id${binary} DESC
), former AS (
  SELECT id, current AS user_id FROM reached WHERE NOT EXISTS (SELECT 1 FROM aliased WHERE aliased.id = reached.current)
  UNION ALL
  SELECT id, user_id FROM circled WHERE id <> user_id
), owned AS (
  SELECT DISTINCT ON (id) id, user_id FROM ${links} ORDER BY id, ${order('ASC')}
)
SELECT id, 'user' AS kind, user_id FROM former
UNION ALL
SELECT owned.id, 'anonymous' AS kind, coalesce(former.user_id, owned.user_id) AS user_id
FROM owned LEFT JOIN former ON former.id = owned.user_id`;
}

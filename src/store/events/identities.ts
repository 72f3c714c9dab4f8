/**
 * Return a query for the owner of each anonymous and former user id: (id, kind, user_id), for both databases. Other ids
 * belong to themselves, or to nobody if they are anonymous.
 *
 * An anonymous id belongs to the first user identified with it, or to whom it was aliased. An aliased user id belongs
 * to the user of its latest alias, along the chain to its end. In a circle the latest alias decides.
 *
 * Chains are followed in leaps that double in length, so long ones cost little more than short ones.
 *
 * @param links - the view `identity_links`
 */
export function identitiesQuery(links: string, binary = ''): string {
  const order = (direction: string) =>
    `"timestamp" ${direction}, received_at ${direction}, message_id${binary} ${direction}`;
  return `WITH RECURSIVE latest AS (
  SELECT DISTINCT ON (id) id, user_id, "timestamp", received_at, message_id FROM ${links}
  WHERE kind = 'alias' AND id <> user_id
  ORDER BY id, ${order('DESC')}
), aliased AS (
  SELECT id, user_id, row_number() OVER (ORDER BY ${order('ASC')}) AS place, count(*) OVER () AS aliases FROM latest
), leap (id, current, newest, length, aliases) AS (
  SELECT id, user_id, lpad(CAST(place AS varchar), ${PLACE}, '0') || user_id${binary}, CAST(1 AS bigint), aliases FROM aliased
  UNION ALL
  SELECT id, coalesce(further, current), greatest(newest, further_newest), 2 * length, aliases FROM (
    SELECT *, bool_or(asks AND further IS NOT NULL) OVER () AS goes_on FROM (${withFurther('leap')}) AS seen
  ) AS leaping WHERE asks AND goes_on AND length < aliases
), arrived AS (
  SELECT id, current, newest FROM (SELECT *, max(length) OVER () AS most FROM leap) AS leaps WHERE length = most
), former AS (
  SELECT id, user_id FROM (
    SELECT id, CASE WHEN further IS NULL THEN current ELSE substr(further_newest, ${PLACE + 1}) END AS user_id
    FROM (${withFurther('arrived')}) AS seen WHERE asks
  ) AS ended WHERE id <> user_id
), claimed AS MATERIALIZED (
  SELECT id, min(user_id${binary}) AS user_id, max(user_id${binary}) AS other FROM ${links} GROUP BY id
), owned AS (
  SELECT id, user_id FROM claimed WHERE user_id = other
  UNION ALL
  SELECT id, user_id FROM (
    SELECT DISTINCT ON (id) id, user_id FROM ${links} WHERE id IN (SELECT id FROM claimed WHERE user_id <> other)
    ORDER BY id, ${order('ASC')}
  ) AS first
)
SELECT id, 'user' AS kind, user_id FROM former
UNION ALL
SELECT owned.id, 'anonymous' AS kind, coalesce(former.user_id, owned.user_id) AS user_id
FROM owned LEFT JOIN former ON former.id = owned.user_id`;
}

/** Digits of an alias's place among all, which precede the user that it names. */
const PLACE = 19;

/**
 * Return a query for rows of (id, current, newest, …), each with the id that its current id leads to and the newest
 * alias on that way; null if it leads nowhere. Each row occurs twice, once with `asks`. It sorts rather than joins: a
 * database that expects few rows would compare each with each.
 */
function withFurther(rows: string): string {
  return `SELECT *, max(CASE WHEN asks THEN NULL ELSE current END) OVER same AS further,
      max(CASE WHEN asks THEN NULL ELSE newest END) OVER same AS further_newest
    FROM ${rows} CROSS JOIN (VALUES (TRUE), (FALSE)) AS side(asks)
    WINDOW same AS (PARTITION BY CASE WHEN asks THEN current ELSE id END)`;
}

// The server's lists, which browsers can't import: test/admin/page-lists.test.ts holds them to it.

export const REASONS = [
  'refused',
  'expired',
  'tls_untrusted',
  'address_refused',
  'destination_removed',
  'undeliverable',
  'queue_full',
];
export const KINDS = ['identify', 'track', 'page', 'screen', 'group', 'alias', 'delete'];
export const OUTCOMES = ['success', 'retry', 'refused', 'tls_untrusted', 'address_refused', 'skipped'];
export const STATES = ['waiting', 'dead', 'delivered'];

// The peers are installed on first use only; the type check must do without them.
declare module '@octokit/webhooks';
declare module 'bullmq';
declare module 'fastify-raw-body';
declare module 'standardwebhooks';
declare module 'stripe';
declare module 'svix';
declare module 'graphile-worker';
declare module 'pg-boss';

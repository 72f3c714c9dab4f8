import { existsSync } from 'node:fs';
import { type Browser, chromium } from 'playwright-core';

/** Where Debian's packages have it. The one without windows takes less of everything. */
const CHROMIUM = ['/usr/bin/chromium-headless-shell', '/usr/bin/chromium'].find((path) => existsSync(path));

/** For tap: why browser tests are skipped, or false. */
export const withoutBrowser: string | false = CHROMIUM ? false : 'chromium is not installed';

export function launchBrowser(): Promise<Browser> {
  const args = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking'];
  return chromium.launch({ ...(CHROMIUM && { executablePath: CHROMIUM }), args });
}

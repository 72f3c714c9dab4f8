import { createHmac, hash, type KeyObject } from 'node:crypto';

const blockBytes = 64;
const digestBytes = 20;
/** The longest body that is worth a copy. */
const mostBytes = 64 * 1024;

/** Key blocks of HMAC, already combined with the constants of its inner and outer hash. */
interface Blocks {
  inner: Uint8Array;
  outer: Uint8Array;
}

const blocksOf = new WeakMap<KeyObject, Blocks>();

// Filled and hashed without a break in between, so that one of each is enough.
const innerInput = Buffer.alloc(blockBytes + mostBytes);
const outerInput = Buffer.alloc(blockBytes + digestBytes);

function makeBlocks(key: KeyObject): Blocks {
  const secret = key.export();
  if (secret.length === 0) throw new TypeError('a shared secret must not be empty');
  const block = Buffer.alloc(blockBytes);
  block.set(secret.length > blockBytes ? hash('sha1', secret, 'buffer') : secret);
  const blocks = { inner: block.map((byte) => byte ^ 0x36), outer: block.map((byte) => byte ^ 0x5c) };
  blocksOf.set(key, blocks);
  return blocks;
}

/**
 * HMAC-SHA1 in lowercase hexadecimal, put together from two one-shot hashes as RFC 2104 defines it. `createHmac`
 * makes an object with native memory for each call, and freeing it costs a busy receiver more than hashing 1 KB.
 */
export function hmacSha1(key: KeyObject, body: Uint8Array): string {
  const { inner, outer } = blocksOf.get(key) ?? makeBlocks(key);
  if (body.length > mostBytes) return createHmac('sha1', key).update(body).digest('hex');
  innerInput.set(inner);
  innerInput.set(body, blockBytes);
  outerInput.set(outer);
  outerInput.write(hash('sha1', innerInput.subarray(0, blockBytes + body.length)), blockBytes, 'hex');
  return hash('sha1', outerInput);
}

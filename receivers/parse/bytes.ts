// Node's `Buffer` decodes and joins faster than the Web standards, which are all that edge runtimes have.
const hasBuffer = typeof globalThis.Buffer === 'function';
const decoder = new TextDecoder('utf-8', { ignoreBOM: true });
const encoder = new TextEncoder();

/** Always false on edge runtimes. */
export const isBuffer = (bytes: Uint8Array): bytes is Buffer => hasBuffer && Buffer.isBuffer(bytes);

/** Decodes UTF-8. Replaces invalid bytes. */
export function textOf(bytes: Uint8Array): string {
  return isBuffer(bytes) ? bytes.toString('utf8') : decoder.decode(bytes);
}

/** Encodes UTF-8, as a `Buffer` if the runtime has it. */
export function bytesOf(text: string): Buffer {
  return hasBuffer ? Buffer.from(text) : (encoder.encode(text) as Buffer);
}

/** Joins bytes, as a `Buffer` if the runtime has it. */
export function joined(parts: readonly Uint8Array[], size: number): Buffer {
  if (hasBuffer) return Buffer.concat(parts, size);
  const bytes = new Uint8Array(size);
  let at = 0;
  for (const part of parts) {
    bytes.set(part, at);
    at += part.length;
  }
  return bytes as Buffer;
}

// Posts notices as Standard Webhooks (https://www.standardwebhooks.com): the signature lets the
// receiver check origin and integrity, and reject replays.
import { createHmac } from 'node:crypto';
import { readFileSync, statSync } from 'node:fs';
import { toTimestamp } from '../../../platform/clock.ts';
import type { SigningKey } from '../../../platform/signed-json.ts';
import { fault } from '../../../wire/errors.ts';

export type PostNotice = (notice: { id: string; body: string; nowMs: number }) => Promise<void>;
export type SignNotice = (content: string) => string;

const SECRET_CHARS_MIN = 24;

/** Signs as `v1` with the shared secret if there is one, else as `v1a` with approvald's key. */
export function makeNoticeSigner(secretFile: string | undefined, signing: SigningKey): SignNotice {
  if (secretFile === undefined)
    return (content) => `v1a,${signing.signBytes(Buffer.from(content)).toString('base64')}`;
  const secret = readSecret(secretFile);
  return (content) => `v1,${createHmac('sha256', secret).update(content).digest('base64')}`;
}

function readSecret(file: string): Buffer {
  let text: string;
  try {
    const mode = statSync(file).mode & 0o777;
    if ((mode & 0o077) !== 0)
      throw fault('bad_config', `${file} has mode ${mode.toString(8)}, so others could sign`, {
        hint: `chmod 600 ${file}`,
      });
    text = readFileSync(file, 'utf8').trim();
  } catch (cause) {
    if ((cause as { code?: string }).code !== 'ENOENT') throw cause;
    throw fault('bad_config', `webhook secret file ${file} not found`, { cause });
  }
  if (text.length < SECRET_CHARS_MIN)
    throw fault('bad_config', `${file} has fewer than ${SECRET_CHARS_MIN} characters`);
  return text.startsWith('whsec_') ? Buffer.from(text.slice(6), 'base64') : Buffer.from(text);
}

/** Allows http only to this host: a notice names people and what they decide. */
export function assertWebhookUrl(url: string): void {
  const { protocol, hostname } = new URL(url);
  const isLocal = hostname === '127.0.0.1' || hostname === '[::1]' || hostname === 'localhost';
  if (protocol === 'https:' || isLocal) return;
  throw fault('bad_config', `the webhook ${url} would be sent unencrypted to another host`, {
    hint: 'Use https.',
  });
}

export function makeWebhook(options: {
  url: string;
  sign: SignNotice;
  timeoutMs: number;
}): PostNotice {
  return async ({ id, body, nowMs }) => {
    const seconds = Math.floor(nowMs / 1000);
    const response = await fetch(options.url, {
      method: 'POST',
      redirect: 'error',
      signal: AbortSignal.timeout(options.timeoutMs),
      headers: {
        'content-type': 'application/json',
        'user-agent': 'agentd-approvald',
        'webhook-id': id,
        'webhook-timestamp': String(seconds),
        'webhook-signature': options.sign(`${id}.${seconds}.${body}`),
      },
      body,
    });
    await response.body?.cancel();
    if (!response.ok)
      throw new Error(`${options.url} returned ${response.status} at ${toTimestamp(nowMs)}`);
  };
}

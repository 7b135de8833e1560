// Chooses the version of Anthropic's API and passes a caller's betas on. The newest version rejects
// sampling settings, even defaults, so a body that has them is sent as the version before.
import { fault } from '../../../../wire/errors.ts';
import type { JsonObject } from '../reading.ts';

const VERSION = '2026-10-21';
const VERSION_WITH_SAMPLING = '2023-06-01';

/** For a body that modeld writes, or whose caller names no version. */
export function chooseVersion(body: JsonObject): string {
  const samples = 'temperature' in body || 'top_p' in body || 'top_k' in body;
  return samples ? VERSION_WITH_SAMPLING : VERSION;
}

const HEADER_CHARS_MAX = 4_096;
/** A version is a date; betas are names separated by commas. */
const VALUES = { 'anthropic-version': /^[\w.-]+$/, 'anthropic-beta': /^[\w.,: -]+$/ } as const;

/** A caller's own version takes precedence: it wrote the body for that one. */
export function passHeaders(
  body: JsonObject,
  given: Readonly<Record<string, string>>,
): Record<string, string> {
  const headers: Record<string, string> = { 'anthropic-version': chooseVersion(body) };
  for (const [name, pattern] of Object.entries(VALUES)) {
    const value = given[name]?.trim() ?? '';
    if (value === '') continue;
    if (value.length > HEADER_CHARS_MAX || !pattern.test(value))
      throw fault('bad_request', `the header ${name} has a value that cannot be passed on`);
    headers[name] = value;
  }
  return headers;
}

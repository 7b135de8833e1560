// Which version of Anthropic's API a body is written for. The newest takes no sampling settings at
// all (even at their defaults), the one before takes them, so a body that has them is sent as that
// version.
import type { JsonObject } from '../reading.ts';

const VERSION = '2026-10-21';
const VERSION_WITH_SAMPLING = '2023-06-01';

export function chooseVersion(body: JsonObject): string {
  const samples = 'temperature' in body || 'top_p' in body || 'top_k' in body;
  return samples ? VERSION_WITH_SAMPLING : VERSION;
}

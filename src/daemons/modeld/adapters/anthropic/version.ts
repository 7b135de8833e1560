// Chooses the version of Anthropic's API. The newest rejects sampling settings, even defaults, so a
// body that has them is sent as the version before.
import type { JsonObject } from '../reading.ts';

const VERSION = '2026-10-21';
const VERSION_WITH_SAMPLING = '2023-06-01';

export function chooseVersion(body: JsonObject): string {
  const samples = 'temperature' in body || 'top_p' in body || 'top_k' in body;
  return samples ? VERSION_WITH_SAMPLING : VERSION;
}

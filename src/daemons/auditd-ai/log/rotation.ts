// Formats and parses the key rotation event. Its line has one exact beginning that only the log can
// write, so that no caller can introduce a key of its own.
import { fault } from '../../../wire/errors.ts';

const ID = 'audit.key_rotated:';
const BODY_HEAD = `{"id":"${ID}`;
const LINE = new RegExp(`^\\{"seq":[0-9]+,"id":"${ID.replace('.', '\\.')}`);

export type Rotation = { oldKey: string; newKey: string };

export function formatRotation(
  rotation: Rotation & { nowMs: number; about: Record<string, unknown> },
): string {
  const [, keyId] = rotation.newKey.split('+');
  return JSON.stringify({
    id: `${ID}${keyId}`,
    ...rotation.about,
    ts: new Date(rotation.nowMs).toISOString(),
    event: 'audit.key_rotated',
    data: { old_key: rotation.oldKey, new_key: rotation.newKey },
  });
}

export function refuseRotation(body: string): void {
  if (!body.startsWith(BODY_HEAD)) return;
  throw fault('bad_request', `an event id may not begin with ${ID}: only the log rotates its keys`);
}

export function parseRotation(line: string): Rotation | undefined {
  if (!LINE.test(line)) return undefined;
  const { data } = JSON.parse(line) as { data?: { old_key?: unknown; new_key?: unknown } };
  if (typeof data?.old_key !== 'string' || typeof data.new_key !== 'string') return undefined;
  return { oldKey: data.old_key, newKey: data.new_key };
}

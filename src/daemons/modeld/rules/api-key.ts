// Rules of API keys: whether a secret works at a time, and which models a key may use.
import { fitsPattern } from '../../../platform/name-pattern.ts';
import { type Fault, fault } from '../../../wire/errors.ts';

export type KeyTimes = { name: string; expiresMs: number | null; revokedMs: number | null };
export type SecretTimes = { endsMs: number | null };
export type KeyEnd = 'revoked' | 'expired' | 'rotated';

const REPLACE = 'Create another: agentctl key create NAME.';

export function readKeyStatus(
  { expiresMs, revokedMs }: KeyTimes,
  nowMs: number,
): 'active' | 'expired' | 'revoked' {
  if (revokedMs !== null) return 'revoked';
  return expiresMs !== null && expiresMs <= nowMs ? 'expired' : 'active';
}

/** Returns why this secret of the key no longer works. */
export function findKeyEnd(
  key: KeyTimes,
  { endsMs }: SecretTimes,
  nowMs: number,
): KeyEnd | undefined {
  const status = readKeyStatus(key, nowMs);
  if (status !== 'active') return status;
  return endsMs !== null && endsMs <= nowMs ? 'rotated' : undefined;
}

export function keyEndFault(key: KeyTimes, { endsMs }: SecretTimes, end: KeyEnd): Fault {
  const at = (ms: number | null) => new Date(ms ?? 0).toISOString();
  const details = { reason: end, key: key.name };
  if (end === 'revoked')
    return fault('unauthenticated', `key ${key.name} was revoked at ${at(key.revokedMs)}`, {
      hint: REPLACE,
      details,
    });
  if (end === 'expired')
    return fault('unauthenticated', `key ${key.name} expired at ${at(key.expiresMs)}`, {
      hint: REPLACE,
      details,
    });
  return fault('unauthenticated', `this secret of key ${key.name} ended at ${at(endsMs)}`, {
    hint: `Use the secret that agentctl key rotate ${key.name} printed.`,
    details,
  });
}

export function modelNotAllowedFault(
  name: string,
  model: string,
  models: readonly string[],
): Fault {
  return fault('denied', `key ${name} may not use model ${model.slice(0, 128)}`, {
    hint: `It may use: ${models.join(', ')}. List what there is: GET …/v1/models with this key.`,
    details: { reason: 'model', key: name },
  });
}

export function isModelAllowed(patterns: readonly string[] | null, model: string): boolean {
  return patterns === null || patterns.some((pattern) => fitsPattern(pattern, model));
}

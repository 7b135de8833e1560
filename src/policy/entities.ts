// Builds the Cedar entities of a request with their parents: a tool's capabilities, a path's
// directories, an agent's groups. Pure.
import { findGrantingCapabilities } from './capabilities.ts';
import { matchingSuffixes, parseHost } from './hosts.ts';
import { canonicalPath, pathsAbove } from './paths.ts';
import type { EntityUid } from './principals.ts';
import type { PolicyContext, ResourceType } from './request.ts';

export type EntityParents = { uid: EntityUid; parents: EntityUid[] };
export type PlaceResult = { ok: true; placed: EntityParents } | { ok: false; problem: string };

const SCOPE = /^[a-z][a-z0-9_-]*(:[A-Za-z0-9._-]+(\/[A-Za-z0-9._-]+)*)?$/;

/** Returns the scopes above: project:app/coder is in project:app, which is in project. */
export function scopesAbove(scope: string): string[] {
  const [kind = '', rest] = scope.split(':', 2);
  if (rest === undefined) return [];
  const parts = rest.split('/');
  const above = parts.slice(1).map((_, i) => `${kind}:${parts.slice(0, i + 1).join('/')}`);
  return [...above.reverse(), kind];
}

export const isScope = (text: string): boolean =>
  SCOPE.test(text) && !text.split(/[:/]/).some((part) => part === '.' || part === '..');

const toUids = (type: string, ids: readonly string[]): EntityUid[] =>
  ids.map((id) => ({ type, id }));

/** Returns a resource with its parents. Rejects every spelling but the canonical one. */
export function placeResource(resource: { type: ResourceType; id: string }): PlaceResult {
  const { type, id } = resource;
  const placed = (parents: EntityUid[]): PlaceResult => ({
    ok: true,
    placed: { uid: { type, id }, parents },
  });
  const reject = (problem: string): PlaceResult => ({
    ok: false,
    problem: `cannot decide about ${JSON.stringify(id.slice(0, 200))}: ${problem}`,
  });
  if (type === 'Path') {
    const found = canonicalPath(id);
    return found.ok ? placed(toUids('Path', pathsAbove(id))) : reject(found.problem);
  }
  if (type === 'Host') {
    const host = parseHost(id);
    if ('problem' in host) return reject(host.problem);
    if (host.value.name !== id) return reject(`its canonical form is ${host.value.name}`);
    return placed(toUids('Host', matchingSuffixes(host.value)));
  }
  if (type === 'Scope') {
    return isScope(id) ? placed(toUids('Scope', scopesAbove(id))) : reject('it is not a scope');
  }
  // A tool's own name always counts as a capability that grants it.
  if (type === 'Tool')
    return placed(toUids('Capability', [...new Set([...findGrantingCapabilities(id), id])]));
  return placed([]);
}

const CONTEXT_KEYS: Partial<Record<ResourceType, string>> = {
  Tool: 'tool',
  Path: 'path',
  Host: 'host',
  Scope: 'scope',
  Model: 'model',
};

/** Returns how the context contradicts the resource: rules may refer to either. */
export function contradiction(
  { type, id }: { type: ResourceType; id: string },
  context: PolicyContext,
): string | undefined {
  const name = CONTEXT_KEYS[type];
  if (name !== undefined && context[name] !== id) return `${name} is not ${id}`;
  if (type !== 'Host') return undefined;
  const host = parseHost(id);
  const isRight = 'value' in host && context.is_address === (host.value.ip !== undefined);
  return isRight ? undefined : 'is_address is wrong';
}

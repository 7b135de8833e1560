// Who and what a question is about, with everything they are in: a tool in its capabilities, a path
// in the directories above it, an agent in its groups. Pure.
import { wordsGranting } from './capabilities.ts';
import { parseHost, suffixesOf } from './hosts.ts';
import { canonicalPath, pathsAbove } from './paths.ts';
import type { PolicyContext, ResourceType } from './request.ts';

export type EntityUid = { type: string; id: string };
export type EntityParents = { uid: EntityUid; parents: EntityUid[] };
export type PlaceResult = { ok: true; placed: EntityParents } | { ok: false; problem: string };

const KINDS: Readonly<Record<string, string>> = {
  agent: 'Agent',
  person: 'Person',
  service: 'Service',
  external: 'External',
};

/** agent:coder → Agent::"coder". */
export function readPrincipal(principal: string): EntityUid | undefined {
  const at = principal.indexOf(':');
  const type = KINDS[principal.slice(0, at)];
  const id = principal.slice(at + 1);
  return at < 0 || type === undefined || id === '' ? undefined : { type, id };
}

const SCOPE = /^[a-z][a-z0-9_-]*(:[A-Za-z0-9._-]+(\/[A-Za-z0-9._-]+)*)?$/;

/** project:app/coder lies in project:app, which lies in project. */
export function scopesAbove(scope: string): string[] {
  const [kind = '', rest] = scope.split(':', 2);
  if (rest === undefined) return [];
  const parts = rest.split('/');
  const above = parts.slice(1).map((_, i) => `${kind}:${parts.slice(0, i + 1).join('/')}`);
  return [...above.reverse(), kind];
}

export const isScope = (text: string): boolean =>
  SCOPE.test(text) && !text.split(/[:/]/).some((part) => part === '.' || part === '..');

const at = (type: string, ids: readonly string[]): EntityUid[] => ids.map((id) => ({ type, id }));

/** A resource in its place; anything but its one canonical spelling is refused. */
export function placeResource(resource: { type: ResourceType; id: string }): PlaceResult {
  const { type, id } = resource;
  const placed = (parents: EntityUid[]): PlaceResult => ({
    ok: true,
    placed: { uid: { type, id }, parents },
  });
  const odd = (problem: string): PlaceResult => ({
    ok: false,
    problem: `${JSON.stringify(id.slice(0, 200))} cannot be decided about: ${problem}`,
  });
  if (type === 'Path') {
    const found = canonicalPath(id);
    return found.ok ? placed(at('Path', pathsAbove(id))) : odd(found.problem);
  }
  if (type === 'Host') {
    const host = parseHost(id);
    if ('problem' in host) return odd(host.problem);
    if (host.value.name !== id) return odd(`its canonical form is ${host.value.name}`);
    return placed(at('Host', suffixesOf(host.value)));
  }
  if (type === 'Scope') {
    return isScope(id) ? placed(at('Scope', scopesAbove(id))) : odd('it is not a scope');
  }
  if (type === 'Tool') return placed(at('Capability', capabilitiesOf(id)));
  return placed([]);
}

const SAID_AGAIN: Partial<Record<ResourceType, string>> = {
  Tool: 'tool',
  Path: 'path',
  Host: 'host',
  Scope: 'scope',
  Model: 'model',
};

/** Rules may look at the thing or at its name: both must say the same. */
export function contradiction(
  { type, id }: { type: ResourceType; id: string },
  context: PolicyContext,
): string | undefined {
  const name = SAID_AGAIN[type];
  if (name !== undefined && context[name] !== id) return `${name} is not ${id}`;
  if (type !== 'Host') return undefined;
  const host = parseHost(id);
  const isRight = 'value' in host && context.is_address === (host.value.ip !== undefined);
  return isRight ? undefined : 'is_address is wrong';
}

/** The words that grant a tool; its own name is always one of them. */
function capabilitiesOf(tool: string): string[] {
  return [...new Set([...wordsGranting(tool), tool])];
}
